//! Launches whose replay proves less than it seems to.

use r3_archive::model::LaunchRecord;
use r3_image::KernelInfo;
use serde::{Deserialize, Serialize};

/// Why the result of a replay should not be taken at its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caveat {
    /// The launch changed nothing that was saved.
    Vacuous,
    /// The kernel uses the device heap, whose content cannot be saved.
    Heap,
    /// The kernel prints; what it printed is not compared.
    Printf,
    /// The kernel launches kernels itself.
    DeviceLaunch,
    /// The launch was one part of a cooperative launch over several devices.
    MultiDevice,
    /// The capture left notes.
    Notes,
}

impl Caveat {
    /// A word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vacuous => "vacuous",
            Self::Heap => "heap",
            Self::Printf => "printf",
            Self::DeviceLaunch => "device-launch",
            Self::MultiDevice => "multi-device",
            Self::Notes => "notes",
        }
    }

    /// A sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Vacuous => {
                "the launch changed no byte that was saved: that it matches proves nothing"
            }
            Self::Heap => "the kernel uses the device heap, whose content was not saved",
            Self::Printf => "the kernel prints; what it prints is not compared",
            Self::DeviceLaunch => {
                "the kernel launches kernels, whose memory may not have been saved"
            }
            Self::MultiDevice => {
                "the launch spanned several devices, and one part of it is replayed"
            }
            Self::Notes => "the capture left notes",
        }
    }
}

/// The caveats of a launch; `info` is what the code says of its kernel, when it can be read.
pub fn caveats(launch: &LaunchRecord, info: Option<&KernelInfo>) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let mut add = |caveat, holds: bool| {
        if holds {
            caveats.push(caveat);
        }
    };
    add(Caveat::Vacuous, launch.after.changes.is_empty());
    add(Caveat::Heap, info.is_some_and(KernelInfo::uses_heap));
    add(Caveat::Printf, info.is_some_and(KernelInfo::uses_printf));
    add(
        Caveat::DeviceLaunch,
        info.is_some_and(KernelInfo::launches_kernels),
    );
    add(
        Caveat::MultiDevice,
        launch.entry_point.contains("MultiDevice"),
    );
    add(Caveat::Notes, !launch.notes.is_empty());
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_that_changes_nothing_is_vacuous() {
        assert_eq!(
            caveats(&crate::testing::empty_launch(), None),
            [Caveat::Vacuous]
        );
    }

    #[test]
    fn json_and_tables_spell_caveats_alike() {
        for caveat in [Caveat::Vacuous, Caveat::DeviceLaunch, Caveat::MultiDevice] {
            assert_eq!(serde_json::to_value(caveat).unwrap(), caveat.word());
        }
    }

    #[test]
    fn part_of_a_multi_device_launch_is_marked() {
        let launch = LaunchRecord {
            entry_point: "cuLaunchCooperativeKernelMultiDevice".to_owned(),
            notes: vec!["a pointer could not be saved".to_owned()],
            ..crate::testing::empty_launch()
        };
        assert_eq!(
            caveats(&launch, None),
            [Caveat::Vacuous, Caveat::MultiDevice, Caveat::Notes]
        );
    }
}
