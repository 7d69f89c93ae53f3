//! Two texts, line by line.
