//! Variables that both recording and compiling may see.

#[test]
fn a_recording_knows_every_variable_that_names_a_tool() {
    let mut of_compilers: Vec<&str> = r3_codegen::worker::ENVIRONMENT
        .iter()
        .copied()
        .filter(|name| name.starts_with("R3_"))
        .collect();
    let mut known: Vec<&str> = r3_options::TOOL_VARIABLES
        .iter()
        .map(|&(name, _)| name)
        .collect();
    of_compilers.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, of_compilers);
}
