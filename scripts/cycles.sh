#!/bin/sh
# Fails if modules of one folder use each other in a circle, in any folder of the sources below; `make lint` calls it. A file and the
# folder of its name are one module. A name that another module imports or re-exports counts as a use of the module that defines
# it. What a folder's own mod.rs, lib.rs or main.rs defines is above its modules, and makes no circle. Tests may use anything.
set -eu
cd "$(dirname "$0")/.."

# The lines `module other`, for each use of a module by another one of its folder, with both paths from the top.
uses() {
    # shellcheck disable=SC2016 # a program of awk
    find "$1" -name '*.rs' ! -name '*tests.rs' ! -path '*tests/*' | sort | xargs awk -v top="$1" '
function visit(path, name) {
    if (sub(/::self$/, "", path)) { name = path; sub(/.*::/, "", name) }
    if (path ~ /^(crate|self|super)::/) paths[module " " path]
    if (imports) imported[module "::" name] = module " " path
}
# The path from the top, "" for the top itself; what is no module of the sources has no path from it.
function absolute(module, path) {
    if (path !~ /^(crate|self|super)(::|$)/) return module "::" path
    if (sub(/^crate/, "", path)) return path
    sub(/^self(::)?/, "", path)
    while (sub(/^super(::)?/, "", path)) sub(/::[^:]*$/, "", module)
    return module (path == "" ? "" : "::" path)
}
# The module that defines what a path names.
function defines(module, path, steps,    at, rest, name, import) {
    rest = absolute(module, path)
    for (at = ""; rest != ""; at = at name) {
        match(rest, /^::[^:]*/)
        name = substr(rest, 1, RLENGTH)
        rest = substr(rest, RLENGTH + 1)
        if ((at name) in modules) continue
        if (!((at name) in imported) || steps > 9) break
        split(imported[at name], import, / /)
        return defines(import[1], import[2] rest, steps + 1)
    }
    return at
}
FNR == 1 {
    module = substr(FILENAME, length(top) + 1)
    sub(/\.rs$/, "", module)
    sub(/\/(mod|lib|main)$/, "", module)
    gsub("/", "::", module)
    modules[module]
    path = before = skipped = imports = depth = 0
}
# The item behind #[cfg(test)].
/^ *#\[cfg\(test\)\]/ { skipped = 1; match($0, /^ */); indent = substr($0, 1, RLENGTH); next }
skipped == 1 { skipped = /[;}]$/ ? 0 : /[{]$/ ? 2 : 1; next }
skipped == 2 { if (index($0, indent "}") == 1) skipped = 0; next }
{
    sub(/\/\/.*/, "")
    for (text = $0; match(text, /[A-Za-z_][A-Za-z_0-9]*|::|[^ ]/); text = substr(text, RSTART + RLENGTH)) {
        token = substr(text, RSTART, RLENGTH)
        if (token ~ /^[A-Za-z_]/) {
            if (token == "as") { before = token; continue }
            if (before == "as") name = token
            else {
                if (before != "::" && path != "") visit(path, name)
                path = (before == "::" ? path "::" : depth ? inside[depth] "::" : "") token
                name = token
            }
            if (token == "use") { imports = 1; path = "" }
        } else if (token == "{" && before == "::") {
            inside[++depth] = path
            path = ""
        } else if (token != "::") {
            if (path != "") visit(path, name)
            path = ""
            if (token == "}" && depth) depth--
            if (token == ";") imports = 0
        }
        before = token
    }
}
END {
    for (use in paths) {
        split(use, both, / /)
        from = split(both[1], user, "::")
        to = split(defines(both[1], both[2], 0), other, "::")
        folder = ""
        for (i = 2; i <= from && i <= to && user[i] == other[i]; i++) folder = folder "::" user[i]
        if (i <= from && i <= to) print folder "::" user[i], folder "::" other[i]
    }
}' | sort -u
}

# The sources, and how the name of a module begins that surely uses another one of its folder.
sources='
src ::ffi::
crates/rlock-core/src ::locks::
crates/rlock-client/src ::acquisition::
crates/rlock-links/src ::link::
crates/rlock-multi/src ::red::
crates/rlock-cli/src ::server::
crates/rlock-oracle/src ::operations::
crates/rlock-testkit/src ::docs::
model/src ::
'
failed=0
while read -r source user; do
    [ -n "$source" ] || continue
    edges=$(uses "$source")
    # A list without these edges would mean that this script is wrong.
    printf '%s\n' "$edges" | grep -q "^$user" || { echo "cycles: no use is found in $source of $user" >&2; exit 1; }
    if ! loop=$(printf '%s\n' "$edges" | tsort 2>&1 >/dev/null); then
        printf 'cycles: modules of %s use each other in a circle:\n%s\n' "$source" "$loop" >&2
        failed=1
    fi
done <<END
$sources
END
exit "$failed"
