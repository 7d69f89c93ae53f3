#!/usr/bin/env bash
# Searches over source on this machine's GPUs, as tables; fails where a result does not verify or no gain is found.
#
#   scripts/gpu/evolve.sh [STAGE...] [--out FOLDER] [--deadline SECONDS]
#
# Stages: evolve (default: both of these), or any of
#   evolve-samples   a Wilson operator, n-body, a stencil and a reduction, with built-in rewrites alone: the recorded
#                    binary, `tune` alone, `evolve`; on two GPUs two at a time, each on its own
#   evolve-rate      variants and candidates per minute, and what of the machine was busy
#   evolve-models    a run against a scripted service for models: resumed after a kill, with an outage
#
# R3_EVOLVE_SECONDS is the time for one search of evolve-samples (default 600), R3_TUNE_SECONDS that of `tune` beside it
# (default 180), R3_EVOLVE_ONLY a list of samples.
# Needs what record-replay.sh needs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/record-replay.sh" --default evolve "$@"
