#!/usr/bin/env bash
# Makes the certificates of this folder. README.md says what they are for.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
touch index.txt
cat >ca.cnf <<'END'
[ca]
default_ca = own
[own]
dir = .
database = index.txt
rand_serial = yes
new_certs_dir = .
default_md = sha256
policy = any
[any]
commonName = supplied
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
END
for name in authority server; do
    openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out $name.key
done
openssl req -new -key authority.key -subj "/CN=An authority of the tests of r3-models" -out authority.csr
openssl req -new -key server.key -subj /CN=localhost -out server.csr
sign() {
    openssl ca -config ca.cnf -batch -notext -startdate 20200101000000Z -enddate 21200101000000Z -keyfile authority.key "$@"
}
sign -selfsign -extensions authority -in authority.csr -out authority.pem
sign -cert authority.pem -extensions server -in server.csr -out server.pem
cp authority.pem server.pem server.key "$here"
