#!/usr/bin/env bash
# Makes dist/r3-<version>-x86_64-linux.tar.xz: libr3.so, the programs, the software driver, their licences. It runs on
# Ubuntu 22.04+, RHEL 9+ and alike without Rust or LLVM; libr3.so itself down to glibc 2.28.
#
#   scripts/package.sh            build, check, pack
#   scripts/package.sh --tests    also the programs that scripts/gpu/ptx.sh and remix.sh run, into dist/, outside the package
#
# Built twice from one commit (same Rust, same pins) the file is the same, byte for byte.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

want_tests=no
for option in "$@"; do
    case $option in
    --tests) want_tests=yes ;;
    *) die "unknown option $option: only --tests is known" ;;
    esac
done
"$root/scripts/setup.sh" --package

version=$(version)
name=r3-$version-x86_64-linux
target=x86_64-unknown-linux-gnu
glibc=2.28
dist=$root/dist
tree=$dist/$name
build=${CARGO_TARGET_DIR:-$root/target}

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)
fi
export SOURCE_DATE_EPOCH

# zig's linker knows the symbols of every glibc, so that no old machine is needed to build on.
# Paths of this machine stay out of the files: they would change them from one machine to the next.
export CARGO_ZIGBUILD_ZIG_PATH=$tools/package/ziglang/zig
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$root=/r3 --remap-path-prefix=$cargo_home=/cargo"
export CFLAGS="-ffile-prefix-map=$root=/r3 -ffile-prefix-map=$cargo_home=/cargo"

# The preloaded library apart, so that no feature that the others want of a shared crate enters it.
# built [OPTION…]: builds for old glibc.
built() { cargo zigbuild --release --locked --target "$target.$glibc" "$@"; }
step "building libr3.so for glibc $glibc"
built --package r3-intercept
step "building the software driver for glibc $glibc"
built --package r3-softcuda

# LLVM comes as the system's static libraries, which were compiled against the system's own glibc: the system's linker it
# is, and check-package.sh tells which glibc came of it. Beside them lie shared libraries of the same names; a folder that
# holds the static ones alone is looked into first.
static=$build/static
mkdir -p "$static"
for library in stdc++ z zstd ffi; do
    file=$(cc -print-file-name="lib$library.a")
    [ -f "$file" ] || die "lib$library.a is missing: install g++, zlib1g-dev, libzstd-dev and libffi-dev (Debian's names)"
    ln -sfn "$file" "$static/"
done
# with_llvm [OPTION…]: builds with LLVM inside.
with_llvm() {
    RUSTFLAGS="$RUSTFLAGS -L native=$static" cargo build --release --locked --target "$target" \
        --no-default-features --features llvm-static "$@"
}
# copyright PACKAGE: the licence of a library of the system that is linked in.
copyright() {
    local file=/usr/share/doc/$1/copyright
    [ -f "$file" ] || die "$file is missing: the licence of what is linked into r3-replay"
    printf '%s' "$file"
}
step "building r3-replay and r3-evolve with LLVM inside"
# With the programs for tests, wanted or not: built apart they would want other features of shared crates, and so all anew.
with_llvm --package r3-replay --package r3-evolve --package r3-differential --package r3-codegen --bins

if [ $want_tests = yes ]; then
    step "building the programs of scripts/gpu/ptx.sh and remix.sh"
    # The name of a benchmark's file is cargo's to choose.
    parse=$(built --package r3-emu --package r3-ptx --example kernels --bench parse \
        --message-format json | python3 -c 'import json, sys
for message in map(json.loads, sys.stdin):
    if message["reason"] == "compiler-artifact" and message["target"]["name"] == "parse" and message["executable"]:
        print(message["executable"])')
    mkdir -p "$dist"
    strip -o "$dist/r3-ptx-differential" "$build/$target/release/r3-ptx-differential"
    strip -o "$dist/r3-compile-worker" "$build/$target/release/r3-compile-worker"
    strip -o "$dist/r3-emu-kernels" "$build/$target/release/examples/kernels"
    strip -o "$dist/r3-ptx-parse" "$parse"
fi

step "packing $name"
rm -rf "$tree"
mkdir -p "$tree/bin" "$tree/lib/softcuda"
for program in r3-replay r3-evolve; do
    strip --strip-all -o "$tree/bin/$program" "$build/$target/release/$program"
done
strip --strip-unneeded -o "$tree/lib/libr3.so" "$build/$target/release/libr3.so"
strip --strip-unneeded -o "$tree/lib/softcuda/libcuda.so.1" "$build/$target/release/libcuda.so"
chmod 755 "$tree"/bin/* "$tree/lib/libr3.so" "$tree/lib/softcuda/libcuda.so.1"
cp README.md LICENSE-MIT LICENSE-APACHE "$tree/"
cp -r docs "$tree/docs"
scripts/crates.py licenses r3-intercept r3-replay r3-evolve r3-softcuda \
    --with "LLVM libunwind=$tools/package/ziglang/lib/libunwind/LICENSE.TXT" \
    --with "LLVM=$(copyright llvm-22-dev)" \
    --with "libstdc++=$(copyright libstdc++6)" \
    --with "zlib=$(copyright zlib1g-dev)" \
    --with "libffi=$(copyright libffi-dev)" >"$tree/THIRD-PARTY-LICENSES"

step "checking"
scripts/check-package.sh "$tree"

archive=$dist/$name.tar.xz
chmod -R u+rwX,go+rX,go-w "$tree"
tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$dist" -cf - "$name" | xz -9 -T1 >"$archive.part"
mv "$archive.part" "$archive"
say
say "$(du -h --apparent-size "$archive" | cut -f1)  dist/$name.tar.xz"
say "sha256 $(sha256sum "$archive" | cut -d' ' -f1)"
