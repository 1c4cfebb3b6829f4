#!/bin/sh
# Runs the fuzz targets for a bounded time, or keeps what they have found.
#
#     scripts/fuzz.sh SECONDS [TARGET]    run the target, or all of them side by side, for so long
#     scripts/fuzz.sh keep [TARGET]       merge what runs have found into the stored corpus, as little of
#                                         it as reaches the same code
#
# To search for an input that finds a mutant, apply it (git apply mutants/NAME.patch), run make fuzz TARGET=operations, and store
# the input in fuzz/corpus/mutants under the mutant's name.
#
# Any toolchain does: no sanitizer is asked for, since the code under test has no `unsafe`. Without one the
# targets run three times as often in the same time.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'fuzz: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}

usage='usage: scripts/fuzz.sh SECONDS|keep [TARGET]'
what=${1:?$usage}
case $what in keep) ;; 0* | *[!0-9]*) die "$usage" ;; esac

# The built programs and what they find go where everything that is built goes.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR
found=$CARGO_TARGET_DIR/fuzz-corpus

# CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
cargo_fuzz() { ${CARGO:-cargo} fuzz "$@"; }

command -v "${CXX:-c++}" >/dev/null 2>&1 ||
    die "a C++ compiler is needed (libFuzzer is built with it): apt-get install g++, or the like of it"
if ! cargo_fuzz --version >/dev/null 2>&1; then
    say "cargo-fuzz is missing, installing it"
    # shellcheck disable=SC2086
    ${CARGO:-cargo} install cargo-fuzz --locked
fi

# Cargo leaves out what fuzzing does not use, so that its copy is the newer one.
[ -n "$(find fuzz/Cargo.lock -newer Cargo.lock 2>/dev/null)" ] || cp Cargo.lock fuzz/Cargo.lock
targets=$(cargo_fuzz list)
if [ -n "${2:-}" ]; then
    printf '%s\n' "$targets" | grep -qx -e "$2" || die "there is no target '$2', but: $(echo "$targets" | tr '\n' ' ')"
    targets=$2
fi

# Says how to repeat what was found, in one piece, and ends.
crashed() {
    newest=$(find "fuzz/artifacts/$1" -type f -newer "$started" 2>/dev/null | head -n 1)
    {
        if [ -n "$newest" ]; then
            sed -n '/panicked at/,/stack backtrace/p; /^SUMMARY/p' "$log"
            say "$1 FAILED; to replay it, and to find the shortest input that fails:"
            say "    cargo fuzz run --sanitizer none $1 $newest"
            say "    cargo fuzz tmin --sanitizer none $1 $newest"
            say "or elsewhere, where this machine is gone:"
            say "    echo $(base64 <"$newest" | tr -d '\n') | base64 -d >found && cargo fuzz run --sanitizer none $1 found"
        else
            tail -n 40 "$log"
            say "$1 FAILED before it found anything"
        fi
        say "the whole log is $log"
    } >"$log.report" 2>&1
    cat "$log.report" >&2
    exit 1
}

run() {
    target=$1
    set --
    dict=fuzz/dictionaries/$target.dict
    [ ! -e "$dict" ] || set -- "-dict=$dict"
    say "$target for $what s"
    # New inputs go to the first directory, the stored corpus is only read.
    mkdir -p "$found/$target"
    cargo_fuzz run --sanitizer none "$target" "$found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$what" -max_len=2048 -timeout=10 "$@" >"$log" 2>&1 || crashed "$target"
    say "$target: $(sed -n 's/^Done \([0-9]* runs\) in .*/\1/p' "$log")," \
        "$(sed -n 's/.*DONE  *cov: \([0-9]*\) .*/\1 places of the code reached/p' "$log"), nothing found"
}

# Places reached decide, not how often: some hundred inputs instead of thousands. That may drop an input which finds a
# mutant: scripts/mutants.sh corpus says so.
keep() {
    mkdir -p "$found/$1"
    find "$found/$1" -type f -exec cp {} "fuzz/corpus/$1/" \;
    cargo_fuzz cmin --sanitizer none "$1" "fuzz/corpus/$1" -- -use_counters=0 >"$log" 2>&1 ||
        { tail -n 60 "$log" >&2; die "$1: the corpus was not minimised"; }
    say "$1: $(find "fuzz/corpus/$1" -type f | wc -l) inputs in the stored corpus"
}

mkdir -p "$found"
if [ "$what" != keep ] && [ "$targets" != "${2:-}" ]; then
    # Built before the time of each begins. Ctrl-C reaches all that xargs has started.
    log=$found/.log-build
    cargo_fuzz build --sanitizer none >"$log" 2>&1 || { cat "$log" >&2; die "the fuzz targets do not build"; }
    printf '%s\n' "$targets" | xargs -n 1 -P "$(echo "$targets" | wc -l)" ./scripts/fuzz.sh "$what" ||
        die "there were failures, see above"
    exit
fi
for target in $targets; do
    log=$found/.log-$target started=$found/.started-$target
    : >"$started"
    if [ "$what" = keep ]; then keep "$target"; else run "$target"; fi
done
