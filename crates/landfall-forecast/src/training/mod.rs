//! Training as the program does it, in steps that print nothing.
//!
//! Settings, or an earlier run, make a [`Ready`]: whatever can be refused has been. [`Ready::begin`] makes its directory;
//! [`Begun::fit`] takes its steps under an observer; and [`Trained::choose`] chooses what it forecasts with, by the default
//! recipe, and scores it.

mod begun;
mod choice;
mod comparison;
mod imported;
mod loaded;
mod object;
mod ready;
mod unchanged;
mod verdict;

pub use begun::{Begun, Ended, Finished, Trained};
pub use choice::{Chosen, Tested};
pub use comparison::{Classes, Comparison};
pub use loaded::{Loaded, load, start_of};
pub use ready::{KeptFrame, NewRun, Ready};
