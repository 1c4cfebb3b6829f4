#!/bin/sh
# Draws the plots in docs/bench, which are not stored (the argument 0 leaves them out), builds the site of all pages, and checks every page,
# link, anchor and picture in a real browser, at the width of a desk and of a phone. `make docs` calls it.
#
# It installs what is missing: mdBook by cargo, Chromium by apt as root. What it cannot install it names.
set -eu
cd "$(dirname "$0")/.."

mdbook_version=0.5.4
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
site=$target/site

say() { printf 'docs: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}

is_mdbook() { [ "$("$1" --version 2>/dev/null)" = "mdbook v$mdbook_version" ]; }

# Sets mdbook to a program of the version that the site is made for: on PATH, or in .deps. Its build is not optimised: that would take longer
# than all pages.
find_mdbook() {
    for mdbook in mdbook "$PWD/.deps/mdbook/bin/mdbook"; do
        if is_mdbook "$mdbook"; then return; fi
    done
    say "installing mdbook $mdbook_version in .deps (a minute)"
    # CARGO may hold arguments, such as `cargo +stable`.
    # shellcheck disable=SC2086
    CARGO_PROFILE_DEV_DEBUG=0 ${CARGO:-cargo} install mdbook --version "=$mdbook_version" --locked --quiet --debug --no-default-features \
        --features search --root .deps/mdbook --target-dir "$target/mdbook" || die "mdbook $mdbook_version is missing: cargo install mdbook"
    rm -rf "$target/mdbook"
    is_mdbook "$mdbook" || die "mdbook $mdbook_version was installed, and does not run"
}

# Sets browser.
find_browser() {
    for browser in ${CHROMIUM:-chromium chromium-browser google-chrome google-chrome-stable}; do
        if command -v "$browser" >/dev/null 2>&1; then return; fi
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing chromium"
        {
            apt-get update -qq || true
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
        } >/dev/null 2>&1 || true
        browser=chromium
    fi
    command -v "$browser" >/dev/null 2>&1 ||
        die "chromium is missing, the pages are not looked at: install the package chromium, or set CHROMIUM"
}

find_mdbook
find_browser

scripts/programs.sh rlock-docs
# The checks in the browser find each fault that is planted.
# shellcheck disable=SC2086
CHROMIUM=$browser ${CARGO:-cargo} test --quiet --workspace --locked --bin rlock-docs -- --ignored >"$target/look.log" 2>&1 || {
    cat "$target/look.log" >&2
    die "the checks in the browser miss a fault"
}
plots=without-plots
if [ "${1:-1}" != 0 ]; then
    plots=with-plots
    # shellcheck disable=SC2086
    ${CARGO:-cargo} run --quiet --locked --manifest-path lab/Cargo.toml --target-dir "$target" -- render
fi

repository=$(scripts/addresses.sh get repository)
[ -z "$repository" ] || export MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL="$repository"
"$target/debug/rlock-docs" stage "$target/site-src" "$repository" "$plots"
rm -rf "$site"
"$mdbook" build --dest-dir "$site" "$target/site-src" >"$target/site.log" 2>&1 || {
    cat "$target/site.log" >&2
    die "mdbook failed"
}
if grep -E 'WARN|ERROR' "$target/site.log" >&2; then die "mdbook has warnings"; fi
"$target/debug/rlock-docs" look "$browser" "$site"
echo "docs: the site is $site/index.html"
