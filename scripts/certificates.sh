#!/bin/sh
# Makes certificates for tests in a folder: an authority (ca.crt) unless it is there, and of that authority a server on this machine
# (server.crt, server.key) and a client (client.crt, client.key). NAMES are others than this machine's, DAYS how long they are valid.
set -eu

mkdir -p "$1"
cd "$1"
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
printf 'subjectAltName=%s' "${NAMES:-DNS:localhost,IP:127.0.0.1}" >names
{
    # Two authorities of the same name would be taken for each other.
    # shellcheck disable=SC2086 # a list of words
    [ -e ca.crt ] || openssl req -x509 $key -days 2 -subj "/CN=authority $$" -keyout ca.key -out ca.crt -addext basicConstraints=critical,CA:TRUE \
        -addext keyUsage=critical,keyCertSign,cRLSign
    for name in server client; do
        # shellcheck disable=SC2086 # a list of words
        openssl req $key -subj "/CN=$name" -keyout "$name.key.new" -out "$name.csr"
        openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days "${DAYS:-2}" -extfile names -out "$name.crt.new"
        mv "$name.key.new" "$name.key"
        mv "$name.crt.new" "$name.crt"
    done
} >log 2>&1 || {
    cat log >&2
    exit 1
}
