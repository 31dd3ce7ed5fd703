//! Passes: a graph made from a graph. Gradients, mixed precision, and what makes a program cheaper without changing a bit of
//! its results.

mod casts;
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

/// A graph as it is lowered.
#[derive(Debug)]
pub(crate) struct Optimised {
    pub(crate) inner: Inner,
    /// The state that it reads and updates.
    pub(crate) state: Arc<StateSpec>,
    /// Forward values that are made again for the backward pass instead of being kept.
    pub(crate) recomputed: usize,
}

/// Runs the passes that make a program cheaper, in order; those after leave what those before have made.
pub(crate) fn optimise(graph: &Graph) -> Optimised {
    let mut inner = graph.inner.borrow().clone();
    let recomputed = save::choose_recomputation(&mut inner);
    casts::share_casts(&mut inner);
    products::extend_products(&mut inner);
    outputs::copy_outputs(&mut inner);
    Optimised { inner, state: Arc::clone(graph.state_spec()), recomputed }
}
