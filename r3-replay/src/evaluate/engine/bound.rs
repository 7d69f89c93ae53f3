//! Times that no device can reach: what is faster is set aside, and not believed.
//!
//! Bytes that a launch writes must leave the multiprocessors; those that do not fit into the level-2 cache must reach
//! memory before the launch is over. Bytes that are read are not counted: which of them a cleverer algorithm needs,
//! nobody knows, and a small state is in the cache. So the bound is far below what is possible, and what is below it is
//! wrong beyond doubt.

use crate::evaluate::describe::DeviceDescription;

/// The least time of a launch, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The time.
    pub least: f64,
    /// Bytes that must reach memory.
    pub bytes: u64,
}

/// Times the bandwidth that a device states: more than that it has in no case, whatever its clocks.
const OF_STATED: f64 = 1.25;

/// For a launch that writes so many bytes; `None` where the device does not say how fast its memory is.
pub fn bound(written: u64, device: &DeviceDescription) -> Option<Bound> {
    let bytes = written.saturating_sub(device.l2_bytes);
    let least = bytes as f64 / (OF_STATED * device.memory_bandwidth) * 1e9;
    (device.memory_bandwidth > 0.0 && device.l2_bytes > 0 && bytes > 0)
        .then_some(Bound { least, bytes })
}

/// Why a time cannot be, if it cannot.
///
/// The time of an empty kernel is no bound: it was measured at other clocks, and a timer's noise is as large.
pub fn impossible(time: f64, bound: Option<Bound>) -> Option<String> {
    let bound = bound.filter(|bound| time < bound.least)?;
    Some(format!(
        "{:.1} µs are less than it takes to write {} MiB to memory, even at {OF_STATED} times the bandwidth that the device \
         states ({:.1} µs)",
        time / 1e3,
        bound.bytes >> 20,
        bound.least / 1e3,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H200: 4.8 TB/s, 60 MB of cache.
    fn device() -> DeviceDescription {
        DeviceDescription {
            l2_bytes: 60 << 20,
            memory_bandwidth: 4.8e12,
            ..DeviceDescription::default()
        }
    }

    #[test]
    fn large_states_have_a_bound_and_small_ones_are_never_set_aside() {
        let found = bound(1 << 30, &device()).unwrap();
        assert!((150e3..180e3).contains(&found.least), "{found:?}");
        assert!(impossible(100e3, Some(found)).is_some_and(|why| why.contains("964 MiB")));
        assert_eq!(impossible(300e3, Some(found)), None);
        assert_eq!(bound(60 << 20, &device()), None);
        assert_eq!(bound(1 << 30, &DeviceDescription::default()), None);
    }

    /// A GPU whose clocks were low when its empty kernel was timed took 8.3 µs for that, and later 4 µs for a small kernel.
    #[test]
    fn a_short_time_alone_is_never_impossible() {
        for time in [1.0, 900.0, 4030.0] {
            assert_eq!(impossible(time, bound(12_000, &device())), None);
        }
    }
}
