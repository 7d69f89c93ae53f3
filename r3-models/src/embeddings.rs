//! embeddings.
