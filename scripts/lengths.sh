#!/bin/sh
# Names the Rust files that are too long, and the crates; `make lint` calls it. Of a file all lines count: code, comments, blank lines
# and tests. Of a crate only code counts. Clippy limits functions: clippy.toml.
set -eu
cd "$(dirname "$0")/.."

limit=500
# Files of tests: those in tests/, and modules that are named tests.
tests_limit=500

# Longer files: the lines they may have, the file, the reason. This list only gets shorter.
exceptions='
'

find . \( -name target -o -name .deps -o -name .git -o -name node_modules \) -prune -o -name '*.rs' -print0 |
    xargs -0 awk 'END { for (file in lines) print lines[file], substr(file, 3) } { lines[FILENAME]++ }' | sort -k 2 |
    awk -v limit="$limit" -v tests="$tests_limit" -v exceptions="$exceptions" '
        BEGIN {
            count = split(exceptions, list, "\n")
            for (n = 1; n <= count; n++) if (split(list[n], words, " ") > 2) most[words[2]] = words[1]
        }
        {
            usual = $2 ~ /(^|\/)tests\/|(^|[\/_])tests\.rs$/ ? tests : limit
            may = $2 in most ? most[$2] : usual
            if ($1 + 0 > may + 0) fault($2 ": " $1 " lines, at most " may)
            if ($2 in most && $1 + 0 > usual + 0) needed[$2]
        }
        function fault(text) { print "lengths: " text; failed = 1 }
        END {
            for (file in most) if (!(file in needed)) fault(file ": remove its exception, it is not needed")
            exit failed
        }' >&2

# Code lines of a crate without its tests: neither blank nor comment, outside of #[cfg(test)], *tests.rs and *tests/.
crate_limits='
4000 crates/rlock-client
'
failed=0
while read -r most crate; do
    [ -n "$most" ] || continue
    # shellcheck disable=SC2016 # a program of awk
    lines=$(find "$crate/src" -name '*.rs' ! -name '*tests.rs' ! -path '*tests/*' -print0 | xargs -0 awk '
        FNR == 1 { skipped = 0 }
        # The item behind #[cfg(test)].
        /^ *#\[cfg\(test\)\]/ { skipped = 1; match($0, /^ */); indent = substr($0, 1, RLENGTH); next }
        skipped == 1 { skipped = /[;}]$/ ? 0 : /[{]$/ ? 2 : 1; next }
        skipped == 2 { if (index($0, indent "}") == 1) skipped = 0; next }
        !/^ *(\/\/.*)?$/ { lines++ }
        END { print lines + 0 }')
    if [ "$lines" -eq 0 ] || [ "$lines" -gt "$most" ]; then
        echo "lengths: $crate: $lines code lines, at most $most" >&2
        failed=1
    fi
done <<END
$crate_limits
END
exit "$failed"
