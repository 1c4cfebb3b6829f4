#!/bin/sh
# Names the Rust files that are too long; `make lint` calls it. All lines count: code, comments, blank lines and tests.
# Clippy limits functions: clippy.toml.
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
