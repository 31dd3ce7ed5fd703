//! Why ranks did not come together.

use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// Why a rank was not let into a world. The rank that asked and rank 0 both get it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It was started another way than rank 0.
    #[error("the {what} differs: rank {rank} has {value}, rank 0 has {first}; start all ranks alike")]
    Differs {
        /// What differs: the version of the program, the protocol, the number of ranks.
        what: String,
        /// The rank, as it says.
        rank: usize,
        /// What it has.
        value: String,
        /// What rank 0 has.
        first: String,
    },
    /// Another program is this rank already.
    #[error("two programs say that they are rank {rank} of {size}; start each rank once")]
    Twice {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
}

landfall::debug_as_text!(Refusal);

/// Why a rank knows no place in a world, or the world did not come about.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A part of a launcher's variables.
    #[error("{launcher} sets {}, but of these only {} set; set all or none", list(.present, .missing), are(.present))]
    Partial {
        /// Whose variables they are.
        launcher: &'static str,
        /// Those that are set.
        present: Vec<&'static str>,
        /// Those that are not.
        missing: Vec<&'static str>,
    },
    /// A variable, or a field of [`Launch`](super::Launch), has a value that it cannot have.
    #[error("{variable} is {value:?}, but {rule}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What must hold.
        rule: String,
    },
    /// Rank 0 cannot listen.
    #[error(
        "rank 0 cannot listen at {at}: {reason}; if another program does, choose another port for all ranks with LANDFALL_PORT"
    )]
    Listen {
        /// The address and port.
        at: String,
        /// What the system said.
        reason: io::Error,
    },
    /// Rank 0 was not reached.
    #[error(
        "rank 0 was not reached at {at} within {} s ({reason}); check that it runs, and that the machines let connections to this \
         port pass (another with LANDFALL_PORT)",
        .limit.as_secs_f64()
    )]
    Unreachable {
        /// The address and port.
        at: String,
        /// The time limit.
        limit: Duration,
        /// Why the last attempt failed.
        reason: String,
    },
    /// Another program listens in the place of rank 0.
    #[error(
        "what listens at {at} is no rank 0 of this program: {reason}; choose another port for all ranks with LANDFALL_PORT"
    )]
    Stranger {
        /// The address and port.
        at: String,
        /// What it said.
        reason: String,
    },
    /// Ranks that rank 0 waited for.
    #[error(
        "{} did not come to rank 0 at {at} within {} s{}; see their logs, check that they reach this address, or allow more time",
        ranks(.missing),
        .limit.as_secs_f64(),
        meanwhile(.refused)
    )]
    Absent {
        /// The ranks.
        missing: Vec<usize>,
        /// The address and port that rank 0 listened at.
        at: String,
        /// The time limit.
        limit: Duration,
        /// Connections that rank 0 refused meanwhile, and why; it may be that these were the ranks.
        refused: Vec<String>,
    },
    /// Rank 0 and this rank prove different secrets.
    #[error(
        "rank 0 at {at} has another secret than this rank; LANDFALL_SECRET must be the same for all ranks, and without one the job: \
         this rank is of {}. If rank 0 of another job listens there, choose another port with LANDFALL_PORT",
        named(.job)
    )]
    Secret {
        /// The address and port.
        at: String,
        /// The job of this rank.
        job: String,
    },
    /// A rank is not let into the world.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Rank 0 had this rank, and gave up on another.
    #[error("rank 0 gave up before all ranks had come: {why}")]
    GaveUp {
        /// Why, in the words of its own error.
        why: String,
    },
    /// Rank 0 ended before all ranks had come.
    #[error("rank 0 at {at} ended before all ranks had come: {why}; see its log")]
    Ended {
        /// Its address and port.
        at: String,
        /// What was seen of it.
        why: String,
    },
    /// The system refused something else.
    #[error("{what}: {reason}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        reason: io::Error,
    },
}

landfall::debug_as_text!(LaunchError);

fn list(present: &[&str], missing: &[&str]) -> String {
    [present, missing].concat().join(", ")
}

fn are(present: &[&str]) -> String {
    format!("{} {}", present.join(", "), if present.len() == 1 { "is" } else { "are" })
}

fn named(job: &str) -> String {
    if job.is_empty() { "a job without a name".to_owned() } else { format!("job {job:?}") }
}

fn ranks(all: &[usize]) -> String {
    let list = all.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    format!("{} {list}", if all.len() == 1 { "rank" } else { "ranks" })
}

fn meanwhile(all: &[String]) -> String {
    if all.is_empty() { String::new() } else { format!(" (refused meanwhile: {})", all.join("; ")) }
}
