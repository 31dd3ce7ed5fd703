//! The shapes that the programs of a session share.

use super::{Loss, Target};

/// Shapes that all programs of a session share.
pub(super) struct Sizes<'a> {
    /// Windows of a micro-batch: of a whole batch, where that is not cut.
    pub(super) batch: usize,
    /// Micro-batches of a batch, over all ranks.
    pub(super) parts: usize,
    /// Channels that are known up to the end of the context.
    pub(super) channels: usize,
    /// Channels behind them that are known in advance.
    pub(super) known: usize,
    pub(super) context: usize,
    pub(super) horizon: usize,
    pub(super) stride: usize,
    pub(super) targets: usize,
    pub(super) target: &'a Target,
    pub(super) loss: &'a Loss,
}
