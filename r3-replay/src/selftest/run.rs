//! All cases through an evaluator.
