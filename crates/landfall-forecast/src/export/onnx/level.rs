//! A graph for two batches at once, and what its values, sizes and makers are in both.
//!
//! Landfall's graphs have fixed shapes, an ONNX model shall take any batch. So the graph is built twice, for two batches that
//! have nothing in common with any other size, and both are walked side by side: a size that is equal in both is fixed, one
//! that is the same multiple of either batch is that multiple of the batch.

use super::writer::Dim;
use crate::export::error::{ExportError, no_form};
use landfall::ops::Op;
use landfall::walk::{Made, ViewOf};
use landfall::{DType, Error, Graph, Value};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The batches that a graph is built for: two primes, far from the sizes of models.
pub(super) const BATCHES: [usize; 2] = [100_003, 200_003];

/// A value in both graphs.
pub(super) type Pair = [Value; 2];

/// One graph, for both batches, and what is written of it.
pub(super) struct Level {
    pub(super) graphs: [Rc<Graph>; 2],
    /// The ONNX name of each value that is written, by the value of the first graph.
    pub(super) names: HashMap<Value, String>,
    /// The state's entries that are not written yet, by the value of the first graph.
    pub(super) entries: HashMap<Value, String>,
    /// The ops whose bodies are written in their place, by the first result.
    pub(super) bodies: HashMap<Value, Expansion>,
    /// What names of values begin with.
    pub(super) prefix: String,
}

/// The body of an op as a graph of its own, and its results.
pub(super) struct Expansion {
    pub(super) level: Level,
    pub(super) results: Vec<Pair>,
}

/// How a value of both graphs is made.
pub(super) enum Maker {
    Input,
    Slab,
    Result { ops: [Arc<dyn Op>; 2], arguments: Vec<Pair>, results: Vec<Pair> },
    View { of: Pair, view: ViewOf },
}

pub(super) fn paired(values: [Vec<Value>; 2]) -> Vec<Pair> {
    let [first, second] = values;
    first.into_iter().zip(second).map(|(a, b)| [a, b]).collect()
}

impl Level {
    /// The same graph for both batches; `leaves` are the names of its inputs, `entries` those of the state that it may read.
    ///
    /// # Errors
    /// An entry that the state has not.
    pub(super) fn new(
        graphs: [Rc<Graph>; 2],
        leaves: impl IntoIterator<Item = (Value, String)>,
        entries: &[String],
    ) -> Result<Self, Error> {
        let entries = entries.iter().map(|name| Ok((graphs[0].entry(name)?, name.clone())));
        let entries = entries.collect::<Result<_, Error>>()?;
        let names = leaves.into_iter().collect();
        Ok(Self { graphs, names, entries, bodies: HashMap::new(), prefix: String::new() })
    }

    pub(super) fn made(&self, pair: Pair) -> Result<Maker, ExportError> {
        let [first, second] = [self.graphs[0].made(pair[0])?, self.graphs[1].made(pair[1])?];
        Ok(match (first, second) {
            (Made::Input, Made::Input) => Maker::Input,
            (Made::Slab, Made::Slab) => Maker::Slab,
            (
                Made::Result { op, arguments, results },
                Made::Result { op: other, arguments: a, results: r },
            ) if op.name() == other.name() && arguments.len() == a.len() => Maker::Result {
                ops: [op, other],
                arguments: paired([arguments, a]),
                results: paired([results, r]),
            },
            (Made::View { of, view }, Made::View { of: other, view: same }) if view == same => {
                Maker::View { of: [of, other], view }
            }
            (
                Made::Input | Made::Slab | Made::Result { .. } | Made::View { .. },
                Made::Input | Made::Slab | Made::Result { .. } | Made::View { .. },
            ) => {
                let why = "it computes something else for another batch";
                return Err(no_form("model", self.name_of(pair), why));
            }
        })
    }

    pub(super) fn name_of(&self, pair: Pair) -> Option<String> {
        self.graphs[0].name_of(pair[0])
    }

    pub(super) fn dtype(&self, pair: Pair) -> DType {
        self.graphs[0].spec(pair[0]).dtype
    }

    /// The sizes of a value, as multiples of the batch where they depend on it.
    pub(super) fn dims(&self, pair: Pair) -> Result<Vec<Dim>, ExportError> {
        let [first, second] = [self.graphs[0].shape(pair[0]), self.graphs[1].shape(pair[1])];
        let dims = first.dims().iter().zip(second.dims()).map(|(&a, &b)| {
            let times = a / BATCHES[0];
            match a == b {
                true => Some(Dim::Fixed(a)),
                false => (a == times * BATCHES[0] && b == times * BATCHES[1]).then_some(Dim::Batch(times)),
            }
        });
        let all: Option<Vec<Dim>> = dims.collect();
        all.filter(|_| first.rank() == second.rank()).ok_or_else(|| {
            no_form("model", self.name_of(pair), format!("its shape {first} is no multiple of the batch"))
        })
    }
}
