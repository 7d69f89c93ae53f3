#!/usr/bin/env bash
# Runs kernels of numba-cuda, unmodified, on the software driver; then records them with libr3.so and verifies
# the archive on the CPU device.
#
#   scripts/numba.sh [PROFILE]    cargo's profile: quick (default), release, dev
#
# Needs no GPU. What it needs is fetched into .tools/numba the first time (250 MB). Python 3.11 to 3.13 on x86-64.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

profile=${1:-quick}
"$root/scripts/setup.sh" --build --numba
python=$tools/numba/bin/python

# TESTS_PREBUILT=1 uses what is there, as the tests do.
if [ -z "${TESTS_PREBUILT:-}" ]; then
    step "building the software driver, libr3.so and r3-replay"
    cargo build --locked --profile "$profile" --package r3-softcuda --package r3-intercept --package r3-replay
fi
[ "$profile" != dev ] || profile=debug
bin=${CARGO_TARGET_DIR:-$root/target}/$profile

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$bin/libcuda.so" "$work/libcuda.so.1"
export LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

step "numba-cuda on the software driver"
"$python" -W ignore scripts/numba-kernels.py

step "the same, recorded"
R3_OUT=$work/numba.r3 LD_PRELOAD=$bin/libr3.so "$python" -W ignore scripts/numba-kernels.py

step "verified on the CPU device"
"$bin/r3-replay" verify --device cpu "$work/numba.r3"
