#!/usr/bin/env bash
# Compiles captured kernels anew on this machine and runs them on its GPU, as tables; fails where one is not right.
#
#   scripts/gpu/remix.sh [STAGE...] [--out FOLDER] [--deadline SECONDS]
#
# Stages: remix (default: all of these), or any of
#   remix-samples   the archives of capture-samples: O0, O3 and ten random pipelines
#   remix-spot      NVRTC, CuPy and Triton programs recorded here, the same pipelines; machine code only with PTX attached
#   remix-kernels   2500 small PTX kernels and random programs: O0 and O3, 300 of them with ten random pipelines
#   remix-time      time of lifted and optimised code against the original, kernel by kernel
#   remix-attach    a program built as machine code only, its source attached by its build's commands, then remixed
#   remix-pool      compilations per second with 2 and 16 workers
#
# Needs what record-replay.sh needs, and r3-ptx-differential and r3-compile-worker, which `scripts/package.sh --tests` puts
# into dist/.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/record-replay.sh" --default remix "$@"
