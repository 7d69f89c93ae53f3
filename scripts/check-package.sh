#!/usr/bin/env bash
# Checks that an unpacked package runs where it is promised to run, and that the preloaded library
# takes nothing along and shows nothing but what it hooks.
#
#   scripts/check-package.sh FOLDER      with bin/, lib/libr3.so and lib/softcuda/libcuda.so.1
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 1 ] || die "usage: $0 FOLDER"
tree=$(cd "$1" && pwd)
library=$tree/lib/libr3.so
driver=$tree/lib/softcuda/libcuda.so.1
bad=0
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    bad=$((bad + 1))
}

# glibc FILE: the newest version of glibc's symbols that FILE asks for.
glibc() { readelf -W --version-info "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n1; }
# at_most FILE VERSION
at_most() {
    local needs
    needs=$(glibc "$1")
    say "${1#"$tree"/}: glibc $needs (at most $2), $(stat -c %s "$1") bytes"
    [ "$(printf '%s\n' "$needs" "$2" | sort -V | tail -n1)" = "$2" ] || fail "${1#"$tree"/} needs glibc $needs"
}
needed() { readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# libr3.so enters programs of old clusters (RHEL 8: 2.28); the programs run on Ubuntu 22.04 (2.35) and RHEL 9 (2.34).
at_most "$library" 2.28
for program in "$tree"/bin/* "$driver"; do
    at_most "$program" 2.34
done

for file in "$library" "$driver" "$tree"/bin/*; do
    for name in $(needed "$file"); do
        case $name in
        libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-x86-64.so.2 | libgcc_s.so.1) ;;
        *) fail "${file#"$tree"/} needs $name" ;;
        esac
    done
    ! readelf -dW "$file" | grep -Eq '\((RPATH|RUNPATH|TEXTREL)\)' || fail "${file#"$tree"/} has RPATH, RUNPATH or TEXTREL"
    ! readelf -lW "$file" | grep -q 'GNU_STACK.*RWE' || fail "${file#"$tree"/} asks for an executable stack"
done

# Undefined symbols come from glibc (or libgcc_s) by version, or are weak and checked for at run time.
for file in "$library" "$driver"; do
    undefined=$(readelf -W --dyn-syms "$file" | awk '$7 == "UND" && $8 != "" && $5 != "WEAK" && $8 !~ /@(GLIBC|GCC)_/ { print $8 }')
    [ -z "$undefined" ] || fail "${file#"$tree"/} leaves undefined, as glibc 2.28 has no such function: $(echo "$undefined" | tr '\n' ' ')"
done

# exported FILE: the names that FILE exports.
exported() {
    readelf -W --dyn-syms "$1" | awk '$7 != "UND" && ($5 == "GLOBAL" || $5 == "WEAK") && $8 != "" { print $8 }' | sed 's/@.*//' | LC_ALL=C sort -u
}

# What it exports takes precedence in every process it is loaded into: hooks only.
exported=$(exported "$library")
strange=$(echo "$exported" | grep -Ev '^(cu[A-Z][A-Za-z0-9_]*|nvrtc[A-Z][A-Za-z0-9_]*|dlsym|dlvsym|r3_[a-z0-9_]*)$' || true)
[ -z "$strange" ] || fail "lib/libr3.so exports: $(echo "$strange" | tr '\n' ' ')"
for hook in dlsym dlvsym cuGetProcAddress_v2 cuLaunchKernel; do
    echo "$exported" | grep -qx "$hook" || fail "lib/libr3.so does not export $hook: it would record nothing"
done
say "lib/libr3.so: $(echo "$exported" | grep -c . || true) exported symbols, NEEDED $(needed "$library" | tr '\n' ' ')"

# Programs find the software driver by its name, and everything in it that a driver has; nothing else of it.
name=$(readelf -dW "$driver" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$name" = libcuda.so.1 ] || fail "lib/softcuda/libcuda.so.1 calls itself '$name'"
exported=$(exported "$driver")
strange=$(echo "$exported" | grep -Ev '^cu[A-Z][A-Za-z0-9_]*$' || true)
[ -z "$strange" ] || fail "lib/softcuda/libcuda.so.1 exports: $(echo "$strange" | tr '\n' ' ')"
missing=$(LC_ALL=C comm -13 <(echo "$exported") <(grep -v '^#' "$root/r3-softcuda/entry_points.txt" | cut -d' ' -f1 | LC_ALL=C sort -u))
[ -z "$missing" ] || fail "lib/softcuda/libcuda.so.1 does not export: $(echo "$missing" | tr '\n' ' ')"
say "lib/softcuda/libcuda.so.1: $(echo "$exported" | grep -c . || true) exported symbols, NEEDED $(needed "$driver" | tr '\n' ' ')"

# It runs, in an empty environment and from here; and it leaves a program that has no CUDA alone.
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here"
for program in "$tree"/bin/*; do
    [ -n "$(env -i "$program" --version)" ] || fail "${program#"$tree"/} --version says nothing"
done
if output=$(env -i LD_PRELOAD="$library" /bin/sh -c 'exec /bin/echo ok' 2>&1) && [ "$output" = ok ]; then :; else
    fail "a program without CUDA does not run as before under lib/libr3.so: $output"
fi
[ -z "$(ls -A "$here")" ] || fail "a program without CUDA left files: $(ls -A "$here")"

[ $bad = 0 ] || die "$bad checks of the package failed"
say "package checks passed"
