//! What to capture: one table of options, and the selection that follows from it.
//!
//! The preloaded library reads its options from environment variables, its
//! launcher from a command line. Both walk the same table, [`OPTIONS`]: an option
//! has an environment name, a long name, a syntax, a default and one parser. The
//! file `docs/options.md` is made from the table too.
//!
//! What flows in: pairs of name and value. What flows out: [`Options`], typed, or
//! a list of [`OptionError`], one for each thing that is wrong. From options come
//! [`Selection`] (which launches are recorded) and [`Options::out_path`] (where
//! the archive goes).
//!
//! Invariants:
//! * Nothing here reads the environment; names and values are handed in. The one
//!   look at the machine is whether an output path is a directory.
//! * Only names that start with `R3_` are looked at. An unknown one is an error,
//!   so that a misspelt option never passes unnoticed.
//! * An empty value is the same as no value.
//! * No input makes these functions panic. Kernel names come from strangers'
//!   binaries: demangling is bounded in depth and in length.

mod demangle;
mod error;
mod options;
mod path;
mod rank;
mod selection;
mod table;
mod value;

pub use demangle::demangle;
pub use error::OptionError;
pub use options::{LogLevel, Options, SnapshotScope, SyncScope, Trigger, TriggerSignal};
pub use path::{OutTemplate, ProcessFacts};
pub use rank::rank_from_env;
pub use selection::{KernelFilter, LaunchRule, Selection};
pub use table::{LAUNCHER_OPTIONS, OPTIONS, OptionSpec, TOOL_VARIABLES, options_page};
pub use value::{NumberSet, Pattern};
