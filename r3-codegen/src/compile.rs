//! All steps, one after the other, in this process.
