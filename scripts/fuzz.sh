#!/usr/bin/env bash
# Feeds damaged and invented files to every parser, and invented kernels to the CPU device. Fails on the first crash, hang or excess of memory.
#
#   scripts/fuzz.sh                       every target, 60 seconds each
#   scripts/fuzz.sh 600 [TARGET…]         600 seconds each, only these targets
#
# Targets are those of the folders fuzz/ of r3-archive, r3-image, r3-ptx, r3-emu and r3-codegen; what they find is kept in their artifacts/.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

"$root/scripts/setup.sh" --fuzz
seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || die "the first argument is a number of seconds, not $seconds"
[ $# = 0 ] || shift

# Archives to start from; the others start from the files that their tests keep.
cargo run --quiet --locked --package r3-archive --example fuzz-seeds

ran=0
for crate in r3-archive r3-image r3-ptx r3-emu r3-codegen; do
    cd "$root/$crate"
    for target in $(cargo fuzz list); do
        [ $# = 0 ] || [[ " $* " == *" $target "* ]] || continue
        step "$crate, $target, $seconds s"
        inputs=("fuzz/corpus/$target")
        mkdir -p "${inputs[0]}"
        [ ! -d tests/fixtures ] || inputs+=(tests/fixtures)
        cargo +nightly fuzz run "$target" "${inputs[@]}" -- -max_total_time="$seconds" -max_len=65536 \
            -rss_limit_mb=4096 -timeout=20 -print_final_stats=1
        ran=$((ran + 1))
    done
done
[ $ran -gt 0 ] || die "no such target: $*"
say
say "no crash (targets: $ran)"
