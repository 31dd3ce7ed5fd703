//! Calls that allocate their results: the convenience over [`Engine::call`].

use super::{Engine, Tensor, TensorMut, TensorRef};
use crate::contract::{Body, Op};
use crate::error::Error;
use crate::values::{Layout, Rule, Shape, Spec};
use std::panic::Location;

impl Engine {
    /// Calls an op with one result and returns it in a new tensor. Pointwise ops broadcast their arguments; workspace is
    /// reserved as needed.
    ///
    /// In a loop use [`Engine::call`] with a destination: it allocates nothing.
    ///
    /// ```
    /// use landfall::{Engine, ops};
    /// let engine = Engine::cpu()?;
    /// let a = engine.tensor([2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let row = engine.tensor([2], &[10.0f32, 20.0])?;
    /// let sum = engine.eval(&ops::Add, &[a.view(), row.view()])?;
    /// assert_eq!(sum.read::<f32>()?, [11.0, 22.0, 13.0, 24.0]);
    /// println!("{sum}");
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// The rule that the arguments violate, also if the op has another number of results; [`Error::Memory`].
    #[track_caller]
    pub fn eval(&self, op: &dyn Op, inputs: &[TensorRef<'_>]) -> Result<Tensor, Error> {
        let mut results = self.eval_all(op, inputs)?;
        match (results.pop(), results.len()) {
            (Some(result), 0) => Ok(result),
            (_, more) => {
                let rule = Rule::Outputs { expected: more + 1, got: 1 };
                Err(rule.of(op.name(), &[], Some(self.device()), Some(Location::caller())).into())
            }
        }
    }

    /// As [`Engine::eval`], for an op with any number of results. An op that updates an argument in place is refused:
    /// [`Engine::call_in_place`] says which memory that is.
    ///
    /// # Errors
    /// As [`Engine::eval`].
    #[track_caller]
    pub fn eval_all(&self, op: &dyn Op, inputs: &[TensorRef<'_>]) -> Result<Vec<Tensor>, Error> {
        let at = Location::caller();
        let given: Vec<Spec> = inputs.iter().map(TensorRef::spec).collect();
        let fail = |rule: Rule| Error::from(rule.of(op.name(), &given, Some(self.device()), Some(at)));
        let mut inputs = inputs.to_vec();
        if matches!(op.body(), Body::Pointwise(_)) {
            let common = (given.iter()).try_fold(Shape::SCALAR, |to, s| {
                to.broadcast(&s.shape).ok_or(Rule::Broadcast { from: s.shape, to })
            });
            let common = common.map_err(fail)?;
            for view in &mut inputs {
                let broadcast = |l: &Layout| l.broadcast_to(common);
                *view = view.under(op.name(), broadcast)?;
            }
        }
        let specs: Vec<Spec> = inputs.iter().map(TensorRef::spec).collect();
        let bytes = self.workspace(op, &specs)?;
        let mut results = Vec::new();
        for spec in op.infer(&specs).map_err(fail)?.iter() {
            results.push(self.empty(spec.dtype, spec.shape)?);
        }
        if bytes > 0 {
            self.reserve(bytes)?;
        }
        let outputs: Vec<TensorMut<'_>> = results.iter_mut().map(Tensor::view_mut).collect();
        self.bind(op, inputs.len(), |i| Ok(inputs[i]), &outputs, at)?;
        Ok(results)
    }
}
