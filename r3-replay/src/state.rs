//! Launch state other than memory: limits, function settings, launch attributes.

use r3_archive::model::{LaunchAttribute, LaunchRecord};

use crate::device::{AddressRange, Device, DeviceError, KernelHandle};

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: i32 = 8;
/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`.
const CARVEOUT: i32 = 9;
/// Dynamic shared memory that needs no leave.
const ORDINARY_SHARED: u32 = 48 << 10;

/// `CUfunction_attribute` numbers that can be set, and their names.
const SETTINGS: [(i32, &str); 7] = [
    (MAX_DYNAMIC_SHARED, "maximum dynamic shared memory"),
    (CARVEOUT, "preferred shared memory carveout"),
    (11, "required cluster width"),
    (12, "required cluster height"),
    (13, "required cluster depth"),
    (14, "non-portable cluster size"),
    (15, "cluster scheduling policy"),
];

/// `CUlimit` numbers that are set, and their names.
const LIMITS: [(u32, &str); 7] = [
    (0, "stack size"),
    (1, "printf buffer size"),
    (2, "device heap size"),
    (3, "device runtime synchronisation depth"),
    (4, "device runtime pending launches"),
    (5, "L2 fetch granularity"),
    (6, "persisting L2 size"),
];

/// What happens to a launch attribute.
enum Fate {
    Keep,
    /// Kept when the address window at its start is memory of the replay.
    KeepIfMapped,
    Drop(&'static str),
}

/// `CUlaunchAttributeID` numbers, their names, and what a replay does with them. Others are left
/// out: their values may hold handles of the captured process.
const ATTRIBUTES: [(u32, &str, Fate); 16] = [
    (1, "access policy window", Fate::KeepIfMapped),
    (3, "synchronization policy", Fate::Keep),
    (4, "cluster dimension", Fate::Keep),
    (5, "cluster scheduling policy", Fate::Keep),
    (
        6,
        "programmatic stream serialization",
        Fate::Drop("one launch is replayed at a time"),
    ),
    (
        7,
        "programmatic event",
        Fate::Drop("it names an event of the application"),
    ),
    (
        8,
        "priority",
        Fate::Drop("one launch is replayed at a time"),
    ),
    (9, "memory synchronization domain map", Fate::Keep),
    (10, "memory synchronization domain", Fate::Keep),
    (11, "preferred cluster dimension", Fate::Keep),
    (
        12,
        "launch completion event",
        Fate::Drop("it names an event of the application"),
    ),
    (
        13,
        "device-updatable graph node",
        Fate::Drop("it belongs to a graph of the application"),
    ),
    (14, "shared memory carveout", Fate::Keep),
    (15, "NVLink-centric scheduling", Fate::Keep),
    (16, "portable cluster size mode", Fate::Keep),
    (17, "shared memory mode", Fate::Keep),
];

fn name_of<N: PartialEq + ToString>(
    mut table: impl Iterator<Item = (N, &'static str)>,
    number: N,
) -> String {
    table
        .find(|(known, _)| *known == number)
        .map_or_else(|| number.to_string(), |(_, name)| name.to_owned())
}

/// A `CUfunction_attribute` that can be set, for people.
pub fn setting_name(attribute: i32) -> String {
    name_of(
        SETTINGS.into_iter().chain([CLUSTER_SIZE_MUST_BE_SET]),
        attribute,
    )
}

/// A `CUlimit`, for people.
pub fn limit_name(limit: u32) -> String {
    name_of(LIMITS.into_iter(), limit)
}

/// A `CUlaunchAttributeID`, for people.
pub fn attribute_name(id: u32) -> String {
    name_of(ATTRIBUTES.iter().map(|(id, name, _)| (*id, *name)), id)
}

/// The value of a launch attribute, given in hexadecimal digits, for people.
pub fn attribute_value(id: u32, digits: &str) -> String {
    let word = |index: usize| {
        let bytes = digits.get(8 * index..8 * index + 8)?;
        u32::from_str_radix(bytes, 16).ok().map(u32::swap_bytes)
    };
    if DIMENSIONS.contains(&id)
        && let (Some(x), Some(y), Some(z)) = (word(0), word(1), word(2))
    {
        return format!("{x}x{y}x{z}");
    }
    let short = digits.trim_end_matches("00");
    if short.is_empty() {
        "0".to_owned()
    } else {
        format!("0x{short} (bytes in memory order)")
    }
}

/// `CUlaunchAttributeID` numbers whose values are three dimensions.
const DIMENSIONS: [u32; 2] = [4, 11];

/// A property of the code: it is shown and not set.
const CLUSTER_SIZE_MUST_BE_SET: (i32, &str) = (10, "cluster size must be set");

/// Sets the context's limits. Returns notes about those that could not be set.
pub fn apply_limits(device: &mut dyn Device, launch: &LaunchRecord) -> Vec<String> {
    let mut notes = Vec::new();
    for (limit, value) in &launch.limits {
        let Some((_, name)) = LIMITS.iter().find(|(known, _)| known == limit) else {
            continue;
        };
        // Limits that this driver does not know were not asked for by the application either.
        let Ok(current) = device.limit(*limit) else {
            continue;
        };
        if current == *value {
            continue;
        }
        if let Err(error) = device.set_limit(*limit, *value) {
            notes.push(format!(
                "{name} stays {current} instead of {value}: {error}"
            ));
        }
    }
    notes
}

/// Sets the function attributes and the cache preference, for a launch with so much dynamic shared memory. Returns
/// notes.
pub fn apply_settings(
    device: &mut dyn Device,
    kernel: KernelHandle,
    launch: &LaunchRecord,
    dynamic_shared: u32,
) -> Result<Vec<String>, DeviceError> {
    let mut notes = Vec::new();
    let recorded = |wanted| launch.function_settings.iter().find(|(a, _)| *a == wanted);
    for (attribute, name) in SETTINGS {
        let mut value = recorded(attribute).map(|(_, value)| *value);
        if attribute == MAX_DYNAMIC_SHARED && dynamic_shared > ORDINARY_SHARED {
            let needed = i32::try_from(dynamic_shared).unwrap_or(i32::MAX);
            value = Some(value.unwrap_or(0).max(needed));
        }
        let Some(value) = value else { continue };
        // Code that carries a setting itself refuses to be given it again.
        if device
            .kernel_attribute(kernel, attribute)
            .is_ok_and(|current| current == value)
        {
            continue;
        }
        match device.set_kernel_attribute(kernel, attribute, value) {
            Ok(()) => {}
            Err(error) if attribute == MAX_DYNAMIC_SHARED => return Err(error),
            Err(error) => notes.push(format!("{name} {value} was not set: {error}")),
        }
    }
    if let Some(config) = launch.cache_config
        && let Err(error) = device.set_cache_config(kernel, config)
    {
        notes.push(format!("cache preference {config} was not set: {error}"));
    }
    Ok(notes)
}

/// Sets what part of the L1 cache is to be shared memory, in percent, in place of what was recorded.
pub fn apply_carveout(
    device: &mut dyn Device,
    kernel: KernelHandle,
    percent: u32,
) -> Result<(), DeviceError> {
    let value = i32::try_from(percent).unwrap_or(i32::MAX);
    device.set_kernel_attribute(kernel, CARVEOUT, value)
}

/// The attributes that the replayed launch gets, and notes about the others. `mapped` tells
/// whether a range is memory of the replay.
pub fn attributes(
    launch: &LaunchRecord,
    mapped: impl Fn(AddressRange) -> bool,
) -> (Vec<LaunchAttribute>, Vec<String>) {
    let (mut kept, mut notes) = (Vec::new(), Vec::new());
    for attribute in &launch.attributes {
        // The first two are "ignore" and "cooperative", which has a field of its own.
        if attribute.id == 0 || attribute.id == 2 {
            continue;
        }
        let known = ATTRIBUTES.iter().find(|(id, _, _)| *id == attribute.id);
        let why = match known {
            Some((_, _, Fate::Keep)) => None,
            Some((_, _, Fate::KeepIfMapped)) if window(attribute).is_none_or(&mapped) => None,
            Some((_, _, Fate::KeepIfMapped)) => Some("its window is no recorded memory"),
            Some((_, _, Fate::Drop(why))) => Some(*why),
            None => Some("this program does not know it"),
        };
        match why {
            None => kept.push(attribute.clone()),
            Some(why) => {
                let name = known.map_or("", |(_, name, _)| name);
                notes.push(format!(
                    "launch attribute {} ({name}) is left out: {why}",
                    attribute.id
                ));
            }
        }
    }
    (kept, notes)
}

/// The range of an access policy window: `base_ptr`, `num_bytes`.
fn window(attribute: &LaunchAttribute) -> Option<AddressRange> {
    let word = |at: usize| {
        attribute
            .value
            .get(at..at + 8)?
            .try_into()
            .ok()
            .map(u64::from_le_bytes)
    };
    AddressRange::new(word(0)?, word(8)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(attributes: Vec<(u32, Vec<u8>)>) -> LaunchRecord {
        let attributes = attributes
            .into_iter()
            .map(|(id, value)| LaunchAttribute { id, value })
            .collect();
        LaunchRecord {
            attributes,
            ..crate::testing::empty_launch()
        }
    }

    #[test]
    fn cluster_dimensions_are_kept_and_events_are_not() {
        let launch = launch(vec![
            (4, vec![2, 0, 0, 0]),
            (7, vec![0xff; 64]),
            (8, vec![1]),
            (99, vec![]),
        ]);
        let (kept, notes) = attributes(&launch, |_| true);
        assert_eq!(kept.iter().map(|a| a.id).collect::<Vec<_>>(), [4]);
        assert_eq!(
            notes,
            [
                "launch attribute 7 (programmatic event) is left out: it names an event of the application",
                "launch attribute 8 (priority) is left out: one launch is replayed at a time",
                "launch attribute 99 () is left out: this program does not know it",
            ]
        );
    }

    #[test]
    fn an_access_window_is_kept_only_over_recorded_memory() {
        let mut value = vec![0; 64];
        value[..8].copy_from_slice(&0x7000_0000u64.to_le_bytes());
        value[8..16].copy_from_slice(&0x1000u64.to_le_bytes());
        let launch = launch(vec![(1, value)]);
        let wanted = AddressRange::new(0x7000_0000, 0x1000).unwrap();
        assert_eq!(attributes(&launch, |range| range == wanted).0.len(), 1);
        let (kept, notes) = attributes(&launch, |_| false);
        assert!(kept.is_empty());
        assert!(notes[0].contains("no recorded memory"));
    }
}
