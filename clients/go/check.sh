#!/bin/sh
# Checks the Go client: check.sh [oldest | driver]
#
# Counts its lines, formats, vets and lints it, tests it with the race detector and the newest go-redis against servers with the
# module, then packs it as the module proxy serves it and uses that in a fresh project. With `oldest`, also the tests with the
# oldest go-redis on the oldest Go. `driver` only builds the driver program of the conformance suite.
# The module is target/release/librlock.so, the server $REDIS_SERVER or redis-server.
set -eu
cd "$(dirname "$0")"
newest_driver=v9.23.0
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
oldest_go=go1.22.12

missing() {
    echo "clients/go: $1 is missing: $2" >&2
    exit 1
}
command -v go >/dev/null 2>&1 || missing go "install Go 1.22 or later"
out=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/clients/go
mkdir -p "$out"
# Code lines of these files, neither blank nor comment, are at most LIMIT. A change that raises a limit says why.
size() { # LIMIT FILE...
    limit=$1
    shift
    lines=$(grep -hvcE '^[[:space:]]*(//.*)?$' "$@" | awk '{ all += $1 } END { print all }')
    [ "$lines" -le "$limit" ] || {
        echo "clients/go: $lines code lines in $*, at most $limit" >&2
        exit 1
    }
}
size 400 machine.go
# shellcheck disable=SC2046 # names without blanks
size 3326 $(find . -maxdepth 1 -name '*.go' ! -name '*_test.go')
go build -o "$out/driver" ./conformance
[ "${1:-}" != driver ] || exit 0

command -v "${CC:-cc}" >/dev/null 2>&1 || missing cc "the race detector needs a C compiler: install gcc"
command -v "${REDIS_SERVER:-redis-server}" >/dev/null 2>&1 || missing redis-server "install it, or set REDIS_SERVER"
RLOCK_MODULE=$(realpath -m "${RLOCK_MODULE:-${CARGO_TARGET_DIR:-../../target}/release/librlock.so}")
export RLOCK_MODULE
[ -e "$RLOCK_MODULE" ] || missing "$RLOCK_MODULE" "cargo build --release"

[ -z "$(gofmt -l .)" ] || { gofmt -d . && exit 1; }
go vet ./...
GOFLAGS=-mod=mod go run "$staticcheck" ./...

# As in a project with the newest driver.
cp go.mod "$out/newest.mod"
cp go.sum "$out/newest.sum"
go get -modfile="$out/newest.mod" "github.com/redis/go-redis/v9@$newest_driver"
go test -modfile="$out/newest.mod" -race -count=1 .

# A fresh project gets the module from a proxy in a folder, and the driver from the cache of go.
rm -rf "$out/proxy" "$out/project"
go run ./trial/zip "$out/proxy"
mkdir -p "$out/project"
cp trial/main.go "$out/project"
cp -r examples/* "$out/project"
# The first two blocks of README.md are a program.
mkdir "$out/project/readme"
# shellcheck disable=SC2016 # no expansion is meant
sed -n '/^```go$/,/^```$/{/^```/d;p}' README.md | sed "s|\"redis://[^\"]*\"|os.Getenv(\"REDIS_URL\")|; s|^	\"log\"|&\n	\"os\"|" >"$out/project/readme/main.go"
(
    cd "$out/project"
    cache=$(go env GOMODCACHE)
    GOPROXY=file://$out/proxy,file://$cache/cache/download,$(go env GOPROXY)
    GOMODCACHE=$out/cache GOFLAGS=-modcacherw GONOSUMDB=rlock.invalid/client
    export GOPROXY GOMODCACHE GOFLAGS GONOSUMDB
    rm -rf "$out/cache"
    go mod init example.invalid/project 2>/dev/null
    go get rlock.invalid/client@latest
    go vet ./...
    go run .
)
rm -rf "$out/cache"

[ "${1:-}" = oldest ] || exit 0
GOTOOLCHAIN=$oldest_go go test -count=1 .
