# shellcheck shell=sh disable=SC2154 # mutants_tool is the sourcing script's
# For scripts/mutants.sh and scripts/mutants_chaos.sh, which source it in the project's folder: the mutants, and the one copy
# of the tree in which they are built. Each is mutants/NAME.patch: lines `Wrong:`, `Test:`, `Server:`, `Corpus:` and `Model:`, or `Wrong:`,
# `Story:` and `Scene:`, a line `---`, and what `git diff` printed. The sourcing script says `mutants_tool=NAME` before.

say() { printf '%s: %s\n' "$mutants_tool" "$*" >&2; }
die() {
    say "$@"
    exit 1
}

mkdir -p "${CARGO_TARGET_DIR:-target}/mutants/tree"
# Without links and dots: programs are called by it from other folders.
out=$(cd "${CARGO_TARGET_DIR:-target}/mutants" && pwd)
tree=$out/tree
# The lint runs beside others.
log=$out/log-$$
trap 'rm -f "$log"' EXIT
git_dir=$(git rev-parse --absolute-git-dir) || die "this is no clone of the repository: mutants need git"

mutants=$(find mutants -name '*.patch' | sed 's|^mutants/||; s|\.patch$||' | sort)
[ -n "$mutants" ] || die "there is no mutants/*.patch"

# These mutants, or all.
wanted() {
    for name in "$@"; do
        [ -e "mutants/$name.patch" ] || die "there is no mutants/$name.patch"
    done
    printf '%s\n' "${*:-$mutants}"
}

# A line of a mutant's header.
header() { sed -n "/^---$/q; s/^$2: //p" "mutants/$1.patch"; }

default_server=${RLOCK_TEST_SERVER:-}
servers=$PWD/target/servers

# Lets tests run this server, or the one under test.
use_server() {
    RLOCK_TEST_SERVER=${1:-$default_server}
    export RLOCK_TEST_SERVER
}

# The program of the server that a mutant's test needs; nothing for the one under test.
server_of() { # name
    needed=$(header "$1" Server)
    [ -n "$needed" ] || return 0
    integration/servers.sh "$servers" "$needed*" >&2 || true
    binary=$(awk -F '\t' -v name="$needed" 'index($1, name ".") == 1 { print $6 }' "$servers/servers.tsv" | tail -n 1)
    [ -n "$binary" ] || die "$1 needs a server $needed, which could not be had"
    echo "$binary"
}

# The files that a mutant changes.
touched() { sed -n 's|^+++ b/||p' "mutants/$1.patch"; }

is_of_core() { touched "$1" | grep -q '^crates/rlock-core/'; }

# The machine of the clients, or the model of clients and server: the module has nothing of it.
is_of_machine() { touched "$1" | grep -qE '^(crates/rlock-machine|model)/'; }

# Of these mutants those of the machine, or the others.
of_machine() { for one in $1; do if is_of_machine "$one"; then echo "$one"; fi; done; }
of_module() { for one in $1; do if ! is_of_machine "$one"; then echo "$one"; fi; done; }

# Git with an index of its own, in the copy.
in_tree() { (cd "$tree" && GIT_DIR=$git_dir GIT_WORK_TREE=$tree GIT_INDEX_FILE=$out/index git "$@"); }

# Makes the copy equal to the tree, with all that is not committed. Only files that differ are written, so that cargo
# rebuilds no more than it must.
copy_tree() {
    cp "$(git rev-parse --git-path index)" "$out/index-now"
    GIT_INDEX_FILE=$out/index-now git add --all .
    copied=$(GIT_INDEX_FILE=$out/index-now git write-tree)
    restore_tree
}

restore_tree() { in_tree read-tree --reset -u "$copied"; }

# The copy with this mutant only: the patch is the copy's too, so that work on the tree does not disturb a run.
mutate() {
    restore_tree
    in_tree apply "mutants/$1.patch" || die "$1 does not apply: scripts/mutants.sh refresh"
}

# Builds in the copy, in a target folder of its own: quickly, since nothing here is measured. CARGO may hold arguments, such
# as `cargo +stable`.
# shellcheck disable=SC2086
tree_cargo() { (cd "$tree" && CARGO_TARGET_DIR=$out/target CARGO_INCREMENTAL=1 ${CARGO:-cargo} "$@"); }

build_or_die() { tree_cargo "$@" >"$log" 2>&1 || { cat "$log" >&2; die "cargo $* fails"; }; }

# The module of a profile's folder.
built_module() {
    module=$out/target/$1/librlock.so
    [ -e "$module" ] || module=$out/target/$1/librlock.dylib
}

# The beginning and the end of a list in a page, with the items of standard input between them.
remake_list() { # page, head
    {
        sed '/^<!-- mutants -->$/q' "$1"
        printf '\n%s\n' "$2"
        cat
        printf '\n'
        sed -n '/^<!-- end of mutants -->$/,$p' "$1"
    } >"$out/page"
    cmp -s "$out/page" "$1" || cp "$out/page" "$1"
}
