//! Prints what an image holds: `show FILE…`.

fn main() -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        let image = r3_image::Image::from_vec(std::fs::read(&path)?);
        println!("{}: {:?}", path.display(), image.kind());
        for entry in image.entries() {
            let name = entry.name.as_deref().unwrap_or("-");
            let options = entry.options.as_deref().unwrap_or("-");
            println!(
                "  {:?} sm_{}{} version {:?} flags {:#x} {:?} {} bytes, name {name}, options {options}",
                entry.form,
                entry.sm,
                entry.arch_suffix.map(String::from).unwrap_or_default(),
                entry.version,
                entry.flags,
                entry.compression,
                entry.raw_len,
            );
        }
        for name in image.kernel_names() {
            println!("  {:?}", image.kernel(&name));
        }
        for variable in image.variables() {
            println!("  {variable:?}");
        }
        for problem in image.check() {
            println!("  problem: {problem}");
        }
    }
    Ok(())
}
