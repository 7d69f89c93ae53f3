#!/usr/bin/env bash
# Runs kernels of numba-cuda, unmodified, on the software driver; then records them with libr3.so and verifies
# the archive on the CPU device.
#
#   scripts/numba.sh              what it needs is fetched into .tools/numba the first time (250 MB)
#
# Needs no GPU. Python 3.11 to 3.13 on x86-64.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

pins=scripts/pins/numba.txt
python=$tools/numba/bin/python
stamp=$(python3 --version && sha256sum "$pins")
if [ "$(cat "$tools/numba/.stamp" 2>/dev/null)" != "$stamp" ]; then
    step "fetching numba-cuda into .tools/numba"
    rm -rf "$tools/numba"
    python3 -m venv --without-pip "$tools/numba"
    python3 -m pip --python "$python" install --quiet --disable-pip-version-check --require-hashes --no-deps \
        --only-binary :all: -r "$pins"
    printf '%s\n' "$stamp" >"$tools/numba/.stamp"
fi

step "building the software driver, libr3.so and r3-replay"
cargo build --locked --release --package r3-softcuda --package r3-intercept --package r3-replay
bin=${CARGO_TARGET_DIR:-$root/target}/release

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$bin/libcuda.so" "$work/libcuda.so.1"
export LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

step "numba-cuda on the software driver"
"$python" -W ignore scripts/numba-kernels.py

step "the same, recorded"
R3_OUT=$work/numba.r3 LD_PRELOAD=$bin/libr3.so "$python" -W ignore scripts/numba-kernels.py
"$bin/r3-replay" verify --device cpu "$work/numba.r3"
