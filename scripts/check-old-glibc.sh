#!/usr/bin/env bash
# Runs the end-to-end tests with the packaged files on Debian 11 (glibc 2.31). How symbols are looked up
# changed in glibc 2.34, so that this is another path through libr3.so than on a newer system; and it is
# older than every system that the package is promised for, but for the 2.28 of libr3.so, which
# scripts/check-package.sh checks by symbol version. Needs root and debootstrap.
#
#   scripts/package.sh && scripts/check-old-glibc.sh [FOLDER]
#
# FOLDER gets the Debian system, or has it from the last time; without it a temporary one is made.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

[ "$(id -u)" = 0 ] || die "chroot and mount need root"
have debootstrap || die "debootstrap is missing: apt-get install debootstrap"
tree=$root/dist/r3-$(version)-x86_64-linux
[ -d "$tree" ] || die "$tree is missing: run scripts/package.sh first"
"$root/scripts/setup.sh" --package

if [ $# -gt 0 ]; then
    system=$1
else
    system=$(mktemp -d)
    trap 'rm -rf "$system"' EXIT
fi
if [ ! -x "$system/usr/bin/cc" ]; then
    step "making a Debian 11 system"
    mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n1 || true)
    debootstrap --variant=minbase --include=gcc,libc6-dev,binutils bullseye "$system" ${mirror:+"$mirror"} >/dev/null
fi

step "building the tests for it"
target=x86_64-unknown-linux-gnu
build=$root/target/old-glibc
mkdir -p "$build"
export CARGO_ZIGBUILD_ZIG_PATH=$tools/package/ziglang/zig
printf '#!/bin/sh\nexec "%s" cc -target x86_64-linux-gnu.2.28 "$@"\n' "$CARGO_ZIGBUILD_ZIG_PATH" >"$build/cc"
chmod +x "$build/cc"
tests=$(CC=$build/cc cargo zigbuild --locked --target $target.2.28 --target-dir "$build" \
    --package r3-tests --tests --message-format json |
    python3 -c 'import json, sys
for message in map(json.loads, sys.stdin):
    if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
        print(message["executable"])')
cp "$tree/lib/libr3.so" "$tree/bin/r3-replay" "$build/$target/debug/"
cp "$tree/lib/softcuda/libcuda.so.1" "$build/$target/debug/libcuda.so"

# Before 2.34, what calls dlsym is linked with libdl.
printf '#!/bin/sh\nexec cc "$@" -ldl\n' >"$build/cc-inside"
chmod +x "$build/cc-inside"
# Before 2.34, a look-up that fails in a namespace of its own (dlmopen) ends the process, with R3 or without.
skip=a_library_that_goes_past_r3_is_named_in_a_message

# The mounts end with the process that made them.
step "in Debian 11, $(chroot "$system" ldd --version | head -n1)"
export system root tests build skip
# shellcheck disable=SC2016  # for the inner shell
unshare --mount bash -euc '
    mkdir -p "$system$root"
    mount --bind "$root" "$system$root"
    mount -t proc proc "$system/proc"
    mount --rbind /dev "$system/dev"
    failed=0
    for test in $tests; do
        printf "\n%s\n" "${test##*/}"
        chroot "$system" env -i PATH=/usr/bin:/bin HOME=/root TESTS_PREBUILT=1 CC="$build/cc-inside" \
            sh -c "cd \"$root/tests\" && exec \"$test\" --test-threads=2 --quiet --skip $skip" || failed=1
    done
    exit $failed'
say
say "the packaged files pass the end-to-end tests"
