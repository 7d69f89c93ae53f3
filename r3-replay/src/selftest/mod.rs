//! Whether the evaluator can be believed, on this machine: candidates with a known verdict.
//!
//! [`archive`] makes an archive whose results the host computed, [`corpus`] lists candidates that cheat or are broken
//! (each must be caught) and candidates that are right (none may be refused). [`run`] hands them all to an evaluator, as
//! any search would, and counts.

pub mod archive;

pub mod corpus;

pub mod run;
