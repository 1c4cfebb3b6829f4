# The only entrance: `make` alone tells what there is.

CARGO ?= cargo
PORT ?= 6399
DESTDIR ?=
# Debian's unit of redis-server lets it map code from /usr/lib, but not from /usr/local or /opt.
MODULEDIR ?= /usr/lib/redis/modules

export CARGO PORT

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
SO := $(TARGET_DIR)/release/librlock.so
INSTALLED := $(MODULEDIR)/librlock.so
# setup writes it; it tells where the server is, and libclang when it is nowhere usual.
ENV := . ./.deps/env;
# What measures is a workspace of its own, which shares the folder of what is built.
LAB := --locked --manifest-path lab/Cargo.toml --target-dir $(TARGET_DIR)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run free-port build test model fuzz mutants chaos matrix cluster interop clients bench lab leaks alloc cost older jobs ci-full lint msrv deny docs deb deb-test exporter kubernetes images targets target-tests packages client-packages dist addresses install uninstall setup clean

help: ## Show this help
	@echo "usage: make TARGET [NAME=VALUE]..."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PORT=$(PORT)  MODULEDIR=$(MODULEDIR)  DESTDIR=$(DESTDIR)  CARGO=$(CARGO)"
	@echo "  REDIS_SERVER and REDIS_CLI name other programs than those on PATH."

run: free-port build ## Build, then run a server with the module on PORT until Ctrl-C
	@export USER_PATH="$$PATH"; $(ENV) exec ./scripts/run.sh

free-port: setup
	@$(ENV) ./scripts/run.sh --check

build: setup ## Build target/release/librlock.so
	@$(ENV) $(CARGO) build --release --locked
	@# Redis takes any name, but redis.conf and the tests say .so on every system.
	@if [ -e $(TARGET_DIR)/release/librlock.dylib ]; then \
		cp $(TARGET_DIR)/release/librlock.dylib $(SO); fi

# cargo test builds no .so that a server could load: the script calls `build`, too. Its own profile has overflow checks and debug
# assertions in the code under test.
test: setup ## Run every test, those against real servers included
	@$(ENV) ./scripts/test.sh

# Not the shell's own SECONDS: the script gets it as an argument.
SECONDS = 60
fuzz: setup ## Run the fuzz targets side by side for SECONDS=60, or one of them: TARGET=arguments
	@$(ENV) ./scripts/fuzz.sh '$(SECONDS)' '$(TARGET)'

# ONLY='valkey-* redis-8.6' runs fewer of them, EXCEPT=redis-7.0 all but that.
ONLY ?= *
EXCEPT ?=
# On these the tests of the client and the command too.
CLIENTS ?= valkey-9.1 redis-8.6
# WITHOUT='stalls leaks' leaves out these tests of the module.
WITHOUT ?=
matrix: build ## Run every test on every supported server: Redis, Valkey, Redict
	@$(ENV) CLIENTS='$(CLIENTS)' WITHOUT='$(WITHOUT)' ./integration/matrix.sh '$(ONLY)' '$(EXCEPT)'

# PART=clients runs only the clients of all languages in planned fail-overs, with leases of LEASE=3 seconds.
PART ?=
LEASE ?= 3
cluster: build ## Run what needs many servers at a time: Sentinel, clusters with replicas
	@$(ENV) LEASE=$(LEASE) ./integration/cluster.sh '$(ONLY)' '$(PART)'

# ONLY='go ioredis' runs fewer of them, ONLY=long those that take long. What is missing of the languages is installed, or named.
interop: build ## Run the module with Redisson and with clients of other languages
	@$(ENV) ./scripts/programs.sh rlock-interop
	@$(ENV) ./integration/interop/tools.sh $(TARGET_DIR)/debug/rlock-interop $(filter-out *,$(ONLY))

# ONLY='python javascript' runs fewer of them. SCENARIO=cut_while runs those scenarios and nothing else, LONG=1 the suite with those
# that take minutes. MIXED=seconds lets all clients and Redisson contend for one lock while connections break, MOVES=all while an operator
# replaces the primary, with leases of LEASE=3 seconds. Without SCENARIO, MIXED and MOVES, each package's own check.sh comes first, with at most CLIENT_SECONDS=900, and with LONG=1 it tries the oldest drivers too. What is
# missing of the languages is named.
MIXED ?=
MOVES ?=
SCENARIO ?=
LONG ?=
clients: build ## Check the clients' packages, and run the conformance suite with all of them
	@$(ENV) ./scripts/programs.sh rlock-conformance rlock-conformance-driver
	@$(ENV) $(if $(SCENARIO)$(MIXED)$(MOVES),,$(if $(LONG),OLDEST=1) ./scripts/clients.sh $(filter-out *,$(ONLY)))
	@$(ENV) $(TARGET_DIR)/debug/rlock-conformance $(filter-out *,$(ONLY)) $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(LONG),--long) $(if $(MIXED),--mixed $(MIXED)) $(if $(MOVES),--moves $(MOVES) --lease $(LEASE))

# QUICK=1 takes a few minutes, ONLY=memory runs one part; neither stores anything. ONLY=stalls, client, clients or redisson is stored beside
# the other results of its server; with BEFORE=COMMIT, the Rust client beside that of this commit, too. SERVER names another server,
# of which ONLY=targets is stored: what the table of targets shows. ONLY=systems installs other systems and measures them too,
# ONLY=scale measures where one server ends, ONLY=threads where the time of a lock goes and what I/O threads change, ONLY=fleet lets a
# fleet of Redisson move to the Java client and back, and, without QUICK=1, measures its holds for docs/clients/from-redisson.md; a run of
# everything leaves these out.
BEFORE ?=
bench: build ## Measure what rlock costs, and remake docs/BENCHMARKS.md
	@$(ENV) $(if $(SERVER),RLOCK_TEST_SERVER="$(SERVER)") RLOCK_BEFORE='$(BEFORE)' $(CARGO) run --release $(LAB) -- \
		$(if $(QUICK),--quick) $(filter-out *,$(ONLY))

lab: build ## Check what `make bench` runs: formatting, clippy, its documentation, its tests
	$(CARGO) fmt --all --check --manifest-path lab/Cargo.toml
	@$(ENV) set -x; $(CARGO) clippy --workspace --all-targets $(LAB) -- -D warnings
	@$(ENV) set -x; RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps $(LAB)
	@$(ENV) set -x; $(CARGO) test --workspace $(LAB)

leaks: build ## A million contended cycles leave no memory behind; the module in valgrind
	@$(ENV) RLOCK_LEAK_CYCLES="$${RLOCK_LEAK_CYCLES:-1000000}" ./scripts/in_valgrind.sh leaks

alloc: build ## Run tests on a server whose blocks are aligned to a word only
	@$(ENV) ./scripts/alloc.sh

# STORE=1 stores them for docs/BENCHMARKS.md; SERVER names another server. ONLY=hand_offs counts hand-offs only: their earlier
# figures are known for Redis 7.0 and 8.6 and Valkey 9.1, the others' for Redis 7.0. ONLY=limit counts what no module can avoid.
STORE ?=
cost: build ## Count the instructions of a plain lock and of hand-offs, against what they were
	@$(ENV) $(if $(SERVER),RLOCK_TEST_SERVER="$(SERVER)") RLOCK_COST_STORE='$(STORE)' ./scripts/in_valgrind.sh cost $(filter-out *,$(ONLY))
	@$(ENV) $(if $(STORE),$(CARGO) run --quiet --release $(LAB) -- render,:)

older: build ## Restart servers with the module of an older commit, and back
	@$(ENV) ./scripts/older.sh

# STARTS=1000 are the times at which three machines start a job. DOC=1 stores the figures in docs/jobs.json, and remakes those in docs/JOBS.md.
STARTS ?= 80
jobs: build ## Count how often a job of three machines runs, with kills and a fail-over, and measure how soon another one leads
	@$(ENV) RLOCK_STARTS='$(STARTS)' RLOCK_JOBS_DOC='$(DOC)' $(CARGO) test --locked -p rlock-cli --test machines -- --nocapture

# DEEPER=1 explores one step more, in about six times the time; SCENE names one scene.
DEEPER ?= 0
model: setup ## Explore every interleaving of rlock-core to a bounded depth
	@$(ENV) $(CARGO) run --quiet --release --locked -p rlock-model -- --deeper $(DEEPER) $(if $(SCENE),--scene $(SCENE))

# NAME='a b' applies only these, NAME=check compiles them, NAME=corpus shows them only to the corpus, NAME=stories those of
# the machine only to its stories, NAME=refresh makes the patches anew. MODEL=0 leaves the model out.
NAME ?=
MODEL ?= 1
mutants: setup ## Apply known mistakes to a copy, and show which proof finds which
	@$(ENV) MODEL=$(MODEL) ./scripts/mutants.sh $(NAME)

# SEED and ROUND repeat what a run has printed; DOC=1 remakes the figures in docs/CHAOS.md.
SEED ?=
ROUND ?=
DOC ?=
chaos: build ## Check what many clients saw while faults happened: SECONDS=60
	@$(ENV) ./scripts/programs.sh rlock-chaos
	@$(ENV) $(TARGET_DIR)/debug/rlock-chaos --seconds '$(SECONDS)' --seed '$(SEED)' --round '$(ROUND)' \
		$(if $(DOC),--doc docs/CHAOS.md --json docs/chaos.json)

# What takes longer than a change should wait for.
ci-full: setup ## All that .ci/run does, and the long runs: deeper, longer, in valgrind
	@$(ENV) ./scripts/ci_full.sh

lint: setup ## Check formatting, lengths, cycles, manifests, clippy, the documentation, shell scripts and the workflow
	@for tool in fmt clippy; do \
		$(CARGO) $$tool --version >/dev/null 2>&1 || { \
			echo "lint: cargo $$tool is missing: rustup component add rustfmt clippy" >&2; exit 1; }; \
	done
	$(CARGO) fmt --all --check
	@! git grep -nE '^(<{7}|>{7}) ' || { echo "lint: a merge left these lines" >&2; exit 1; }
	./scripts/lengths.sh
	./scripts/cycles.sh
	./scripts/mutants.sh lint
	./scripts/crates.sh
	./scripts/names.sh
	@$(ENV) set -x; $(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@# Those that only `make cluster` runs.
	@$(ENV) set -x; $(CARGO) clippy --workspace --test jobs --test machines --test sentinels --test shards --test shard_changes --test shard_moves --locked -- -D warnings
	@# Beside an example for its features: scripts/programs.sh.
	@$(ENV) set -x; RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --lib --example clock $(addprefix --bin rlock-,chaos docs interop model conformance-driver)
	@for tool in shellcheck yamllint; do \
		if ! command -v $$tool >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
			echo "lint: installing $$tool" >&2; apt-get update -qq >&2; \
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$tool >&2; \
		fi; \
		command -v $$tool >/dev/null 2>&1 || { \
			echo "lint: $$tool is missing, what it checks is not checked: install the package $$tool" >&2; exit 1; }; \
	done
	yamllint -d '{extends: relaxed, rules: {line-length: {max: 130}}}' .github/workflows packaging
	shellcheck scripts/*.sh integration/*.sh integration/interop/*.sh .ci/run

msrv: setup ## Build with the oldest Rust that is promised
	@$(ENV) ./scripts/msrv.sh

deny: setup ## Check licences, versions, sources and known vulnerabilities of all crates in use
	@$(ENV) ./scripts/deny.sh

# CHROMIUM names a browser. The site is target/site. PLOTS=0 leaves the plots of results out, which the benchmarks draw.
PLOTS ?= 1
docs: setup ## Build the site of all pages, check its links and render it in a browser
	@$(ENV) ./scripts/docs.sh $(PLOTS)

# COMMAND names one that is built already, of any profile; a release has its own.
COMMAND ?=
deb: build ## Make a Debian package of the module and the command, in target/debian
	@$(ENV) $(if $(COMMAND),,$(CARGO) build --release --locked -p rlock-cli &&) \
		./scripts/deb.sh $(SO) $(or $(COMMAND),$(TARGET_DIR)/release/rlock)

deb-test: deb ## Install the package, try it on the distribution's server, and remove it
	@$(ENV) ./scripts/deb-test.sh

exporter: build ## Check the alerts and the dashboard, and scrape the exporter with a real Prometheus
	@$(ENV) ./scripts/exporter.sh

kubernetes: setup ## Check the manifests for Kubernetes against its schemas and the types of Prometheus' operator
	@$(ENV) ./scripts/kubernetes.sh

# As root, on Debian 12. Nothing is installed; what was downloaded stays in target/images.
images: setup ## Build both images on stand-ins for their base images, and try them as packaging/compose.yml says
	@$(ENV) ./scripts/images.sh

# ONLY='x86_64-unknown-linux-musl aarch64-unknown-linux-gnu' builds fewer of them, and tries none.
targets: setup ## Build the module for x86_64 and arm64, glibc 2.17 and musl, with a static command, in target/targets
	@$(ENV) ./scripts/targets.sh $(filter-out *,$(ONLY))
	@$(if $(filter-out *,$(ONLY)),,$(ENV) ./scripts/targets-test.sh)

# Those of ONLY, or all that a server can be had for. What passed is stored in docs/targets.tsv, and shown in docs/INSTALL.md.
target-tests: targets ## Run the module's tests on arm64 (under qemu-user), musl and glibc with the modules of `make targets`
	@$(ENV) ./scripts/target_tests.sh $(filter-out *,$(ONLY))

packages: deb targets ## Make .rpm and .apk for x86_64 and arm64, and .deb for arm64, in target/packages
	@$(ENV) ./integration/interop/tools.sh ./scripts/packages.sh

client-packages: setup ## Build the packages for PyPI, npm and Maven with the project's addresses, and check them; nothing is uploaded
	@$(ENV) ./integration/interop/tools.sh ./scripts/client_packages.sh

# KEY names minisign's secret key. DRAFT=1 gathers them without that and the project's addresses, to look at; nothing publishes a draft.
DRAFT ?=
KEY ?=
dist: override COMMAND :=
dist: addresses deb-test packages ## Gather what a release gives out, in target/dist
	@$(ENV) DRAFT=$(DRAFT) KEY='$(abspath $(KEY))' ./scripts/dist.sh

# First of all: a release without them is refused before anything is built.
addresses:
	@$(if $(DRAFT),,./scripts/addresses.sh require)
	@$(if $(DRAFT)$(wildcard $(KEY)),,echo "dist: KEY names no file: make dist KEY=FILE, minisign's secret key" >&2; exit 1)

# Neither needs setup nor cargo: root often has no Rust of its own.
install: ## Copy the module that was built to DESTDIR/MODULEDIR (with sudo)
	@[ -e $(SO) ] || { echo "install: $(SO) is not built: run 'make build' first, without sudo" >&2; exit 1; }
	install -d -m 0755 "$(DESTDIR)$(MODULEDIR)"
	@# Redis refuses a module without the permission to execute it.
	install -m 0755 $(SO) "$(DESTDIR)$(INSTALLED)"
	@echo
	@echo "Add this line to the server's redis.conf and restart the server:"
	@echo
	@echo "    loadmodule $(INSTALLED)"

uninstall: ## Remove the installed module
	rm -f "$(DESTDIR)$(INSTALLED)"
	@rmdir "$(DESTDIR)$(MODULEDIR)" 2>/dev/null || true
	@echo "Remove the line 'loadmodule $(INSTALLED)' from the server's redis.conf too."

setup: ## Get what the build and the tests need (all the others call it)
	@./scripts/setup.sh

clean: ## Remove what was built or downloaded into the project
	rm -rf $(TARGET_DIR) .deps
