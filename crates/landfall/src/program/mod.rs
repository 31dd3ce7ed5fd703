//! Programs: lowered, planned, verified, allocated, recorded, run.

mod arena;
mod bind;
mod compile;
mod list;
mod pin;
pub(crate) mod profile;
mod run;

pub use bind::Binding;
pub use compile::ProgramSet;
#[cfg(test)]
pub(crate) use list::launch_list;
pub use run::Program;
