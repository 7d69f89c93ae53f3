//! Worker processes with limits.
