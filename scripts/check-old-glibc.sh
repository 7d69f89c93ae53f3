#!/usr/bin/env bash
# Runs the packaged files on Debian 11 (glibc 2.31): older than every system that they are promised for,
# but for the 2.28 of libr3.so, which is checked by symbol version. Needs root and debootstrap.
#
#   scripts/check-old-glibc.sh [FOLDER]      keeps the Debian system in FOLDER for the next time
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || die "chroot needs root"
have debootstrap || die "debootstrap is missing: apt-get install debootstrap"
tree=$root/dist/r3-$(version)-x86_64-linux
[ -d "$tree" ] || die "$tree is missing: run scripts/package.sh first"
if [ $# -gt 0 ]; then
    system=$1
else
    system=$(mktemp -d)
    trap 'rm -rf "$system"' EXIT
fi

if [ ! -x "$system/bin/sh" ]; then
    step "making a Debian 11 system"
    mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n1)
    debootstrap --variant=minbase bullseye "$system" ${mirror:+"$mirror"} >/dev/null
fi
rm -rf "$system/r3"
cp -r "$tree" "$system/r3"
mkdir -p "$system/archives"
cp "$root"/capture-samples/archives/*.r3 "$system/archives/"

step "in Debian 11, $(chroot "$system" ldd --version | head -n1)"
chroot "$system" /r3/bin/r3-replay --version
for archive in "$system"/archives/*.r3; do
    chroot "$system" /r3/bin/r3-replay fsck "/archives/${archive##*/}" >/dev/null ||
        die "fsck of ${archive##*/} failed"
    say "fsck ${archive##*/}: ok"
done
[ "$(chroot "$system" env LD_PRELOAD=/r3/lib/libr3.so /bin/echo ok 2>&1)" = ok ] ||
    die "a program does not run as before under libr3.so"
say "the packaged files run"
