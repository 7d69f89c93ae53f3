//! The queue in front of compilers and devices.
//!
//! ```text
//!  submit ──► queue by priority ──► compile worker ──► cache ──► equal code? ──► worker of a device ──► outcome
//!             (bounded: full is an error)                         yes: the same outcome
//! ```

mod types;

pub use types::{
    ArchiveId, DeviceChoice, Event, JobId, JobState, Priority, Request, Status, SubmitError,
};
