//! What can be varied for a kernel.
