//! The best candidate as a file.
