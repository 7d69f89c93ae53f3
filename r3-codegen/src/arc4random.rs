//! `arc4random` for a program with LLVM inside.
//!
//! The static libraries of LLVM ask for this function where the glibc that they were compiled against has it (2.36). With a
//! definition of our own the program runs on older ones.

/// Random bits of the kernel. LLVM calls it for names of temporary files and random seeds.
#[unsafe(no_mangle)]
extern "C" fn arc4random() -> u32 {
    let mut bits = [0_u8; 4];
    let mut filled = 0;
    while filled < bits.len() {
        let rest = &mut bits[filled..];
        // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(0) | Err(_) => break,
            Ok(got) => filled += got,
        }
    }
    u32::from_ne_bytes(bits)
}
