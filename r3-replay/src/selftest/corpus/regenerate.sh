#!/usr/bin/env bash
# Compiles the self-test's kernels to PTX that older drivers read too, beside their sources: `regenerate.sh [NVCC]` (13.0 was used).
set -euo pipefail
cd "$(dirname "$0")"
nvcc=${1:-nvcc}
for source in targets.cu exploits/*.cu harmless/*.cu; do
    "$nvcc" -ptx -O3 -std=c++17 -arch=compute_75 -o - "$source" | grep -v '^//' | sed 's/^.version .*/.version 6.5/' | sed '/^$/N;/^\n$/D' >"${source%.cu}.ptx"
done
