#!/usr/bin/env bash
# Sets up, builds R3, and shows it at work: a program recorded, its launches looked at and replayed.
#
#   scripts/demo.sh
#
# With an NVIDIA GPU and nvcc the program is a CUDA sample on that GPU. Without, it is a small driver-API
# program on the stand-in driver of the tests, which runs these kernels on the CPU; and the archives that
# were recorded on a real GPU and come with R3 are looked at. Everything is left in target/demo.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

"$root/scripts/setup.sh"

# run COMMAND…: shows a command as one would type it, and runs it.
run() {
    local shown=$*
    shown=${shown//"$bin/"/}
    printf '\n$ %s\n' "${shown//"$root/"/}"
    "$@"
}

# Whether this machine has a GPU, and the compiler for it.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
gpu=no
if have nvidia-smi && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    gpu=yes
fi

step "building libr3.so and r3-replay"
cargo build --locked --release --package r3-intercept --package r3-replay
bin=${CARGO_TARGET_DIR:-$root/target}/release
PATH=$bin:$PATH
demo=${CARGO_TARGET_DIR:-$root/target}/demo
rm -rf "$demo"
mkdir -p "$demo"

if [ $gpu = yes ] && [ -x "$nvcc" ]; then
    step "a CUDA program on this GPU"
    run "$nvcc" -O2 -std=c++17 -arch=native -o "$demo/saxpy" capture-samples/programs/saxpy.cu
    program=$demo/saxpy
else
    step "a driver-API program on the stand-in driver"
    [ $gpu = yes ] || say "This machine has no NVIDIA GPU that nvidia-smi can see."
    [ -x "$nvcc" ] || say "This machine has no nvcc."
    say "Recording and replaying real kernels needs both a GPU and a program for it. What follows runs the same"
    say "libr3.so and r3-replay on the driver of R3's tests: it implements the calls and knows six kernels by name."
    # Its build script compiles the driver and the programs, and cargo says where they are.
    built=$(cargo build --locked --release --package r3-tests --message-format json --quiet |
        python3 -c 'import json, sys
for message in map(json.loads, sys.stdin):
    if message["reason"] == "build-script-executed" and "r3-tests" in message["package_id"]:
        print(message["out_dir"])')
    [ -x "$built/direct" ] || die "the programs of the tests were not built"
    cp "$built/direct" "$built/libcuda.so.1" "$demo/"
    export LD_LIBRARY_PATH=$demo${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    program=$demo/direct
fi

archive=$demo/$(basename "$program").r3
run env LD_PRELOAD="$bin/libr3.so" R3_OUT="$archive" "$program"
[ -s "$archive" ] || die "no archive was written"
run r3-replay info "$archive"
run r3-replay verify "$archive"
say
say "Every launch ran again, in another process, and left the same bytes."

step "archives recorded on an H200, looked at without one"
shopt -s nullglob
archives=(capture-samples/archives/*.r3)
[ ${#archives[@]} -gt 0 ] || die "there are no archives in capture-samples/archives"
for file in "${archives[@]}"; do
    r3-replay fsck "$file" >"$demo/fsck.txt" || {
        cat "$demo/fsck.txt"
        die "$file is damaged"
    }
done
say "fsck: ${#archives[@]} archives, every block, checksum and reference is right"
sample=capture-samples/archives/wilson.r3
[ -f "$sample" ] || sample=${archives[0]}
run r3-replay info "$sample"
run r3-replay ls "$sample"
run r3-replay show "$sample" 1
run r3-replay extract --out "$demo/extracted" "$sample"

step "done"
say "Left in ${demo#"$root/"}: the archive, and what was extracted."
if [ "$program" = "$demo/direct" ]; then
    say "On a machine with an NVIDIA GPU, with your own program:"
else
    say "With your own program:"
fi
say "    LD_PRELOAD=$bin/libr3.so ./your-program"
say "    $bin/r3-replay verify your-program.*.r3"
