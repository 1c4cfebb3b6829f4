#!/bin/sh
# Plants one bug after the other, and shows which proof finds it: the model, the fuzzer's stored corpus, the unit tests and
# histories, or a test of the module in a real server. Failures are a bug of the core that the corpus does not find, and a
# bug that its named server test does not find.
#
#     scripts/planted.sh [BUG...]         all bugs, or these; all of them also remake the table in docs/PROOF.md
#     scripts/planted.sh corpus [BUG...]  only by the corpus: a few minutes
set -eu
cd "$(dirname "$0")/.."

doc=docs/PROOF.md
mkdir -p "${CARGO_TARGET_DIR:-target}/planted"
# Without links and dots, as programs are called by it from other folders.
out=$(cd "${CARGO_TARGET_DIR:-target}/planted" && pwd)
log=$out/log
began=$(date +%s)

say() { printf 'planted: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}

# The server test that finds each bug: a test file, and the name of the test or the beginning of it. Bugs at
# the module's edge have nothing else; of the others this is how the same would show to a client. One that no server
# test can find has an arm with nothing in it, and the reason; a test that is named here and does not find its bug is a
# failure.
server_test() {
    case $1 in
    edge-cached-clock) echo waiting_edges a_lease_that_is_handed_on_late ;;
    edge-deaf-to-delete) echo wakeups every_way_to_free_a_lock_wakes_the_next ;;
    read-ended-early) echo read_write_redisson a_renewal_of_redissons_does_not_end_a_longer_native_lease ;;
    fair-uncapped) echo fair_after_load who_waited_before_a_restart_counts_as_gone_in_time ;;
    edge-read-lease-unknown) echo reads_after_load those_that_the_primary_before_gave_are_known ;;
    *) die "no server test is named for the bug '$1'" ;;
    esac
}

# --- Building: quickly, since nothing here is measured -----------------------------------------

# CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
quick_cargo() {
    CARGO_TARGET_DIR=$out CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_DEBUG=0 ${CARGO:-cargo} "$@"
}

# Prints the paths of the tests built with these arguments.
build_tests() {
    quick_cargo test --release --locked --no-run "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    # Cargo shortens what is below the current folder.
    sed -n "s|.*Executable.*(\(.*\))$|\1|p" "$log" | sed "s|^[^/]|$PWD/&|"
}

# Of these programs, that of a test.
program() { printf '%s\n' "$1" | grep "/$2-[0-9a-f]*$"; }

only_corpus=
if [ "${1:-}" = corpus ]; then
    only_corpus=1
    shift
fi
bugs=$(sed -n 's/^ *(Self::[A-Za-z]*, "\([a-z-]*\)"),$/\1/p' crates/rlock-core/src/bugs.rs)
[ -n "$bugs" ] || die "there are no bugs in crates/rlock-core/src/bugs.rs"
wanted=${*:-$bugs}
for bug in $wanted; do
    printf '%s\n' "$bugs" | grep -qx -e "$bug" || die "there is no bug '$bug', but: $(echo "$bugs" | tr '\n' ' ')"
done

# --- Looking for one bug -----------------------------------------------------------------------

# Runs with $bug planted, for at most so many seconds; true if it was found. A failing history is of no use to
# anybody later. A run that does not end has not found it.
found() {
    code=0
    PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 RUST_BACKTRACE=0 RLOCK_PLANTED_BUG=$bug RLOCK_MODULE=$module \
        timeout "$@" >"$log" 2>&1 || code=$?
    case $code in 125 | 126 | 127)
        cat "$log" >&2
        die "cannot run: $*"
        ;;
    esac
    [ "$code" != 0 ] && [ "$code" != 124 ]
}

model_finds() { found 120 "$out/release/rlock-model" --deeper=-2; }

# Tests read files by paths from their package's folder.
core_test_finds() {
    test=$(program "$core" "$1")
    shift
    # Not in a subshell, from which nothing could end the script.
    cd crates/rlock-core
    outcome=0
    found 120 "$test" "$@" || outcome=1
    cd ../..
    return "$outcome"
}

corpus_finds() { core_test_finds operations the_stored_corpus_passes; }
units_find() {
    core_test_finds rlock_core || core_test_finds histories || core_test_finds scenes
}

server_finds() {
    # shellcheck disable=SC2046 # a file and a test
    set -- $(server_test "$bug")
    [ $# = 2 ] && found 200 "$(program "$server" "$(room_of "$1")")" "$1::$2"
}

say "building the tests of the core with bugs to plant"
core=$(build_tests -p rlock-core --features planted-bugs)
module=
if [ "$only_corpus" ]; then
    bug=none
    ! corpus_finds || { cat "$log" >&2; die "the corpus finds something without a bug"; }
    missed=''
    for bug in $wanted; do
        case $bug in edge-*) continue ;; esac
        corpus_finds || missed="$missed $bug"
    done
    [ -z "$missed" ] || die "the corpus does not find$missed: store inputs that do in fuzz/corpus/planted"
    say "the corpus finds every bug of the core, $(($(date +%s) - began)) s"
    exit 0
fi

say "building the model, the module and its tests with bugs to plant"
quick_cargo build --quiet --release --locked -p rlock-model --features planted-bugs
# The program of a test file is that of the room that it stands in.
room_of() { basename "$(dirname tests/*/"$1.rs" integration/*/"$1.rs" | grep -v '\*')"; }
named=$(for each in $wanted; do server_test "$each"; done | sort -u)
rooms=$(printf '%s\n' "$named" | while read -r file _; do room_of "$file"; done | sort -u)
# shellcheck disable=SC2046 # a list of arguments
# shellcheck disable=SC2046,SC2086 # a list of arguments
server=$(build_tests -p rlock-module --features planted-bugs $(printf -- '--test %s ' $rooms))
quick_cargo build --quiet --release --locked -p rlock-module --features planted-bugs
module=$out/release/librlock.so
[ -e "$module" ] || module=$out/release/librlock.dylib

# --- Without a bug everything passes, or finding one means nothing ------------------------------

bug=none
say "without a bug: everything has to pass"
for proof in model_finds corpus_finds units_find; do
    if $proof; then
        cat "$log" >&2
        die "$proof something without a bug"
    fi
done
while read -r file test; do
    if found 200 "$(program "$server" "$(room_of "$file")")" "$file::$test"; then
        cat "$log" >&2
        die "the server test $file $test fails without a bug"
    fi
    grep -q '^test result: ok. [1-9]' "$log" || die "there is no test $test in $file, or it did not end"
done <<EOT
$named
EOT

# --- Every bug -----------------------------------------------------------------------------------

# What the bug is, by the comment on it.
about() {
    variant=$(sed -n "s/^ *(Self::\([A-Za-z]*\), \"$1\"),$/\1/p" crates/rlock-core/src/bugs.rs)
    sed -n "/^    \/\/\/ /h; /^    $variant,$/{g; s/^ *\/\/\/ //; s/\.$//; p;}" crates/rlock-core/src/bugs.rs
}

rows=$out/rows
: >"$rows"
missed='' idle=''
count=$(echo "$wanted" | wc -w)
number=0
for bug in $wanted; do
    number=$((number + 1))
    by='' cells=''
    for proof in model:model_finds corpus:corpus_finds units:units_find; do
        cell='–'
        case $bug in
        # The core is without such a bug.
        edge-*) cell=' ' ;;
        *) if ${proof#*:}; then
            by="$by ${proof%:*}"
            cell='found'
        fi ;;
        esac
        cells="$cells $cell |"
    done
    # shellcheck disable=SC2046 # a file and a test
    set -- $(server_test "$bug")
    cell='–'
    if server_finds; then
        # Whole names, where only the beginning was given.
        cell="\`$1\`: $(sed -n 's/^test [a-z_]*::\([a-z_]*\) \.\.\. FAILED$/\1/p' "$log" | head -n 1 | tr _ ' ')"
        by="$by server:$1"
    elif [ $# != 0 ]; then
        say "$bug: NOT FOUND by the server test that is named for it: $*"
        idle="$idle $bug"
    fi
    case $bug,$by in edge-*,?* | *" corpus"*) ;; *) missed="$missed $bug" ;; esac
    # shellcheck disable=SC2016 # for Markdown
    printf '| `%s` | %s |%s %s |\n' "$bug" "$(about "$bug")" "$cells" "$cell" >>"$rows"
    say "$number of $count, $(($(date +%s) - began)) s: $bug: ${by:-NOT FOUND}"
done
[ -z "$missed" ] || die "neither the corpus nor, for one at the edge, its server test finds$missed"
[ -z "$idle" ] || die "the server tests that are named for these do not find them:$idle"

# --- The table -----------------------------------------------------------------------------------

head='| bug | what is wrong | model | corpus | units | server test |
|---|---|---|---|---|---|'
printf '%s\n' "$head"
cat "$rows"
[ "$count" = "$(echo "$bugs" | wc -w)" ] || exit 0
{
    sed '/^<!-- planted -->$/q' "$doc"
    printf '\n%s\n' "$head"
    cat "$rows"
    printf '\n'
    sed -n '/^<!-- end of planted -->$/,$p' "$doc"
} >"$out/doc"
if cmp -s "$out/doc" "$doc"; then
    say "the table in $doc is up to date"
else
    cp "$out/doc" "$doc"
    say "the table in $doc has changed: look at it, and commit it"
fi
