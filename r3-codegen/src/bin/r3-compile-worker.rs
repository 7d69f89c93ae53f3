//! A worker process of [`r3_codegen::worker`], for tests and benchmarks of this crate. Programs that link the crate start
//! themselves as workers instead.

fn main() {
    r3_codegen::worker::serve()
}
