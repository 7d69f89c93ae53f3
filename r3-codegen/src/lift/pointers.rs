//! Which registers hold addresses, and into what.
