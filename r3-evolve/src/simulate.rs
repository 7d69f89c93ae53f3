//! Strategies on recorded spaces.
