//! Generic addresses of the spaces that are not global: windows with a tag in the high bits.
//!
//! A generic address of `.global` or `.const` is the address itself. Shared, local and parameter memory have windows of
//! 4 GiB each, so `cvta` and `isspacep` are arithmetic. No device or host has addresses there, and [`Memory`](super::Memory)
//! refuses to map them.
//!
//! A shared address has 32 bits: the offset in the low 24, and above them 0 for the block's own memory or `rank + 1` for
//! that of another block of the cluster. So each `shared::cta` address is a `shared::cluster` address too, as the ISA asks.

/// Start of the window of local memory. Each thread sees its own.
pub const LOCAL_BASE: u64 = 0x4C00_0000_0000_0000;
/// Start of the window of the kernel's parameter buffer.
pub const PARAM_BASE: u64 = 0x5000_0000_0000_0000;
/// Start of the window of shared memory.
pub const SHARED_BASE: u64 = 0x5300_0000_0000_0000;

/// Bits of an offset in the shared memory of one block.
pub const SHARED_OFFSET_BITS: u32 = 24;
/// Most bytes of shared memory of a block.
pub const SHARED_LIMIT: u32 = 1 << SHARED_OFFSET_BITS;

/// First address that no mapping may have: the windows are above.
pub const GLOBAL_END: u64 = LOCAL_BASE;

/// What a generic address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Global or constant memory.
    Global,
    /// Shared memory, of this block or of one of the cluster.
    Shared,
    /// Local memory of the thread.
    Local,
    /// The kernel's parameters.
    Param,
}

/// The window of a generic address.
#[inline(always)]
pub fn window(address: u64) -> Window {
    match address >> 32 {
        0x4C00_0000 => Window::Local,
        0x5000_0000 => Window::Param,
        0x5300_0000 => Window::Shared,
        _ => Window::Global,
    }
}

/// The shared address (`mapa`) of `offset` in the block of `rank`.
#[inline(always)]
pub fn shared_of_rank(rank: u32, offset: u32) -> u32 {
    ((rank + 1) << SHARED_OFFSET_BITS) | (offset & (SHARED_LIMIT - 1))
}

/// The rank in a shared address; `None` means the block's own.
#[inline(always)]
pub fn shared_rank(address: u32) -> Option<u32> {
    (address >> SHARED_OFFSET_BITS).checked_sub(1)
}

/// The offset in a shared address.
#[inline(always)]
pub fn shared_offset(address: u32) -> u32 {
    address & (SHARED_LIMIT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_do_not_overlap_and_global_is_the_rest() {
        for (base, want) in [
            (LOCAL_BASE, Window::Local),
            (PARAM_BASE, Window::Param),
            (SHARED_BASE, Window::Shared),
        ] {
            assert_eq!(window(base), want);
            assert_eq!(window(base + u64::from(u32::MAX)), want);
            assert_eq!(window(base - 1), Window::Global);
            assert_eq!(window(base + (1 << 32)), Window::Global);
        }
        assert_eq!(window(0x7fff_ffff_f000), Window::Global);
        assert_eq!(window(0), Window::Global);
    }

    #[test]
    fn own_shared_addresses_are_cluster_addresses() {
        assert_eq!(shared_rank(0x1234), None);
        let other = shared_of_rank(3, 0x1234);
        assert_eq!(
            (shared_rank(other), shared_offset(other)),
            (Some(3), 0x1234)
        );
    }
}
