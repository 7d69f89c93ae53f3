//! Islands: populations that search apart and exchange their best.
