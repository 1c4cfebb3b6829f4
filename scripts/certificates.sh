#!/bin/sh
# Makes certificates for tests in a folder: an authority (ca.crt), and of that authority a server on this machine (server.crt,
# server.key) and a client (client.crt, client.key).
set -eu

mkdir -p "$1"
cd "$1"
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' >names
{
    # shellcheck disable=SC2086 # a list of words
    openssl req -x509 $key -days 2 -subj /CN=authority -keyout ca.key -out ca.crt -addext basicConstraints=critical,CA:TRUE \
        -addext keyUsage=critical,keyCertSign,cRLSign
    for name in server client; do
        # shellcheck disable=SC2086 # a list of words
        openssl req $key -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
        openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out "$name.crt"
    done
} >log 2>&1 || {
    cat log >&2
    exit 1
}
