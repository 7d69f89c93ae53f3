//! Searches on tables.
