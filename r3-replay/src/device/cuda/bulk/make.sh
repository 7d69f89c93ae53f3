#!/bin/sh
# Makes kernels.ptx, or the file that is given, of kernels.cpp. PTX 6.0 for sm_50 loads on every GPU since Maxwell. Without
# contraction, floating-point results are those of the host. What is here was made by LLVM 22.1.8.
set -eu
here=$(dirname "$0")
clang-22 --target=nvptx64-nvidia-cuda -march=sm_50 -std=c++17 -O3 -ffp-contract=off \
    -emit-llvm -c "$here/kernels.cpp" -o - |
    llc-22 -O3 -mcpu=sm_50 -mattr=+ptx60 -o "${1:-$here/kernels.ptx}"
