//! MAP-Elites: which variants are kept, and where.
