//! A graph as others read it: how each value is made, for programs that write it in another form.

use super::Op;
use super::graph::{Graph, Origin, Value, View};
use crate::error::Error;
use std::panic::Location;
use std::sync::Arc;

/// How a value of a [`Graph`] is made: [`Graph::made`].
#[derive(Debug, Clone)]
pub enum Made {
    /// It is an input, which the host writes.
    Input,
    /// It is a slab of the state, of which entries are views.
    Slab,
    /// It is a result of an op.
    Result {
        /// The op.
        op: Arc<dyn Op>,
        /// What the op is given.
        arguments: Vec<Value>,
        /// All results of the op, in order.
        results: Vec<Value>,
    },
    /// It is a view: the elements of another value, with the shape of its [`Graph::spec`].
    View {
        /// The other value.
        of: Value,
        /// Which elements, and how they are arranged.
        view: ViewOf,
    },
}

/// How the elements of a view are those of another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewOf {
    /// The same elements in the same order: [`Graph::reshape`], [`Graph::detach`].
    Same,
    /// Axis i of the view is axis `axes[i]` of the other: [`Graph::permute`].
    Permuted(Vec<usize>),
    /// Elements `start..` along an axis, as many as the view has there: [`Graph::slice`].
    Sliced {
        /// The axis.
        axis: usize,
        /// The first element.
        start: usize,
    },
    /// Axes of size 1 are stretched and axes put in front: [`Graph::broadcast_to`].
    Broadcast,
    /// Windows of `size` elements every `step` along the last axis: [`Graph::unfold`].
    Windows {
        /// Elements of a window.
        size: usize,
        /// Elements between the starts of windows.
        step: usize,
    },
}

impl Graph {
    /// How a value is made. From the outputs back to inputs and entries of the state this walks a whole graph: every value
    /// is made of earlier ones only.
    ///
    /// ```
    /// use landfall::walk::Made;
    /// use landfall::{DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F32, [2, 3]);
    /// let y = g.exp(g.transpose(x)?)?;
    /// let Made::Result { op, arguments, .. } = g.made(y)? else { unreachable!("an op made it") };
    /// assert_eq!((op.name(), g.shape(arguments[0]).dims()), ("exp", &[3, 2][..]));
    /// let Made::View { of, .. } = g.made(arguments[0])? else { unreachable!("a transposition is a view") };
    /// assert_eq!(of, x);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// A value of another graph; what a method without a `Result` refused before.
    #[track_caller]
    pub fn made(&self, value: Value) -> Result<Made, Error> {
        self.sound("made", &[value], Location::caller())?;
        let inner = self.inner.borrow();
        Ok(match &inner.info(value).origin {
            Origin::Input => Made::Input,
            Origin::Slab => Made::Slab,
            Origin::Node { node } => {
                let node = &inner.nodes[*node];
                let (op, arguments) = (Arc::clone(&node.op), node.inputs.clone());
                Made::Result { op, arguments, results: node.outputs.clone() }
            }
            Origin::View { of, view } => Made::View {
                of: *of,
                view: match view {
                    View::Reshape | View::Detach => ViewOf::Same,
                    View::Permute(axes) => ViewOf::Permuted(axes.clone()),
                    View::Slice { axis, start } => ViewOf::Sliced { axis: *axis, start: *start },
                    View::Broadcast => ViewOf::Broadcast,
                    View::Unfold { size, step } => ViewOf::Windows { size: *size, step: *step },
                },
            },
        })
    }

    /// The name that [`Graph::name`] gave a value, with those of its scopes.
    #[must_use]
    pub fn name_of(&self, value: Value) -> Option<String> {
        let inner = self.inner.borrow();
        inner.owns(0, value).ok().and_then(|()| inner.info(value).name.clone())
    }
}
