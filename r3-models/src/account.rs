//! account.
