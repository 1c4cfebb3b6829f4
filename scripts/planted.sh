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
    skip-queue) echo foreign the_turn_comes_after_so_many_hand_offs ;;
    forget-timer) echo block a_wait_ends_with_null ;;
    wake-late) echo wakeups a_lease_that_ends_wakes_the_next ;;
    forget-take-back) echo departures a_grant_whose_client_is_gone_goes_to_the_next ;;
    forget-settle) echo kinds_departures a_grant_whose_owner_was_heard_of_is_not_taken_back ;;
    publish-before-write) echo wakeups a_lock_that_nobody_here_takes_is_published ;;
    shorten-on-re-entry) echo acquire a_re_entry_never_shortens_the_lease ;;
    holds-adds) echo acquire a_repeat_with_holds_never_holds_twice ;;
    repeat-loses-place) echo block a_repeat_takes_the_place_over ;;
    last-come-first-served) echo block waiters_are_served_in_the_order_they_came ;;
    grant-unheard) echo enqueue a_channel_that_nobody_hears_is_dropped ;;
    no-confirmation) echo enqueue an_unconfirmed_grant_passes_on ;;
    cancel-in-silence) echo cancel answers_one_or_zero ;;
    endless-wait) echo block a_wait_ends_with_null ;;
    keep-when-demoted) echo demotion a_demoted_server_sends_its_waiters_away ;;
    keep-streak) echo streaks nothing_is_left_of_locks_that_were_deleted ;;
    hand-off-apart) echo handoff release_and_hand_off_are_one_transaction_for_replicas ;;
    edge-hand-off-not-replicated) echo handoff release_and_hand_off_are_one_transaction_for_replicas ;;
    edge-expiry-not-replicated) echo effects each_change_is_replicated_as_its_effect ;;
    edge-publish-before-write) echo effects each_change_is_replicated_as_its_effect ;;
    edge-unlock-message-lost) echo wakeups a_lock_that_nobody_here_takes_is_published ;;
    edge-cached-clock) echo waiting_edges a_lease_that_is_handed_on_late ;;
    edge-change-not-signalled) echo watch a_change_breaks_watch ;;
    edge-deaf-to-delete) echo wakeups every_way_to_free_a_lock_wakes_the_next ;;
    edge-departure-unseen) echo departures a_client_that_goes_leaves_the_queue ;;
    edge-closing-client-served) echo closing a_grant_to_a_client_that_is_being_closed_goes_to_the_next ;;
    edge-pattern-hears) echo enqueue_beside a_pattern_subscriber_confirms_no_grant ;;
    edge-write-in-pause) echo pauses nothing_is_granted_during_client_pause ;;
    token-stays-on-re-entry) echo fenced each_acquisition_has_a_larger_token ;;
    token-not-stored) echo fenced each_acquisition_has_a_larger_token ;;
    hand-off-without-token) echo fenced who_waits_gets_the_token_with_the_grant ;;
    token-by-counter-only) echo fencing a_promoted_server_that_lost_tokens_gives_larger_ones ;;
    token-by-clock-only) echo fencing tokens_that_were_not_lost_are_exceeded_whatever_the_clock_says ;;
    wait-without-token) echo fenced a_waiter_that_can_have_no_token_is_told_and_the_next_has_the_lock ;;
    edge-token-not-replicated) echo fenced the_token_is_replicated_with_the_acquisition_as_one_unit ;;
    read-ended-early) echo read_write_redisson a_renewal_of_redissons_does_not_end_a_longer_native_lease ;;
    fair-as-plain) echo fair natives_and_redissons_are_served_in_one_order ;;
    fair-barges) echo fair who_asks_without_waiting_does_not_overtake_redissons ;;
    fair-dropped) echo fair a_native_that_a_script_drops_is_put_back_in_its_place ;;
    fair-turn-endless) echo fair who_asks_without_waiting_does_not_overtake_redissons ;;
    fair-put-back-last) echo fair a_native_that_a_script_drops_is_put_back_in_its_place ;;
    fair-stays) echo fair a_native_waiter_that_goes_leaves_the_list ;;
    fair-uncapped) echo fair_after_load who_waited_before_a_restart_counts_as_gone_in_time ;;
    foreign-writer-starves) echo foreign_writers a_writer_of_redissons_is_not_kept_out_for_ever ;;
    foreign-writer-for-ever) echo foreign_writers a_writer_that_goes_lets_readers_in ;;
    foreign-writer-no-moment) echo foreign_writers where_nobody_waits_here_the_lock_is_left_free_for_a_moment ;;
    reader-overtakes) echo read_write_waiting readers_at_the_head_go_together ;;
    writer-beside-readers) echo read_write readers_share_and_a_writer_is_alone ;;
    dead-reader-blocks) echo read_write_waiting a_dead_readers_lease_delays_a_writer_no_longer ;;
    dead-reader-holds) echo read_write_waiting a_dead_owner_that_comes_back_counts_from_nothing ;;
    gone-writer-keeps-readers-out) echo read_write_waiting a_writer_that_goes_lets_the_readers_behind_it_in ;;
    one-reader-at-a-time) echo read_write_waiting readers_at_the_head_go_together ;;
    read-lease-not-written) echo read_write readers_share_and_a_writer_is_alone ;;
    read-lease-stays) echo read_write readers_share_and_a_writer_is_alone ;;
    downgrade-keeps-mode) echo read_write a_writer_may_read_and_keeps_that ;;
    one-reader-frees-all) echo read_write readers_share_and_a_writer_is_alone ;;
    renew-read-lowers-key) echo read_write renew_is_for_the_holds_that_are_meant ;;
    tie-kept) echo session the_last_success_sets_the_tie_or_removes_it ;;
    tie-moves-back) echo session a_tie_moves_only_to_a_younger_connection ;;
    grace-lengthens) echo session a_grace_period_never_lengthens_a_lease ;;
    session-end-in-silence) echo session the_end_of_a_shortened_lease_is_told_to_redisson_clients ;;
    edge-session-end-not-replicated) echo session_ends replicas_get_the_shortened_lease ;;
    ended-permit-counts) echo permits a_permit_that_has_ended_counts_no_more_and_is_removed ;;
    one-permit-more) echo permits so_many_owners_hold_it_at_once ;;
    edge-read-lease-not-replicated) echo effects each_change_of_a_read_write_lock_is_replicated ;;
    edge-read-lease-unknown) echo reads_after_load those_that_the_primary_before_gave_are_known ;;
    edge-effects-begin-late) echo attach a_replica_that_attaches_has_every_lock ;;
    take-back-without-id) echo departures a_grant_that_another_call_has_replaced_is_not_taken_back ;;
    read-take-back-takes-all) echo kinds one_grant_of_many_is_taken_back ;;
    downgrade-in-silence) echo read_write_redisson its_waiters_are_told ;;
    fair-in-silence) echo fair_turns a_foreign_waiter_is_called_however_little_time_it_has ;;
    fair-head-dies) echo fair the_deadline_of_a_native_at_the_head_is_kept_ahead ;;
    foreign-writer-too-early) echo foreign_writers where_nobody_told_that_the_lock_was_free_readers_are_counted_anew ;;
    foreign-writer-behind-dead) echo foreign_writers a_dead_reader_that_comes_back_does_not_pass ;;
    key-outlasts-readers) echo read_write_waiting the_key_does_not_outlast_the_readers_that_are_left ;;
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
