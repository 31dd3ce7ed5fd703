//! The tests that are generated from an op's definition: each property of each op on each device.
//!
//! An op that implements [`Tested`] gets all of them from one line, wherever it is defined: the engine's own table is
//! tested so, and a user's op in a test target with `harness = false`:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     landfall_suite::main(landfall::ops::table)
//! }
//! ```
//!
//! `PROPERTIES` lists the properties; `case` makes the calls from an op's samples, `place` lays operands out in memory,
//! `launch` calls; each other module holds properties.

mod aliasing;
mod allocation;
mod case;
mod compare;
mod cuda;
mod device;
mod drawn;
#[cfg(test)]
mod facts;
mod faults;
mod gradient;
mod launch;
mod layouts;
#[cfg(test)]
mod names;
mod parity;
mod parts;
mod place;
mod programs;
mod purity;
mod refused;
mod runner;
mod sanitized;
mod second;
mod sizes;
#[cfg(test)]
mod support;
mod tuned;

pub use cuda::{compile_cuda, cuda_modules};

use case::Check;
use device::On;
use landfall::ops::Tested;
use std::process::ExitCode;
use std::sync::Arc;

/// A property of an op on a device.
type Property = fn(On, &dyn Tested) -> Check;

/// The one list of properties: each is checked for every op on each device.
const PROPERTIES: &[(&str, Property)] = &[
    ("parity", parity::parity),
    ("body", parity::body),
    ("gradient", gradient::gradient),
    ("second", second::second),
    ("layouts", layouts::layouts),
    ("poison", layouts::poison),
    ("guards", layouts::guards),
    ("drawn", drawn::drawn),
    ("deterministic", layouts::deterministic),
    ("aliasing", aliasing::aliasing),
    ("allocates_nothing", allocation::allocates_nothing),
    ("parts", parts::parts),
    ("recorded", programs::recorded),
    ("faults", faults::faults),
    ("host_is_idle", purity::host_is_idle),
    ("sanitized", sanitized::sanitized),
    ("tuned", tuned::tuned),
    ("refused", refused::refused),
];

/// Runs the suite of these ops with the process's arguments, which are those of `cargo test` and a few more (`--help`): on
/// the processor, and on a GPU where there is one. `ops` makes one op of each kind; its samples bring the attributes.
///
/// The exit code is a failure where a property does not hold, and where no property was chosen.
#[must_use]
pub fn main(ops: fn() -> Vec<Arc<dyn Tested>>) -> ExitCode {
    runner::main(&ops())
}

/// Checks one property of an op on the processor and gives the text of the first failure: for a test of what a wrong op is told.
///
/// ```
/// assert_eq!(landfall_suite::check(&landfall::ops::Abs, "poison"), Ok(()));
/// ```
///
/// # Errors
/// What does not hold, with the call; a property that there is not.
pub fn check(op: &dyn Tested, property: &str) -> Result<(), String> {
    let Some((_, property)) = PROPERTIES.iter().find(|(name, _)| *name == property) else {
        let known: Vec<&str> = PROPERTIES.iter().map(|(name, _)| *name).collect();
        return Err(format!("no property is called {property}; there are {}", known.join(", ")));
    };
    property(On::Cpu, op).map_err(|case::Failure(why)| why)
}
