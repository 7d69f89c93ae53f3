//! The search for a variant's best passes, launch shape, registers and compiler options.
