//! A stand-in `libcuda.so.1` that runs PTX kernels on the CPU.
