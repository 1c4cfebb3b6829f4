#!/bin/sh
# Mutants: known mistakes as diffs of production code. Each is applied alone to a copy of the tree, built there, and shown
# to the proofs: the replay of the fuzzer's stored corpus, the model, and the server test that the mutant names. A mutant of
# the clients' machine is shown to the machine's stories and to the scene of the model that it names. A proof that finds no
# mutant shows nothing.
#
#     scripts/mutants.sh [NAME...]            all proofs find all mutants, or these, as their headers say
#     scripts/mutants.sh lint                 each applies exactly and is described as it must be
#     scripts/mutants.sh check [NAME...]      each compiles
#     scripts/mutants.sh corpus [NAME...]     the corpus finds each of the core that it should
#     scripts/mutants.sh stories [NAME...]    the stories find each of the machine that they should
#     scripts/mutants.sh refresh [NAME...]    after changes of production code: makes the patches anew by a 3-way merge
#
# MODEL=0 leaves the model out, which takes more than half of the time.
#
# A test that only some servers can run has a line `Server:` in the header, with a name such as valkey-9.1: the newest of
# that name of integration/servers.sh is used.
#
# A new one: change the code, `git diff --full-index` into mutants/NAME.patch, undo the change, put the header before it.
set -eu
cd "$(dirname "$0")/.."

mutants_tool=mutants
# shellcheck source=scripts/mutant_tree.sh
. scripts/mutant_tree.sh

doc=docs/PROOF.md
began=$(date +%s)
# The test of the core that replays the corpus.
corpus_test='operations the_stored_corpus_passes'
# The test of the machine that plays the stories, and their folder.
stories_test='stories the_machine_plays_every_story'
stories=clients/conformance/machine
# The scenes of the model with clients.
scenes=$(sed -n 's/^ *name: "\(.*\)",$/\1/p' model/src/trips/mod.rs)

seconds() { echo "$(($(date +%s) - began)) s"; }

# --- What needs no build ------------------------------------------------------------------------

failed=0
fault() {
    say "$@"
    failed=1
}

# Whether a patch applies at the very lines that it names; otherwise why not.
applies_exactly() {
    git apply --check --verbose "mutants/$1.patch" >"$log" 2>&1 && ! grep -q 'offset' "$log"
}

# The server test that a mutant names is `FILE TEST`. The program of a test file is that of the room that it stands in.
test_file() { find tests integration -mindepth 2 -maxdepth 2 -name "$1.rs"; }
room_of() { basename "$(dirname "$(test_file "$1")")"; }

test_exists() { # test file, name
    file=$(test_file "$1")
    [ -e "$file" ] && grep -qE "(fn |^ *)$2[(,]" "$file"
}

lint_one() {
    applies_exactly "$1" || fault "$1 does not apply exactly: scripts/mutants.sh refresh $1"
    [ "$(touched "$1" | wc -l)" -le 2 ] || fault "$1 changes more than two files"
    other=$(sed -n 's|^--- \(a/\)\{0,1\}||p; s|^+++ \(b/\)\{0,1\}||p' "mutants/$1.patch" | grep -vE '^(src|crates/rlock-(core|machine)/src|model/src/trips)/[a-z0-9_/]*\.rs$' |
        grep -v '^---$' | head -n 1)
    [ -z "$other" ] || fault "$1 changes $other, which is no production code"
    ! touched "$1" | grep -qE '(^|/|_)tests(\.rs|/)' || fault "$1 changes a test"
    grep -q '^index [0-9a-f]\{40,\}\.\.' "mutants/$1.patch" || fault "$1 lacks the whole ids of its files: git diff --full-index"
    [ -n "$(header "$1" Wrong)" ] || fault "$1 does not say what is wrong"
    if is_of_machine "$1"; then lint_proofs "$1"; else lint_tests "$1"; fi
}

# What finds a mutant of the machine.
lint_proofs() {
    story=$(header "$1" Story) scene=$(header "$1" Scene)
    [ "$story" = no ] || [ -e "$stories/$story.jsonl" ] || fault "$1: there is no story '$story'"
    [ "$scene" = no ] || printf '%s\n' "$scenes" | grep -qx -- "$scene" || fault "$1: there is no scene '$scene' with clients"
    [ "$story $scene" != 'no no' ] || fault "$1 is found by nothing"
    [ -z "$(header "$1" Test)$(header "$1" Corpus)" ] || fault "$1 is of the machine: it has no server test, and nothing of it is in the corpus"
}

# What finds a mutant of the module or its core.
lint_tests() {
    # shellcheck disable=SC2046 # a file and a test
    set -- "$1" $(header "$1" Test)
    if [ $# != 3 ] || ! test_exists "$2" "$3"; then fault "$1: there is no server test '$(header "$1" Test)'"; fi
    for proof in Corpus Model; do
        case $(if is_of_core "$1"; then echo core; fi):$(header "$1" $proof) in
        core:yes | core:no | :) ;;
        *) fault "$1: of a mutant of the core, and of no other, the header says '$proof: yes' or '$proof: no'" ;;
        esac
    done
}

# The counts of the table in the page: the mutants of a kind, and those that the corpus, the model, a server test or story finds.
counts() {
    awk 'FNR == 1 {
            kind = substr(FILENAME, 9, index(FILENAME, "-") - 8)
            kind = kind ~ /^(edge|machine|trips)-$/ ? "`" kind "…`" : "others"
            all[kind]++
            header = 1
        }
        /^---$/ { header = 0 }
        !header { next }
        /^Corpus: yes/ { corpus[kind]++ }
        /^Model: yes/ || /^Scene: / && $2 != "no" { model[kind]++ }
        /^Test: / || /^Story: / && $2 != "no" { test[kind]++ }
        END { for (kind in all) printf "%s | %d | %d | %d | %d |\n", kind, all[kind], corpus[kind], model[kind], test[kind] }' mutants/*.patch
}

lint() {
    for each in $mutants; do lint_one "$each"; done
    sed -n 's/^| \([^|]*\) |[^|]*\(|.*\)/\1 \2/p' "$doc" >"$log"
    wrong=$(counts | grep -vxFf "$log") && fault "the table of mutants in $doc needs: $wrong"
    exit "$failed"
}

# A patch anew, from a merge of its change with the tree.
refresh_one() {
    restore_tree
    if ! in_tree apply --3way "mutants/$1.patch" >"$log" 2>&1; then
        in_tree diff >>"$log" 2>&1 || true
        sed 's/^/    /' "$log" >&2
        fault "$1: make its change again by hand, it conflicts"
        return
    fi
    in_tree diff --full-index "$copied" -- >"$out/diff"
    [ -s "$out/diff" ] || { fault "$1: its change is in the tree already"; return; }
    { sed '/^---$/q' "mutants/$1.patch"; cat "$out/diff"; } >"$out/patch"
    if [ "$(grep -v '^index ' "$out/patch")" != "$(grep -v '^index ' "mutants/$1.patch")" ]; then
        cp "$out/patch" "mutants/$1.patch"
        say "$1 is made anew"
    fi
}

refresh() {
    list=$(wanted "$@")
    copy_tree
    for each in $list; do refresh_one "$each"; done
    restore_tree
    exit "$failed"
}

check() {
    list=$(wanted "$@")
    copy_tree
    build_or_die check --quiet --locked -p rlock-module -p rlock-machine -p rlock-model
    say "$(seconds): the tree compiles without a mutant"
    count=0
    for each in $list; do
        mutate "$each"
        # shellcheck disable=SC2046 # a list of arguments
        tree_cargo check --quiet --locked $(if is_of_machine "$each"; then echo -p rlock-machine -p rlock-model; else echo -p rlock-module; fi) >"$log" 2>&1 || {
            cat "$log" >&2
            fault "$each does not compile"
        }
        count=$((count + 1))
    done
    restore_tree
    say "$(seconds): $count mutants were compiled"
    exit "$failed"
}

# --- Proofs -------------------------------------------------------------------------------------

# Builds tests of the copy, and prints the paths of their programs.
build_tests() {
    build_or_die test --locked --no-run "$@"
    # Cargo shortens what is below the current folder.
    sed -n 's|.*Executable.*(\(.*\))$|\1|p' "$log" | sed "s|^[^/]|$tree/&|"
}

# The program of a test file.
program() { printf '%s\n' "$tests" | grep "/$1-[0-9a-f]*$"; }

# Runs this in a folder of the copy for at most so many seconds, as in 200, or so many of a processor, as in 200cpu: a busy machine does
# not shorten these. True if it fails: a mutant was found. A run that does not end has found nothing.
fails() { # folder, seconds, command...
    folder=$tree/$1 limit=$2
    shift 2
    code=0
    (
        cd "$folder" || exit 126
        # shellcheck disable=SC3045 # dash has it, too
        case $limit in *cpu) ulimit -S -t "${limit%cpu}" || exit 126 ;; *) set -- timeout "$limit" "$@" ;; esac
        RLOCK_MODULE=$module RUST_BACKTRACE=0 exec "$@"
    ) >"$log" 2>&1 || code=$?
    case $code in 125 | 126 | 127)
        cat "$log" >&2
        die "cannot run: $*"
        ;;
    esac
    # timeout's, and 128 + SIGXCPU
    [ "$code" != 0 ] && [ "$code" != 124 ] && [ "$code" != 152 ]
}

corpus_finds() { fails crates/rlock-core 120cpu "$corpus_program" --exact "${corpus_test#* }"; }
# All stories are played: the one that the mutant names must differ.
story_finds() {
    fails crates/rlock-machine 60cpu "$stories_program" --exact "${stories_test#* }" && { [ -z "${1:-}" ] || grep -qF "/$1.jsonl: " "$log"; }
}
scene_finds() { fails . 480cpu "$out/target/release/rlock-model" --scene "$1"; }
model_finds() { fails . 480cpu "$out/target/release/rlock-model" --deeper=-2; }
server_finds() {
    use_server "${3:-}"
    fails . 200 "$(program "$(room_of "$1")")" --exact "$1::$2"
}

build_corpus() { corpus_program=$(build_tests -p rlock-core --test "${corpus_test% *}"); }
build_stories() { stories_program=$(build_tests -p rlock-machine --test "${stories_test% *}"); }

build_machine() {
    build_stories
    [ "${MODEL:-1}" = 0 ] || build_model
}

build_core() {
    build_corpus
    [ "${MODEL:-1}" = 0 ] || build_model
}

# The only program that computes for long: without optimisation it would run for minutes.
build_model() {
    (
        export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
        build_or_die build --release --locked -p rlock-model
    )
}

build_module() {
    build_or_die build --locked -p rlock-module
    built_module debug
}

# A run of one test that finds nothing.
passes() {
    ! "$@" || { cat "$log" >&2; die "without a mutant: $*"; }
    grep -q '^test result: ok. 1 passed' "$log" || die "without a mutant $* does not run, or does not end"
}

# Shows a mutant, which was built, to a proof. A fault if the line of the mutant's header says otherwise.
judge() { # mutant, line, command...
    said=$(header "$1" "$2")
    judged="$1: its header says '$2: $said'"
    shift 2
    if "$@"; then found=yes; else found=no; fi
    case "$found $said" in
    'no no') ;;
    'yes no' | 'no '*) fault "$judged, found: $found" ;;
    esac
}

judge_story() {
    story=$(header "$1" Story)
    [ "$story" != no ] || story=
    judge "$1" Story story_finds "$story"
}

# Only with the corpus.
corpus() {
    list=$(wanted "$@")
    module=
    copy_tree
    build_corpus
    passes corpus_finds
    count=0
    for each in $list; do
        is_of_core "$each" || continue
        mutate "$each"
        build_corpus
        judge "$each" Corpus corpus_finds
        count=$((count + 1))
        say "$(seconds): $count: $each: found: $found"
    done
    restore_tree
    exit "$failed"
}

# Only with the stories.
stories() {
    list=$(wanted "$@")
    module=
    copy_tree
    build_stories
    passes story_finds
    count=0
    for each in $(of_machine "$list"); do
        mutate "$each"
        build_stories
        judge_story "$each"
        count=$((count + 1))
        say "$(seconds): $count: $each: found: $found"
    done
    restore_tree
    exit "$failed"
}

case ${1:-} in
lint | check | corpus | stories | refresh)
    "$@"
    ;;
esac

# --- All proofs without a mutant ----------------------------------------------------------------

list=$(wanted "$@")
copy_tree
module=

# The model, or a scene of it, passes.
model_passes() {
    [ "${MODEL:-1}" != 0 ] || return 0
    if "$@" || [ "$code" != 0 ]; then
        cat "$log" >&2
        die "the model does not pass without a mutant: $*"
    fi
}

prove_module() { # mutants
    for each in $1; do server_of "$each" >"$log"; done
    named=$(for each in $1; do echo "$(header "$each" Test) $(server_of "$each")"; done | sort -u)
    say "building the proofs and the module without a mutant"
    # shellcheck disable=SC2046 # a list of arguments
    tests=$(build_tests -p rlock-module $(for each in $(printf '%s\n' "$named" | cut -d ' ' -f 1); do echo "--test $(room_of "$each")"; done | sort -u))
    build_core
    build_module
    say "$(seconds): without a mutant everything must pass"
    passes corpus_finds
    model_passes model_finds
    # shellcheck disable=SC2086 # no word where there is no server
    while read -r file test server; do passes server_finds "$file" "$test" $server; done <<EOT
$named
EOT
}

prove_machine() {
    say "$(seconds): the machine must pass without a mutant"
    build_machine
    passes story_finds
    for scene in $scenes; do model_passes scene_finds "$scene"; done
}

of_module=$(of_module "$list")
of_machine=$(of_machine "$list")
[ -z "$of_module" ] || prove_module "$of_module"
[ -z "$of_machine" ] || prove_machine

# --- Every mutant -------------------------------------------------------------------------------

show_one() { # name, server test file, server test
    mutate "$1"
    if is_of_core "$1"; then
        build_core
        judge "$1" Corpus corpus_finds
        [ "${MODEL:-1}" = 0 ] || judge "$1" Model model_finds
    fi
    build_module
    needed_server=$(server_of "$1")
    # shellcheck disable=SC2086 # no word where there is no server
    server_finds "$2" "$3" $needed_server || fault "$1: the server test that it names does not find it: $2 $3"
}

any_scene_finds() { for one in $scenes; do scene_finds "$one" && return; done; false; }

show_machine() { # name
    mutate "$1"
    build_machine
    judge_story "$1"
    [ "${MODEL:-1}" != 0 ] || return 0
    scene=$(header "$1" Scene)
    if [ "$scene" = no ]; then judge "$1" Scene any_scene_finds; else judge "$1" Scene scene_finds "$scene"; fi
}

number=0
count=$(printf '%s\n' "$list" | wc -w)
for each in $list; do
    number=$((number + 1))
    # shellcheck disable=SC2046 # a file and a test
    if is_of_machine "$each"; then show_machine "$each"; else show_one "$each" $(header "$each" Test); fi
    say "$(seconds): $number of $count: $each"
done
restore_tree

[ "$failed" = 0 ] || die "not every mutant is found as it says"
say "$(seconds): each of $count is found"
