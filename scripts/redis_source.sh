#!/usr/bin/env bash
# Downloads the source package of the distribution's Redis into FOLDER: for scripts/alloc.sh and integration/musl_server.sh.
#
#   scripts/redis_source.sh FOLDER
#
# An apt state of its own: nothing of the system's is read but its configuration, and nothing is installed.
set -euo pipefail

folder=$1
# shellcheck disable=SC1091 # the system's
code=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
# shellcheck disable=SC2016 # apt's own variables
uri=$(apt-get --no-release-info indextargets --format '$(CREATED_BY) $(RELEASE) $(REPO_URI)' |
    awk -v code="$code" '$1 == "Packages" && $2 == code { print $3; exit }')
[ -n "$uri" ] || {
    echo "redis source: no archive for '$code' in this machine's apt configuration" >&2
    exit 1
}
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/none"
: >"$folder/status"
echo "deb-src $uri $code main" >"$folder/sources.list"
cat >"$folder/apt.conf" <<EOF
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Update::Pre-Invoke;
Dir::Etc::SourceList "$folder/sources.list";
Dir::Etc::SourceParts "$folder/none";
Dir::State "$folder";
Dir::State::status "$folder/status";
Dir::State::Lists "$folder/lists";
Dir::Cache "$folder/cache";
Acquire::Languages "none";
Acquire::AllowInsecureRepositories "false";
APT::Sandbox::User "root";
EOF
apt-get -qq -c "$folder/apt.conf" update
(cd "$folder" && apt-get -qq -c apt.conf source --download-only redis)
