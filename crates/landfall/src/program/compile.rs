//! From a graph to a program: the compilation pipeline.

use super::arena::Arena;
use super::pin::pin;
use super::run::{Placed, Program};
use crate::contract::Graph;
use crate::engine::{Engine, Reuse, State};
use crate::error::Error;
use crate::lower::segments::segment;
use crate::lower::{Lowered, lower};
use crate::passes::optimise;
use crate::plan::{Plan, Report, assign, order, unroll, verify};
use std::panic::Location;
use std::sync::Arc;

/// Compiles programs that share one arena: they run on one state, which only one run uses at a time. Plans without
/// reuse ([`Reuse::Nothing`]) have one arena each.
#[derive(Debug)]
pub struct ProgramSet<'a> {
    engine: &'a Engine,
    state: &'a State,
    graphs: Vec<(String, Lowered, Plan)>,
}

impl<'a> ProgramSet<'a> {
    /// An empty set for a state.
    #[must_use]
    pub fn new(engine: &'a Engine, state: &'a State) -> Self {
        Self { engine, state, graphs: Vec::new() }
    }

    /// Lowers, plans and verifies a graph, without allocating device memory.
    ///
    /// # Errors
    /// [`Error::Op`] if no kernel accepts an instruction, [`Error::Plan`] if the checker refuses the plan,
    /// [`Error::ForeignState`] if the graph was built over another state, what a method of the graph without a `Result` found.
    #[track_caller]
    pub fn add(&mut self, name: &str, graph: &Graph) -> Result<Report, Error> {
        if **graph.state_spec() != **self.state.spec() {
            return Err(Error::ForeignState);
        }
        graph.sound("compile", &[], Location::caller())?;
        let (lowered, plan) = compile(graph, self.engine)?;
        let report = Report::new(&lowered, &plan, self.state.bytes(), self.engine.device());
        self.graphs.push((name.to_owned(), lowered, plan));
        Ok(report)
    }

    /// Allocates the shared arena and records every program, in the order of addition.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn build(self) -> Result<Vec<Program>, Error> {
        let bytes = self.graphs.iter().map(|(_, _, p)| p.arena).max().unwrap_or(0);
        let arena = |bytes, cuts: &[usize]| Arena::new(self.engine.handle(), bytes, cuts).map(Arc::new);
        let shared = match self.engine.reuse() {
            Reuse::Tight | Reuse::Most => Some(arena(bytes, &[])?),
            Reuse::Nothing => None,
        };
        let place = |(name, lowered, plan): (String, Lowered, Plan)| {
            let arena = match &shared {
                Some(shared) => Arc::clone(shared),
                None => arena(plan.arena, &plan.cuts)?,
            };
            Placed::new(self.engine, self.state, name, lowered, plan, arena)
        };
        let placed = self.graphs.into_iter().map(place).collect::<Result<Vec<_>, Error>>()?;
        self.engine.handle().preload(&placed.iter().map(|p| &p.list).collect::<Vec<_>>())?;
        placed.into_iter().map(|p| Program::record(self.engine, self.state, p)).collect()
    }
}

/// The compilation pipeline.
fn compile(graph: &Graph, engine: &Engine) -> Result<(Lowered, Plan), Error> {
    let (device, reuse) = (engine.device(), engine.reuse());
    let optimised = optimise(graph, engine.fuses());
    let mut lowered = lower(&optimised, device, reuse)?;
    pin(&mut lowered, device, engine.choices())?;
    let parts = engine.parts();
    if !parts.is_empty() {
        segment(&mut lowered, device, parts)?;
    }
    // Below half of the numbers that there are, no sum of offsets and sizes in a plan overflows.
    let bytes = lowered.bytes();
    if isize::try_from(bytes).is_err() {
        let in_use = engine.counters().bytes_in_use as usize;
        return Err(Error::Memory { bytes, device, in_use });
    }
    let plan = assign(&lowered, reuse);
    let (mut lowered, plan) = unroll(lowered, plan, device, reuse, engine.unroll());
    order(&mut lowered, &plan);
    verify(&lowered, &plan, &graph.state_spec().slab_bytes())?;
    Ok((lowered, plan))
}
