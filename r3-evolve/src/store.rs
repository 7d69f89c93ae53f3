//! A run's database.
