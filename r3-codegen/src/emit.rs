//! LLVM IR to PTX, and what LLVM cannot print put back.
