//! A loop over time in a graph.

use crate::contract::{Graph, Value};
use crate::error::Error;
use crate::values::{Rule, Shape};
use std::panic::Location;

impl Graph {
    /// Applies `step` to each slice of `over` along axis 1, `[B, T, ..]`, with the values that the step before gave; returns those of
    /// the last step, and the second list of results of all steps, each stacked along axis 1.
    ///
    /// `step(t, carried, slices)` returns the next carried values and what is to be stacked; slices are `[B, ..]`. The steps stand one
    /// after the other in the program: gradients go through them, memory is planned once for all of them, and a GPU replays them as
    /// one graph. [`Graph::gru`] and [`Graph::lstm`] are one launch for all steps; use them where they fit.
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F32, [4, 96, 3]);
    /// let level = g.input("level", DType::F32, [4, 3]);
    /// // Exponential smoothing.
    /// let (last, smooth) = g.scan(&[level], &[x], |_, carried, x| {
    ///     let level = g.add(carried[0], g.affine(g.sub(x[0], carried[0])?, 0.1, 0.0)?)?;
    ///     Ok((vec![level], vec![level]))
    /// })?;
    /// assert_eq!((g.shape(last[0]).dims(), g.shape(smooth[0]).dims()), (&[4, 3][..], &[4, 96, 3][..]));
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// There must be an argument, each with the same sizes of axes 0 and 1; carried values must keep their number, shapes and dtypes;
    /// what `step` returns.
    #[track_caller]
    pub fn scan(
        &self,
        carried: &[Value],
        over: &[Value],
        mut step: impl FnMut(usize, &[Value], &[Value]) -> Result<(Vec<Value>, Vec<Value>), Error>,
    ) -> Result<(Vec<Value>, Vec<Value>), Error> {
        let (specs, at) = (self.specs(over), Location::caller());
        let refused = |rule: Rule| Error::from(rule.of("scan", &specs, None, Some(at)));
        let Some(first) = specs.first() else {
            let takes = "at least 1 value to step over".to_owned();
            return Err(refused(Rule::Arity { takes, got: 0 }));
        };
        let mut steps = 0;
        for (arg, spec) in specs.iter().enumerate() {
            let &[batch, own, ref rest @ ..] = spec.shape.dims() else {
                return Err(refused(Rule::Rank {
                    arg,
                    rank: spec.shape.rank(),
                    expected: "at least 2: [batch, steps, ..]",
                }));
            };
            steps = own;
            if first.shape.dims()[..2] != [batch, own] {
                let mut expected = Shape::SCALAR;
                first.shape.dims()[..2].iter().chain(rest).for_each(|&size| expected.push(size));
                return Err(refused(Rule::ArgShape { arg, shape: spec.shape, expected }));
            }
        }
        let mut carried = carried.to_vec();
        let mut results: Vec<Vec<Value>> = Vec::new();
        for t in 0..steps {
            let slices =
                over.iter().map(|&x| self.reshape(self.slice(x, 1, t, 1)?, self.shape(x).without(1)));
            let slices = slices.collect::<Result<Vec<_>, _>>()?;
            let (next, out) = step(t, &carried, &slices)?;
            let (before, after) = (self.specs(&carried), self.specs(&next));
            if before != after {
                let rule = Rule::Carried { step: t };
                return Err(rule.of("scan", &after, None, Some(at)).into());
            }
            carried = next;
            results.resize(out.len(), Vec::new());
            for (all, value) in results.iter_mut().zip(out) {
                let shape = self.shape(value);
                let mut column = Shape::from([shape.dims().first().copied().unwrap_or(1), 1]);
                shape.dims().iter().skip(1).for_each(|&size| column.push(size));
                all.push(self.reshape(value, column)?);
            }
        }
        let stacked = results.iter().map(|all| self.concat(all, 1)).collect::<Result<_, _>>()?;
        Ok((carried, stacked))
    }
}
