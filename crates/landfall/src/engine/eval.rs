//! Calls that allocate their results: the convenience over [`Engine::call`].

use super::{Engine, Gate, Tensor, TensorMut, TensorRef, View, hold};
use crate::contract::{Body, MAX_OUTPUTS, Op, check, inferred};
use crate::error::Error;
use crate::values::{Layout, OpError, Rule, Shape, Spec};
use arrayvec::ArrayVec;
use std::panic::Location;

/// The most operands of a call.
const OPERANDS: usize = check::MAX_INPUTS + MAX_OUTPUTS;

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
        let inputs = self.broadcast(op, inputs, at)?;
        let specs: Vec<Spec> = inputs.iter().map(TensorRef::spec).collect();
        let fail = |rule: Rule| Error::from(rule.of(op.name(), &specs, Some(self.device()), Some(at)));
        let bytes = self.workspace(op, &specs)?;
        let mut results = Vec::new();
        for spec in inferred(op, &specs).map_err(fail)?.iter() {
            results.push(self.empty(spec.dtype, spec.shape)?);
        }
        if bytes > 0 {
            self.reserve(bytes)?;
        }
        let outputs: Vec<TensorMut<'_>> = results.iter_mut().map(Tensor::view_mut).collect();
        self.bind(op, inputs.len(), |i| Ok(inputs[i]), &outputs, at)?;
        Ok(results)
    }

    /// Calls an op on views: it writes its results to `outputs`. An input that is to be written in place is given as the
    /// output too. Pointwise ops broadcast their inputs; workspace is reserved as needed.
    ///
    /// # Errors
    /// As [`Engine::call`]; an output that is read-only; [`Error::Index`] if what was written to memory that another library
    /// reads depends on an index out of range ([`View::hand_out`]).
    #[track_caller]
    pub fn call_views(&self, op: &dyn Op, inputs: &[&View], outputs: &[&View]) -> Result<(), Error> {
        let at = Location::caller();
        let refs: Vec<TensorRef<'_>> = inputs.iter().map(|v| v.as_ref()).collect();
        if let Some(output) = outputs.iter().position(|v| !v.is_writable()) {
            let specs: Vec<Spec> = refs.iter().map(TensorRef::spec).collect();
            return Err(Rule::ReadOnly { output }
                .of(op.name(), &specs, Some(self.device()), Some(at))
                .into());
        }
        let refs = self.broadcast(op, &refs, at)?;
        let targets: Vec<TensorMut<'_>> = outputs.iter().map(|v| v.as_mut()).collect();
        let call = || self.bind(op, refs.len(), |i| Ok(refs[i]), &targets, at);
        let issue = || match call() {
            Err(Error::Op(OpError { rule: Rule::Workspace { needed, .. }, .. })) => {
                self.reserve(needed)?;
                call()
            }
            done => done,
        };
        let gates =
            inputs.iter().map(|v| Gate::of(v, false)).chain(outputs.iter().map(|v| Gate::of(v, true)));
        // A call of more operands is refused below.
        let mut gates: ArrayVec<Gate, OPERANDS> = gates.take(OPERANDS).collect();
        Gate::sort(&mut gates);
        hold(&gates, || {
            issue()?;
            outputs.iter().try_for_each(|output| output.told())
        })
    }

    /// As [`Engine::eval_all`], on views.
    ///
    /// # Errors
    /// As [`Engine::eval_all`].
    #[track_caller]
    pub fn eval_views(&self, op: &dyn Op, inputs: &[&View]) -> Result<Vec<View>, Error> {
        let refs: Vec<TensorRef<'_>> = inputs.iter().map(|v| v.as_ref()).collect();
        let mut gates: Vec<Gate> = inputs.iter().map(|v| Gate::of(v, false)).collect();
        Gate::sort(&mut gates);
        Ok(hold(&gates, || self.eval_all(op, &refs))?.into_iter().map(View::from).collect())
    }

    /// The arguments of a pointwise op in their common shape; those of others as they are.
    fn broadcast<'t>(
        &self,
        op: &dyn Op,
        inputs: &[TensorRef<'t>],
        at: &'static Location<'static>,
    ) -> Result<Vec<TensorRef<'t>>, Error> {
        let alike = inputs.windows(2).all(|pair| pair[0].spec().shape == pair[1].spec().shape);
        if alike || !matches!(op.body(), Body::Pointwise(_)) {
            return Ok(inputs.to_vec());
        }
        let given: Vec<Spec> = inputs.iter().map(TensorRef::spec).collect();
        let common = (given.iter()).try_fold(Shape::SCALAR, |to, s| {
            to.broadcast(&s.shape).ok_or(Rule::Broadcast { from: s.shape, to })
        });
        let common = common.map_err(|rule| rule.of(op.name(), &given, Some(self.device()), Some(at)))?;
        inputs.iter().map(|view| view.under(op.name(), |l: &Layout| l.broadcast_to(common))).collect()
    }
}
