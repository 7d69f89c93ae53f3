#!/usr/bin/env bash
# Sets up, builds R3, and shows it at work. No GPU is needed.
#
#   scripts/demo.sh              with a GPU and nvcc: a CUDA sample, recorded and replayed on that GPU
#   scripts/demo.sh --no-gpu     as on a machine without a GPU, wherever it is
#   scripts/demo.sh --help       this text
#
# Without a GPU, kernels run as PTX on the CPU: archives that were recorded on an H200 and come with R3 are verified;
# a small program on CUDA's driver API runs on the software driver, is recorded by the preloaded libr3.so, and its
# archive is verified by another process; a kernel is compiled anew and compared, tuned, and another's source searched; then the same program makes a mistake. Everything is left in target/demo.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

gpu=no
if have nvidia-smi && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    gpu=yes
fi
for option in "$@"; do
    case $option in
    --no-gpu) gpu=no ;;
    -h | --help)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) die "unknown option $option (try --help)" ;;
    esac
done
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ $gpu = yes ] && [ ! -x "$nvcc" ]; then
    say "This machine has a GPU, and no nvcc for a sample: the CPU device is shown."
    gpu=no
fi

"$root/scripts/setup.sh" --build

# show COMMAND…: a command as one would type it. run COMMAND…: shows it and runs it.
show() {
    local shown=$*
    shown=${shown//"$bin/"/}
    printf '\n$ %s\n' "${shown//"$root/"/}"
}
run() {
    show "$@"
    "$@"
}

# The profile of Cargo.toml that is quick to build: optimised, but not across crates.
step "building (some minutes the first time)"
packages=(--package r3-intercept --package r3-replay --package r3-evolve)
[ $gpu = yes ] || packages+=(--package r3-softcuda)
cargo build --locked --profile quick "${packages[@]}"
bin=${CARGO_TARGET_DIR:-$root/target}/quick
PATH=$bin:$PATH
demo=${CARGO_TARGET_DIR:-$root/target}/demo
rm -rf "$demo"
mkdir -p "$demo"
archives=(capture-samples/archives/*.r3)
[ -f "${archives[0]}" ] || die "there are no archives in capture-samples/archives"

# --- Archives that come with R3 ---

step "recorded on an H200, looked at here"
run r3-replay info capture-samples/archives/reduction.r3
run r3-replay show capture-samples/archives/reduction.r3 1

# verify_all: a line for each archive; the exit codes of verify are in docs/replay.md.
verify_all() {
    local file name code verdict
    local verified=0 unable=0 failed=0
    for file in "${archives[@]}"; do
        name=$(basename "$file")
        code=0
        r3-replay verify --device "$device" "$file" >"$demo/verify.txt" 2>&1 || code=$?
        verdict=$(tail -n1 "$demo/verify.txt")
        case $code in
        0) verified=$((verified + 1)) ;;
        3) unable=$((unable + 1)) ;;
        *) failed=$((failed + 1)) ;;
        esac
        printf '%-20s %s\n' "$name" "$verdict"
        case $code in
        0) ;;
        3) grep -A1 'cannot run here' "$demo/verify.txt" | sed -n '2s/^ */                       /p' ;;
        *) cat "$demo/verify.txt" ;;
        esac
    done
    say
    say "${#archives[@]} archives: $verified verified in whole, $unable hold launches that cannot run on this device, $failed failed"
    [ $failed = 0 ] || die "archives do not verify"
}

if [ $gpu = yes ]; then
    device=cuda
    step "a CUDA program on this GPU, recorded"
    run "$nvcc" -O2 -std=c++17 -arch=native -o "$demo/saxpy" capture-samples/programs/saxpy.cu
    program=("$demo/saxpy")
else
    device=cpu
    step "verified on the CPU device: every byte, against what the H200 wrote"
    run r3-replay verify --device cpu capture-samples/archives/reduction.r3
    say
    say "What PTX defines exactly is compared bit for bit; atomic additions of floats have no order on a GPU either."
    show "for file in capture-samples/archives/*.r3; do r3-replay verify --device cpu \$file | tail -n1; done"
    verify_all

    step "a program on CUDA's driver API, on the software driver"
    # Programs look for the driver by this name.
    cp "$bin/libcuda.so" "$demo/libcuda.so.1"
    run cc -O2 -o "$demo/diffuse" scripts/demo/diffuse.c "$demo/libcuda.so.1" -lm
    program=("$demo/diffuse" scripts/demo/diffuse.ptx)
    run env LD_LIBRARY_PATH="$demo" "${program[@]}"
    step "the same, recorded by the preloaded library"
fi

archive=$demo/$(basename "${program[0]}").r3
preload=(LD_PRELOAD="$bin/libr3.so" R3_OUT="$archive")
[ $gpu = yes ] || preload+=(LD_LIBRARY_PATH="$demo")
run env "${preload[@]}" "${program[@]}"
[ -s "$archive" ] || die "no archive was written"
run r3-replay info "$archive"
step "replayed: another process, the same addresses, every byte compared"
run r3-replay verify --device $device "$archive"

step "compiled anew: lifted to LLVM IR, optimised for the captured arguments, verified, against the original"
run r3-replay remix --device $device capture-samples/archives/reduction.r3 1 --specialize scalars --bench

step "tuned: block sizes, registers, constants, passes; every candidate verified, the best written to a file"
rm -rf "$demo/tuned"
run r3-evolve tune capture-samples/archives/reduction.r3 --kernel block_sums --device $device --evaluations 40 --run "$demo/tuned"
run r3-evolve export "$demo/tuned" --format nvcc-flags

step "evolved: its source rewritten, within a tolerance; every variant compiled, verified and timed; a page with what was found"
rm -rf "$demo/evolved"
printf '%s\n' 'version = 1' '' '[[buffer]]' 'type = "f32"' 'relative = 1e-4' 'absolute = 1e-6' >"$demo/tolerance.toml"
run r3-evolve evolve capture-samples/archives/nbody.r3 --kernel step --source capture-samples/programs/nbody.cu \
    --tolerance-file "$demo/tolerance.toml" --device $device --variants 16 --no-models --run "$demo/evolved"
run r3-evolve report "$demo/evolved" -o "$demo/evolved.html"

if [ $gpu = no ]; then
    step "a mistake: the kernel is told of 120 rows, the buffers have 96"
    show env LD_LIBRARY_PATH="$demo" "${program[@]}" 1 120
    code=0
    LD_LIBRARY_PATH=$demo "${program[@]}" 1 120 >"$demo/fault.txt" 2>&1 || code=$?
    cat "$demo/fault.txt"
    if [ $code != 1 ] || ! grep -q CUDA_ERROR_ILLEGAL_ADDRESS "$demo/fault.txt"; then
        die "the mistake was not found"
    fi
    say
    say "The program gets the error of a GPU; the line before says which thread, where in the PTX, and what is near the address."
fi

step "done"
say "Left in ${demo#"$root/"}: the program, its archive. With your own program:"
if [ $gpu = no ]; then
    say "    LD_LIBRARY_PATH=$demo LD_PRELOAD=$bin/libr3.so ./your-program     (driver API and PTX: docs/softcuda.md)"
    say "    $bin/r3-replay verify --device cpu your-program.*.r3"
else
    say "    LD_PRELOAD=$bin/libr3.so ./your-program"
    say "    $bin/r3-replay verify your-program.*.r3"
fi
