#!/usr/bin/env bash
# Shows on a GPU machine what R3 promises of recording and replaying, as tables; fails when a promise is broken.
#
#   scripts/gpu/record-replay.sh [STAGE...] [--out FOLDER] [--deadline SECONDS]
#
# Stages: all (default), or any of
#   proc-address  is every pointer from cuGetProcAddress an exported symbol of libcuda? (needs no R3)
#   samples       capture-samples: same output and exit code as without R3, every launch verified elsewhere
#   frameworks    the same for PyTorch, Triton, CuPy and JAX programs
#   aslr          one archive verified 20 times in a row
#   replay        archives that were recorded on another machine, and r3-replay's options
#   overhead      the cost of a launch with the shim loaded, over a million launches
#   gigabyte      1 GiB of floats: time, compression, archive size, host memory
#   runtimes      (not in all) a program on other versions of the CUDA runtime, found in RUNTIMES_FOLDER
#   sigkill       50 processes killed while they are recorded
#
# Needs: nvcc (or NVCC), make, python3 3.11 or newer, and R3: R3_HOME names the unpacked package, or it lies beside this
# script or in dist/. FOLDER (default dist/gpu-results) gets results.jsonl, logs.tar.gz and, from proc-address, a table.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for tool in python3 make cc; do
    if ! command -v "$tool" >/dev/null; then
        echo "record-replay.sh: $tool is not on the PATH" >&2
        exit 2
    fi
done
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
    PATH=$PATH:/usr/local/cuda/bin
fi
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Not by PYTHONPATH, which the measured Python programs would inherit.
exec python3 -c 'import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("record_replay", run_name="__main__", alter_sys=True)' "$here" "$@"
