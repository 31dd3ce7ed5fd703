//! The default recipe: sizes from the data, networks fit on it, and a choice among networks and baselines.
//!
//! In the order of a run: [`Sizes`] are the context, patch, batch and number of steps that fit the data; [`Plan`] divides
//! the rows into folds, each with windows to fit on and windows to score; [`linear`] fits NLinear and DLinear by ridge
//! regression; [`Tally`] scores networks, their partners and the means of both on the same windows and finds the [`Winner`].

mod folds;
pub mod linear;
mod ridge;
mod sizes;
mod tally;

pub use folds::{BLOCKS, Fold, MIN_WINDOWS, Origin, Plan};
pub use ridge::{Fit, Gram, STRENGTHS};
pub use sizes::{Asked, Sizes};
pub use tally::{Candidate, MANY, Metric, Partner, Tally, Unit, Winner};
