#!/bin/sh
# Reads packaging/addresses.toml, the one place of the project's addresses.
#
#     scripts/addresses.sh get NAME      print an address; nothing where it is not set
#     scripts/addresses.sh require       fail unless all of them are set: for releases
#     scripts/addresses.sh fill FOLDER   write the addresses into the manifests of a copy of the project
set -eu
cd "$(dirname "$0")/.."

file=packaging/addresses.toml
usage='usage: addresses.sh get NAME | require | fill FOLDER'

get() { sed -n "s/^$1 *= *\"\(.*\)\" *\$/\1/p" "$file"; }

require() {
    unset=
    for name in repository maintainer security signing; do
        [ -n "$(get "$name")" ] || unset="$unset $name"
    done
    [ -z "$unset" ] || {
        echo "release: not set:$unset. Set the project's addresses in $file" >&2
        exit 1
    }
}

case ${1:-} in
get) get "${2:?$usage}" ;;
require) require ;;
fill)
    require
    manifest=${2:?$usage}/Cargo.toml
    repository=$(get repository)
    sed -i "s|^\[workspace\.package\]\$|&\nrepository = \"$repository\"|" "$manifest"
    crates=$(sed -n 's/^crates *= *"\(.*\)" *$/\1/p' clients/names.toml)
    for crate in $crates; do
        sed -i '/^publish = false$/d; s|^license\.workspace = true$|&\nrepository.workspace = true|' "$2/crates/$crate/Cargo.toml"
    done
    clients=$2/clients
    maintainer=$(get maintainer)
    mail=${maintainer##*<}
    developer="<developer><name>${maintainer% <*}</name><email>${mail%>}</email></developer>"
    for pom in "$clients"/java*/pom.xml; do
        sed -i "s|^  </licenses>\$|&\n  <url>$repository</url>\n  <developers>$developer</developers>\n\
  <scm><connection>scm:git:$repository.git</connection><url>$repository</url></scm>|" "$pom"
    done
    sed -i "s|^\[project.optional-dependencies\]\$|[project.urls]\nRepository = \"$repository\"\n\n&|" "$clients/python/pyproject.toml"
    sed -i "s|^  \"license\":.*|&\n  \"repository\": \"$repository\",|" "$clients/javascript/package.json"
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac
