#!/bin/sh
# Builds, checks and tests the package, by npm's own commands. Needs Node and npm, the module in target/release and a server.
#
#     clients/javascript/check.sh           with the newest supported drivers
#     clients/javascript/check.sh oldest    then with the oldest too, through require(), and beside the old libraries
#     clients/javascript/check.sh driver    only builds, for the conformance suite
#     clients/javascript/check.sh packages  only installs what it needs, the drivers among it
set -eu
cd "$(dirname "$0")"

for tool in node npm; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "clients/javascript: $tool is missing: install Node 20 or later, with npm" >&2
        exit 1
    }
done
# Again only when what is to be installed has changed.
installed=node_modules/.package-lock.json
if [ ! -e "$installed" ] || [ -n "$(find package-lock.json -newer "$installed")" ]; then
    npm ci --no-audit --no-fund --loglevel=error
fi
[ "${1:-}" != packages ] || exit 0
npm run --silent build
# Code lines, neither blank nor comment: of these files at most so many. A change that raises a limit says why.
size() { # LIMIT FILE...
    limit=$1
    shift
    lines=$(cat "$@" | awk '/^ *\/\*/ { comment = 1 } !comment && !/^ *(\/\/.*)?$/ { code++ } /\*\/ *$/ { comment = 0 } END { print code }')
    [ "$lines" -le "$limit" ] || {
        echo "clients/javascript: $lines code lines in $*, at most $limit" >&2
        exit 1
    }
}
size 400 src/machine.ts
size 2563 src/*.ts
[ "${1:-}" != driver ] || exit 0

npm run --silent lint
npm test --silent
[ "${1:-}" = oldest ] || exit 0

RLOCK_DRIVERS=oldest node --test --test-reporter=spec test/locks.test.mjs test/faults.test.mjs
RLOCK_DRIVERS=oldest node --test --test-reporter=spec --test-name-pattern='types with' test/package.test.mjs
node --test --test-reporter=spec test/ways.long.mjs
