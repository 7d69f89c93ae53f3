//! Searches on tables.

mod bed;
mod results;
mod resuming;
mod searching;
