//! Basic blocks, dominators, loops.
