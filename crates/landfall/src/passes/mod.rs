//! Passes: graph to graph. Gradients, mixed precision, and optimizations that do not change a bit of the results.

mod blocks;
mod casts;
mod fuse;
mod grad;
mod outputs;
mod precision;
mod products;
mod save;
mod simplify;

pub use grad::grad;
pub use precision::{Mixed, mixed_precision};
pub(crate) use simplify::live_nodes;

use crate::contract::{Graph, Inner, StateSpec};
use std::sync::Arc;

/// A graph ready to be lowered.
#[derive(Debug)]
pub(crate) struct Optimised {
    pub(crate) inner: Inner,
    /// The state that it reads and updates.
    pub(crate) state: Arc<StateSpec>,
    /// Forward values recomputed for the backward pass instead of being saved.
    pub(crate) recomputed: usize,
}

/// Runs the optimization passes in order; later passes preserve the results of earlier ones. Chains of pointwise ops become
/// one kernel where `fuse` asks for it.
pub(crate) fn optimise(graph: &Graph, fuse: bool) -> Optimised {
    let mut inner = graph.inner.borrow().clone();
    if inner.unmerged {
        simplify::merge_equal(&mut inner);
    }
    let recomputed = save::choose_recomputation(&mut inner) + blocks::compute_again(&mut inner);
    casts::share_casts(&mut inner);
    products::extend_products(&mut inner);
    if fuse {
        fuse::fuse_pointwise(&mut inner);
    }
    outputs::copy_outputs(&mut inner);
    Optimised { inner, state: Arc::clone(graph.state_spec()), recomputed }
}
