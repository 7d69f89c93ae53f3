//! What a run found, for people.
