//! r3-replay
fn main() {}
