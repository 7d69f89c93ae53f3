#!/usr/bin/env bash
# Makes fingerprint.ptx from fingerprint.cu with nvcc 13 (NVCC, default: nvcc on PATH). The text uses
# nothing newer than PTX 6.0 and sm_50, so the header says so: any driver since CUDA 9 compiles it.
set -euo pipefail
cd "$(dirname "$0")"
{
    echo "// Made from fingerprint.cu by regenerate.sh."
    "${NVCC:-nvcc}" -O3 -arch=compute_75 -ptx -o - fingerprint.cu |
        sed -e '/^\/\//d' -e 's/^\.version .*/.version 6.0/' -e 's/^\.target .*/.target sm_50/' -e '/^$/d'
} >fingerprint.ptx
