//! Programs: lowered, planned, verified, placed in memory, recorded, run.

mod arena;
mod program;

pub use program::{Program, ProgramSet};
