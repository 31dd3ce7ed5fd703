//! A simulator of time series, to train on where no real series are at hand.
//!
//! A series is a function of a seed, the [`Parts`] that are in, its number and its length alone. The parts and their formulas are
//! described in `docs/simulator.md`.

mod counts;
mod draws;
mod events;
mod filter;
mod kinds;
mod maps;
mod noise;
mod outline;
mod parts;
mod patterns;
mod processes;
mod sarima;
mod seasons;
mod simulator;
mod structure;
mod table;
mod trends;
mod weeks;

pub use kinds::Kind;
pub use outline::Source;
pub use parts::{Part, Parts};
pub use simulator::Simulator;
pub use table::table;
