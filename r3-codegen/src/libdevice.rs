//! CUDA's mathematical functions: found, linked, internalised.
