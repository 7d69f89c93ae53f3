//! Directives and pragmas of functions as attributes and metadata.
