//! A text without blanks and comments.
