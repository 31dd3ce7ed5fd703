//! What happens to the ranks of a world, as rank 0 hears of it.

use landfall::Signature;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What happens to a rank.
#[derive(Debug)]
pub(super) enum Event {
    /// It makes a call.
    Call { rank: usize, call: Signature, part: Arc<[u8]> },
    /// It gives up. `told` is dropped once the others are told.
    Abort { rank: usize, why: String, told: Option<Sender<()>> },
    /// Its connection ended.
    Ended { rank: usize, why: String },
    /// It sent what cannot be read.
    Malformed { rank: usize, why: String },
    /// It does not take what is sent to it.
    Stuck { rank: usize },
    /// Rank 0 ends.
    Leave,
}
