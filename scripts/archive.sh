#!/usr/bin/env bash
# Downloads a package of the distribution's archive into FOLDER: for scripts/alloc.sh and integration/.
#
#   scripts/archive.sh FOLDER source PACKAGE [SUITE]
#   scripts/archive.sh FOLDER download PACKAGE ARCHITECTURE
#
# An apt state of its own: nothing of the system's is read but its configuration, and nothing is installed.
set -euo pipefail

folder=$1 what=$2 package=$3
# shellcheck disable=SC1091 # the system's
code=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
# shellcheck disable=SC2016 # apt's own variables
uri=$(apt-get --no-release-info indextargets --format '$(CREATED_BY) $(RELEASE) $(REPO_URI)' |
    awk -v code="$code" '$1 == "Packages" && $2 == code { print $3; exit }')
[ -n "$uri" ] || {
    echo "archive: no archive for '$code' in this machine's apt configuration" >&2
    exit 1
}
case $what in
source) line="deb-src $uri ${4:-$code} main" command='source --download-only' architecture=$(dpkg --print-architecture) ;;
*) line="deb $uri $code main" command=download architecture=$4 ;;
esac
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/none"
: >"$folder/status"
echo "$line" >"$folder/sources.list"
cat >"$folder/apt.conf" <<END
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
APT::Architecture "$architecture";
APT::Architectures "$architecture";
APT::Sandbox::User "root";
END
apt-get -qq -c "$folder/apt.conf" update
# shellcheck disable=SC2086 # a command with an option
(cd "$folder" && apt-get -qq -c apt.conf $command "$package")
