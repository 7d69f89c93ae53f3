#!/usr/bin/env bash
# Records every sample program on this machine's GPU into capture-samples/archives/*.r3, after checking that each archive
# replays, and renews the table in capture-samples/README.md. Needs what record-replay.sh needs.
#
#   scripts/gpu/capture-samples.sh [--out FOLDER]   FOLDER gets archives.tar as well
#   scripts/gpu/capture-samples.sh --table          only renews the table, from the archives that are there
set -euo pipefail

exec "$(dirname "${BASH_SOURCE[0]}")/record-replay.sh" capture "$@"
