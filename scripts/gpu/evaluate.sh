#!/usr/bin/env bash
# Judges and times candidates on this machine's GPU, as tables; fails where a verdict is wrong or a time is above its limit.
#
#   scripts/gpu/evaluate.sh [STAGE...] [--out FOLDER] [--deadline SECONDS]
#
# Stages: evaluate (default: all of these), or any of
#   evaluate-device    what the engine does on the device (copies, poison, comparison …) against the same on the host
#   evaluate-selftest  planted exploits, which must be caught, and harmless rewrites, which must not be refused
#   evaluate-speed     256 MiB of state and a kernel of 0.3 ms: time beside compilation and kernels, against fresh processes
#   evaluate-rate      candidates per second, end to end, on a small kernel
#   evaluate-faults    1000 candidates, a tenth of which crash, hang, corrupt memory or do not compile; memory before and after
#   evaluate-noise     the original against itself, 30 times
#
# Needs what record-replay.sh needs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/record-replay.sh" --default evaluate "$@"
