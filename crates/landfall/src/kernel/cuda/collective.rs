//! Collectives in NCCL's terms.

use crate::values::{Address, DType};

/// Where a device stands among the ranks that it computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    /// It is alone: collectives are copies.
    Alone,
    /// It is alone, and collectives are a kernel that takes this many nanoseconds and shows what is not ordered with it.
    StandIn(u64),
    /// It is one of the ranks of a communicator.
    Rank {
        /// This rank, from 0.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
}

impl Seat {
    /// The number of ranks.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Alone | Self::StandIn(_) => 1,
            Self::Rank { size, .. } => size,
        }
    }
}

/// How elements of the ranks are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combination {
    Sum,
    Mean,
    Max,
    Min,
    Product,
}

/// What the ranks compute together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collective {
    /// Every rank gets the combination of all.
    AllReduce(Combination),
    /// Rank r gets block r of the combination.
    ReduceScatter(Combination),
    /// Every rank gets the blocks of all, in the order of the ranks.
    AllGather,
    /// Every rank gets what one has.
    Broadcast {
        /// That rank.
        root: usize,
    },
    /// Rank r gets block r of every rank.
    AllToAll,
}

/// A collective to run on contiguous memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CollectiveLaunch {
    pub(crate) what: Collective,
    pub(crate) dtype: DType,
    /// Elements of a block; of an all-reduce or a broadcast, of the whole tensor.
    pub(crate) count: usize,
    /// What this rank gives.
    pub(crate) from: Address,
    /// Where the result goes: the same place, or elsewhere. An all-gather may give its own block of the result.
    pub(crate) to: Address,
}
