//! The same PTX kernels on a GPU and on the CPU device, compared.
//!
//! A [`Case`](case::Case) is one kernel with its inputs. Cases come from four places: [`forms`], a table of
//! instructions with their operands, one kernel each ([`kernel`]); [`matrix`], the matrix instructions; [`hand`],
//! kernels written by hand for what one instruction does not show; and [`random`] programs. [`device`] runs a case,
//! [`record`] keeps results in a file, so that a machine without a GPU compares with those of one, and [`compare`]
//! judges: exact results bit for bit, approximate ones within [`bounds`]. [`lifted`] compiles the code of cases anew and
//! compares it with itself on one device. [`known`] has what assemblers do wrong, and
//! `h200.zst` what an H200 gave, for tests without a GPU.
//!
//! Inputs are edge values of each type and random bits ([`values`]) and never change: recorded results depend on them.

pub mod bounds;
pub mod case;
pub mod cases;
pub mod collect;
pub mod compare;
pub mod device;
pub mod forms;
pub mod hand;
pub mod kernel;
pub mod known;
pub mod lifted;
pub mod matrix;
pub mod random;
pub mod record;
pub mod report;
pub mod values;
