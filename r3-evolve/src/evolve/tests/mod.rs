//! Searches on tables.

mod bed;
mod reporting;
mod results;
mod resuming;
mod searching;
