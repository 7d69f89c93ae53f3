#!/usr/bin/env bash
# Tunes kernels on this machine's GPU, as tables; fails where a known lever is not found or a result does not verify.
#
#   scripts/gpu/tune.sh [STAGE...] [--out FOLDER] [--deadline SECONDS]
#
# Stages: tune (default: all of these), or any of
#   tune-levers    six kernels for which it is known what helps: the search within 60 candidates, random search with three
#                  seeds, and a full sweep of block sizes and register caps over nvcc's own code
#   tune-samples   the kernels of capture-samples: the search, and random search at equal time
#
# R3_TUNE_SECONDS is the time for one search of tune-samples (default 180, as a user would give it).
# Needs what record-replay.sh needs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/record-replay.sh" --default tune "$@"
