//! A text as a vector: hashed n-grams of its tokens.
