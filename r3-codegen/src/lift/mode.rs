//! Rounding, flushing and contraction of a module, instruction by instruction.
