//! What of a file may be changed.
