//! Target machine, pipelines, LLVM's options.
