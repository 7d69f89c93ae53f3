//! Searches on tables.

mod bed;
mod checking;
mod long;
mod repeating;
mod reporting;
mod results;
mod resuming;
mod searching;
