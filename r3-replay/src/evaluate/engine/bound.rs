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

/// A launch that takes less than this part of an empty kernel's time did not run.
const OF_EMPTY: f64 = 0.5;

/// Why a time cannot be, if it cannot. `empty` is the time of a kernel that does nothing.
pub fn impossible(time: f64, bound: Option<Bound>, empty: Option<f64>) -> Option<String> {
    if let Some(bound) = bound.filter(|bound| time < bound.least) {
        return Some(format!(
            "{:.1} µs are less than it takes to write {} MiB to memory, even at {OF_STATED} times the bandwidth that the device \
             states ({:.1} µs)",
            time / 1e3,
            bound.bytes >> 20,
            bound.least / 1e3,
        ));
    }
    let empty = empty.filter(|empty| time < OF_EMPTY * empty)?;
    Some(format!(
        "{:.2} µs are less than an empty kernel takes ({:.2} µs)",
        time / 1e3,
        empty / 1e3,
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
        assert!(impossible(100e3, Some(found), None).is_some_and(|why| why.contains("964 MiB")));
        assert_eq!(impossible(300e3, Some(found), None), None);
        assert_eq!(bound(60 << 20, &device()), None);
        assert_eq!(bound(1 << 30, &DeviceDescription::default()), None);
    }

    #[test]
    fn nothing_is_faster_than_an_empty_kernel() {
        assert!(impossible(900.0, None, Some(2000.0)).is_some());
        // Two events are some hundred nanoseconds exact.
        assert_eq!(impossible(1800.0, None, Some(2000.0)), None);
    }
}
