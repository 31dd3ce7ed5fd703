//! What rank 0 finds, in a form that travels: every rank gets the same fault.

use landfall::RankFault;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A fault among ranks, of the kinds that rank 0 finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    Late { missing: Vec<usize>, call: String, limit: Duration },
    Ended { rank: usize, call: String, why: String },
    Differs { rank: usize, call: String, other: usize, other_call: String },
    Malformed { rank: usize, call: String, why: String },
}

impl From<Verdict> for RankFault {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Late { missing, call, limit } => Self::Late { missing, call, limit },
            Verdict::Ended { rank, call, why } => Self::Ended { rank, call, why },
            Verdict::Differs { rank, call, other, other_call } => {
                Self::Differs { rank, call, other, other_call }
            }
            Verdict::Malformed { rank, call, why } => Self::Malformed { rank, call, why },
        }
    }
}
