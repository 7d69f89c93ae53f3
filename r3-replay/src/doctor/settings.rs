//! Code, shape, settings and arguments of two launches.

use r3_archive::model::{DeviceRecord, LaunchRecord, ParamLayout};
use serde::Serialize;

use super::Side;
use super::pairs::{Kinship, Regions};
use crate::compare::argument;
use crate::names::{printable, readable};

/// What a setting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The kernel and its machine code.
    Code,
    /// Grid, block, shared memory.
    Shape,
    /// Attributes, function settings, limits, caches.
    Settings,
    /// A parameter.
    Argument,
    /// Device, driver, R3.
    Environment,
}

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// What it is of.
    pub part: Part,
    /// Its name.
    pub name: String,
    /// In the first launch.
    pub a: String,
    /// In the second.
    pub b: String,
    /// It changes nothing that a launch computes.
    pub harmless: bool,
    /// An argument that may be an address, and lies in no recorded memory.
    pub untracked: bool,
}

/// All that differs.
pub fn compare(a: &Side<'_>, b: &Side<'_>, regions: &Regions) -> Vec<Setting> {
    let mut found = Vec::new();
    let mut add = |part, name: &str, a: String, b: String, harmless| {
        if a != b {
            found.push(Setting {
                part,
                name: name.to_owned(),
                a,
                b,
                harmless,
                untracked: false,
            });
        }
    };
    let name = |side: &Side<'_>| readable(&side.kernel.name);
    add(Part::Code, "kernel", name(a), name(b), false);
    add(Part::Code, "image", image(a), image(b), false);
    let (x, y) = (&a.launch, &b.launch);
    add(Part::Shape, "grid", dims(x.grid), dims(y.grid), false);
    add(Part::Shape, "block", dims(x.block), dims(y.block), false);
    let shared = |launch: &LaunchRecord| format!("{} bytes", launch.dynamic_shared);
    add(
        Part::Shape,
        "dynamic shared memory",
        shared(x),
        shared(y),
        false,
    );
    let cooperative = |launch: &LaunchRecord| launch.cooperative.to_string();
    add(
        Part::Shape,
        "cooperative",
        cooperative(x),
        cooperative(y),
        false,
    );
    let pairs = |pairs: &dyn Fn(&LaunchRecord) -> String| (pairs(x), pairs(y));
    let (p, q) = pairs(&|launch| format!("{:?}", launch.attributes));
    add(Part::Settings, "launch attributes", p, q, false);
    let (p, q) = pairs(&|launch| format!("{:?}", launch.function_settings));
    add(Part::Settings, "function settings", p, q, false);
    let (p, q) = pairs(&|launch| format!("{:?}", launch.limits));
    add(Part::Settings, "limits", p, q, false);
    let (p, q) = pairs(&|launch| format!("{:?}", launch.cache_config));
    add(Part::Settings, "cache configuration", p, q, true);
    add(Part::Environment, "device", device(a), device(b), true);
    let driver = |side: &Side<'_>| side.archive.process().driver_version.to_string();
    add(Part::Environment, "driver", driver(a), driver(b), true);
    let version = |side: &Side<'_>| printable(&side.archive.process().r3_version);
    add(Part::Environment, "R3", version(a), version(b), true);
    found.extend(arguments(a, b, regions));
    found
}

fn dims([x, y, z]: [u32; 3]) -> String {
    format!("{x}x{y}x{z}")
}

/// The content of an image, as a number.
fn image(side: &Side<'_>) -> String {
    let module = side.kernel.module.and_then(|id| side.archive.module(id));
    match module {
        None => "not recorded".to_owned(),
        Some(module) => match side.archive.read_blob(&module.image) {
            Ok(bytes) => format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&bytes)),
            Err(_) => "cannot be read".to_owned(),
        },
    }
}

fn device(side: &Side<'_>) -> String {
    let ordinal = side.launch.device;
    let mut devices = side.archive.devices().iter();
    let found = devices.find(|device| device.ordinal == ordinal);
    found.map_or_else(
        || format!("device {ordinal}"),
        |DeviceRecord { name, .. }| printable(name),
    )
}

/// Parameters that differ, words that point to the same place apart.
fn arguments(a: &Side<'_>, b: &Side<'_>, regions: &Regions) -> Vec<Setting> {
    let mut found = Vec::new();
    let argument_of = |name: String, x: &[u8], y: &[u8], untracked| Setting {
        part: Part::Argument,
        name,
        a: value(x),
        b: value(y),
        harmless: false,
        untracked,
    };
    let (ours, theirs) = (&a.launch.params, &b.launch.params);
    if ours.len() != theirs.len() {
        let bytes = |params: &[u8]| format!("{} bytes", params.len());
        found.push(Setting {
            part: Part::Argument,
            name: "all parameters".to_owned(),
            a: bytes(ours),
            b: bytes(theirs),
            harmless: false,
            untracked: false,
        });
        return found;
    }
    let mut layout = a.kernel.params.clone();
    if layout.is_empty() {
        layout.push(ParamLayout {
            offset: 0,
            size: u32::try_from(ours.len()).unwrap_or(u32::MAX),
        });
    }
    for param in &layout {
        let (start, size) = (param.offset as usize, param.size as usize);
        let range = start..start.saturating_add(size).min(ours.len());
        let (Some(x), Some(y)) = (ours.get(range.clone()), theirs.get(range)) else {
            continue;
        };
        let parts = x.chunks(8).zip(y.chunks(8));
        for (offset, (x, y)) in (param.offset..).step_by(8).zip(parts) {
            let word = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes);
            let kinship = match (word(x), word(y)) {
                (Ok(p), Ok(q)) => regions.kinship(p, q),
                _ => Kinship::None,
            };
            if x == y || kinship == Kinship::Same {
                continue;
            }
            let untracked = match (word(x), word(y)) {
                (Ok(p), Ok(q)) => {
                    is_address(p)
                        && is_address(q)
                        && !regions.is_recorded(0, p)
                        && !regions.is_recorded(1, q)
                }
                _ => false,
            };
            found.push(argument_of(argument(a.kernel, offset), x, y, untracked));
        }
    }
    found
}

/// Whether a number looks like an address of a 64-bit process: large, aligned, and with the upper bits that those have.
pub(super) fn is_address(value: u64) -> bool {
    (1 << 32..1 << 48).contains(&value) && value.is_multiple_of(4)
}

/// A value for people: as a number, and as floating point where that is plausible.
fn value(bytes: &[u8]) -> String {
    match bytes {
        [a, b, c, d] => {
            let bits = [*a, *b, *c, *d];
            let float = f32::from_le_bytes(bits);
            match float.is_normal() && (1e-10..1e10).contains(&float.abs()) {
                true => format!("{} or {float:?}", i32::from_le_bytes(bits)),
                false => i32::from_le_bytes(bits).to_string(),
            }
        }
        [a, b, c, d, e, f, g, h] => {
            let bits = [*a, *b, *c, *d, *e, *f, *g, *h];
            let number = u64::from_le_bytes(bits);
            match is_address(number) {
                true => format!("{number:#x}"),
                false => i64::from_le_bytes(bits).to_string(),
            }
        }
        other => other.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
