use super::{Failure, output::Output};
/// later
#[derive(clap::Args)]
pub struct Args {}
/// later
pub fn run(_: &Args, _: &mut Output) -> Result<u8, Failure> {
    Err(Failure::Message("not there yet".into()))
}
