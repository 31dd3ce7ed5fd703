//! Faults among ranks: why engines that compute one step together did not complete a call.

use std::time::Duration;

/// Why ranks did not complete a call together. Each rank of the world gets one, and no further call of it succeeds.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum RankFault {
    #[error(
        "{} did not come to {call} within {} s; a rank may be slow, stopped, or waiting elsewhere: see its log, or allow more time",
        ranks(.missing),
        .limit.as_secs_f64()
    )]
    Late { missing: Vec<usize>, call: String, limit: Duration },
    #[error("rank {rank} ended before {call}: {why}; see its log")]
    Ended { rank: usize, call: String, why: String },
    #[error(
        "rank {rank} calls {call}, rank {other} calls {other_call}; all ranks must run the same program on the same number of \
         ranks"
    )]
    Differs { rank: usize, call: String, other: usize, other_call: String },
    #[error("rank {rank} sent what is no part of {call}: {why}; start all ranks with the same program")]
    Malformed { rank: usize, call: String, why: String },
    #[error(
        "the {what} of the ranks differ: rank 0 has {first:?}, rank {rank} has {other:?}; start all ranks alike"
    )]
    Disagree { what: &'static str, first: String, rank: usize, other: String },
    #[error(
        "the wait of {} s for {what} is over; a rank may be slow, stopped, or not reached: see the logs of all ranks, or allow \
         more time",
        .limit.as_secs_f64()
    )]
    Stuck { what: &'static str, limit: Duration },
    #[error("NCCL failed in {call}: {why}; see the logs of all ranks, and set NCCL_DEBUG=WARN for its own")]
    Nccl { call: &'static str, why: String },
    #[error(
        "the op is for {expected} ranks, the engine is in a world of {size}; build the program for {size}"
    )]
    Size { expected: usize, size: usize },
    #[error("the engine is rank {rank} of {size} already; an engine joins one world once")]
    Joined { rank: usize, size: usize },
    #[error("{device} cannot join a world of {size} ranks: {why}")]
    Device { device: String, size: usize, why: String },
}

crate::values::debug_as_text!(RankFault);

/// Ranks in a sentence.
fn ranks(all: &[usize]) -> String {
    let list = all.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    format!("{} {list}", if all.len() == 1 { "rank" } else { "ranks" })
}
