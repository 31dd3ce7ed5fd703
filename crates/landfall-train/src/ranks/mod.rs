//! Ranks in processes of their own, on one machine or several: what a launcher says of a rank, and the world of all ranks over TCP.
//!
//! A launcher such as torchrun or Slurm's `srun` starts the same program once for each rank, and tells each its place in environment
//! variables. [`Launch::from_environment`] reads them, [`Launch::join`] brings the ranks together:
//!
//! ```
//! use landfall::World;
//! use landfall_train::ranks::Launch;
//! use std::time::Duration;
//! let world = match Launch::from_environment()? {
//!     Some(launch) => launch.join(Duration::from_secs(300))?,
//!     None => World::single(),
//! };
//! assert!(world.rank() < world.size());
//! # Ok::<(), landfall_train::ranks::LaunchError>(())
//! ```
//!
//! The ranks form a star: rank 0 listens, each other rank has one connection to it, and every exchange goes through rank 0. It is also
//! the one that judges: it sees which rank is late, ended or makes another call, and gives every rank the same fault.

mod coordinator;
mod error;
mod event;
mod first;
mod frame;
mod handshake;
mod hosts;
mod join;
mod launch;
mod other;
mod peer;
mod verdict;

pub use error::{LaunchError, Refusal};
pub use launch::{Launch, Secret};

use std::time::{Duration, Instant};

/// How much longer than the time limit a rank waits for what rank 0 says of it, so that the fault of all comes before one of its own.
const GRACE: Duration = Duration::from_secs(2);

/// An instant after which nobody waits any more.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    began: Instant,
    limit: Duration,
}

impl Deadline {
    /// The instant that is `limit` from now.
    fn after(limit: Duration) -> Self {
        Self { began: Instant::now(), limit }
    }

    /// The time until then, if any.
    fn rest(&self) -> Option<Duration> {
        self.limit.checked_sub(self.began.elapsed()).filter(|rest| !rest.is_zero())
    }
}
