use super::Failure;
/// later
#[derive(clap::Args)]
pub struct Args {}
/// later
pub fn run(_: &Args) -> Result<u8, Failure> {
    Err(Failure::Message("not there yet".into()))
}
