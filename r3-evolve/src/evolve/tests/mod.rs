//! Searches on tables.

mod bed;
mod resuming;
mod searching;
