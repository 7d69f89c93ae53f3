//! Parameters and results: byte for byte the original's layout.
