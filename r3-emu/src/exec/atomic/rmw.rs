//! One atomic read-modify-write on host memory.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A width that the host can exchange atomically.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// Cut from the low bits.
    fn cut(bits: u64) -> Self;
    /// In the low bits.
    fn bits(self) -> u64;
    /// Replaces the value at `at` by `f` of it, at once for all host threads; returns the old one.
    ///
    /// # Safety
    /// `at` is valid and aligned.
    unsafe fn update(at: *mut u8, f: impl Fn(u64) -> u64) -> Self;
}

macro_rules! word {
    ($($ty:ty, $atomic:ty;)*) => { $(
        impl Word for $ty {
            #[inline(always)]
            fn cut(bits: u64) -> Self {
                bits as Self
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                self.into()
            }

            #[inline(always)]
            unsafe fn update(at: *mut u8, f: impl Fn(u64) -> u64) -> Self {
                // SAFETY: the caller's promise.
                let atomic = unsafe { <$atomic>::from_ptr(at.cast()) };
                let mut old = atomic.load(Ordering::Relaxed);
                loop {
                    let new = f(old.into()) as Self;
                    let done = atomic.compare_exchange_weak(
                        old,
                        new,
                        Ordering::SeqCst,
                        Ordering::Relaxed,
                    );
                    match done {
                        Ok(_) => return old,
                        Err(now) => old = now,
                    }
                }
            }
        }
    )* };
}
word! {
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// The same for 128 bits.
///
/// # Safety
/// `at` is valid and aligned to 16.
pub(crate) unsafe fn update_128(at: *mut u8, f: impl Fn(u128) -> u128) -> u128 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("cmpxchg16b") {
        // A torn first guess is only a failed first try.
        // SAFETY: the caller's promise.
        let mut old = unsafe { at.cast::<u128>().read_volatile() };
        loop {
            // SAFETY: the host has the instruction; the rest is the caller's promise.
            let now = unsafe { exchange_128(at.cast(), old, f(old)) };
            if now == old {
                return old;
            }
            old = now;
        }
    }
    // A host without it: atomic among 128-bit operations.
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _held = LOCK
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: the caller's promise.
    unsafe {
        let old = at.cast::<u128>().read_volatile();
        at.cast::<u128>().write_volatile(f(old));
        old
    }
}

/// `lock cmpxchg16b`: the value of before. (The intrinsic of the standard library needs a runtime function that is not there
/// in unoptimised builds.)
///
/// # Safety
/// The host has the instruction; `at` is valid and aligned to 16.
#[cfg(target_arch = "x86_64")]
unsafe fn exchange_128(at: *mut u128, old: u128, new: u128) -> u128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: the caller's promise. The compiler keeps rbx for itself, so the low half of the new value is swapped in. It also
    // gives rbx to operands of any register, and then it would be swapped away: each operand has a register of its own name.
    unsafe {
        std::arch::asm!(
            "xchg rbx, rsi",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            inout("rsi") new as u64 => _,
            in("rdi") at,
            inout("rax") low,
            inout("rdx") high,
            in("rcx") (new >> 64) as u64,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}
