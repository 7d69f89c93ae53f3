//! What a run found, for people.
//!
//! In flows a run as it was looked at; out flow a page, the state of a run in some lines, and the lines of somebody who watches.
//!
//! 1. [`words`]: results in words, the same ones wherever results are told.
//! 2. [`data`]: everything that a report says, as plain data: what `--json` prints, and what is in the page.
//! 3. [`gather`]: that data, from a run.
//! 4. [`page`](mod@page): one file of HTML that stands alone. [`draw`]: its figures. [`escape`]: what keeps text from being taken for HTML.
//! 5. [`status()`], [`steps()`], [`dashboard()`]: text.
//!
//! # Invariants
//!
//! - A page asks nothing of a network, and its own policy forbids it to. Sources, replies of models and names of kernels are
//!   text in it and cannot become anything else.
//! - Everything that is said is in the page without its script, but for the text of single variants: it can be printed, and read
//!   with a screen reader. Colour never says something alone.
//! - What was measured in the search and what was measured at length afterwards are told apart wherever they are.

pub mod words;

pub mod data;

pub mod gather;

pub mod page;

pub mod draw;

pub mod escape;

pub mod status;

pub mod steps;

pub mod dashboard;

pub use dashboard::dashboard;
pub use data::Report;
pub use page::page;
pub use status::status;
pub use steps::steps;
