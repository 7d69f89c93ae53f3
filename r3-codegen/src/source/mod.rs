//! CUDA C++, LTO-IR, bitcode and IR text: other forms of code.
