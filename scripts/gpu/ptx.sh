#!/usr/bin/env bash
# Compares the CPU device with this machine's GPU, as tables; fails where they do not agree.
#
#   scripts/gpu/ptx.sh [STAGE...] [--out FOLDER] [--deadline SECONDS]
#
# Stages: ptx (default: all of these), or any of
#   differential    some 2000 small PTX kernels (each instruction, random programs) on both, from the same inputs
#   cpu-programs    the sample programs and frameworks recorded here, their PTX verified on the CPU device
#   cpu-speed       the CPU device on one core and the PTX parser, against what is promised
#   cpu-scaling     thread-instructions per second on 1, 2, 4, … cores
#
# Needs what record-replay.sh needs, and r3-ptx-differential, r3-emu-kernels and r3-ptx-parse, which `scripts/package.sh --tests`
# puts into dist/.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/record-replay.sh" --default ptx "$@"
