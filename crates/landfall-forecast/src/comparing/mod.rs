//! A leaderboard of forecasters: each is a run of its own on the same data, and all are scored on the same windows.
//!
//! [`Contender`] is a forecaster by its name, [`Plan`] what is compared on which data, [`compare`] trains what is not trained yet, and
//! [`Leaderboard`] orders the runs by the error before the test rows, and says of their test errors whether they differ by more than
//! chance ([`Difference`]).

mod attempts;
mod contenders;
mod each;
mod leaderboard;
mod plan;
mod significance;

pub use contenders::Contender;
pub use each::{How, Watcher, compare};
pub use leaderboard::{Leaderboard, Row, Verdict};
pub use plan::{PLAN, Plan, Planned};
pub use significance::{Difference, Sign};
