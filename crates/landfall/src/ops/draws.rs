//! Random numbers of a program that has a cursor of its own.

use crate::contract::{Graph, Value, cursor};
use crate::error::Error;
use crate::ops;
use crate::values::{DType, Shape};

impl Graph {
    /// A cursor of the program's own, from which ops draw ([`Graph::normal`], [`ops::Uniform`], [`ops::Bernoulli`], [`ops::Dropout`]):
    /// an input `i64[8]` of this name, which each run moves on by one step, on the device. Each run draws other numbers; the
    /// n-th run after a seed was written draws the same ones every time, on another device normal numbers up to rounding. An output of the
    /// name is the cursor after a run.
    ///
    /// ```
    /// use landfall::ops::cursor;
    /// use landfall::{DType, Engine, Graph, Program, Spec, State, StateSpec};
    /// let (engine, spec) = (Engine::cpu()?, std::sync::Arc::new(StateSpec::new()));
    /// let g = Graph::new(&spec);
    /// let draws = g.draws("draws")?;
    /// g.output("noise", g.normal(Spec::new(DType::F32, [4]), 0, draws)?);
    /// let mut state = State::new(&engine, &spec)?;
    /// let mut program = Program::compile(&engine, &state, "noise", &g)?;
    /// let mut drawn = |seed| {
    ///     program.write("draws", &cursor::seeded(seed))?;
    ///     program.run(&mut state)?;
    ///     let first = program.read::<f32>("noise")?;
    ///     program.run(&mut state)?;
    ///     Ok::<_, landfall::Error>((first, program.read::<f32>("noise")?))
    /// };
    /// let (first, second) = drawn(7)?;
    /// assert_ne!(first, second);
    /// assert_eq!(drawn(7)?, (first, second));
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that another input or output has.
    #[track_caller]
    pub fn draws(&self, name: &str) -> Result<Value, Error> {
        let cursor = self.input(name, DType::I64, [cursor::LEN]);
        let always = self.fill(DType::Bool, Shape::SCALAR, 1.0)?;
        // There are no epochs: batches are counted as steps are.
        let next = self.op1(ops::Advance { batches: usize::MAX }, &[cursor, always])?;
        self.output(name, next);
        Ok(cursor)
    }
}
