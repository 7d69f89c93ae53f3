//! Which point of a space is tried next.
