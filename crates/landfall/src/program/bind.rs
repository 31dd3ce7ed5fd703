//! Inputs and outputs of a program in memory of the caller's.

use super::run::Program;
use crate::engine::{State, View};
use crate::error::Error;
use crate::lower::Home;
use crate::ops;
use crate::values::{Layout, Relation, Rule, StoredId};
use std::collections::HashSet;
use std::panic::Location;
use std::sync::Arc;

/// Which memory of a program: inputs have their names among inputs, outputs theirs among outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding<'a> {
    /// The input or output of this name; refused where there are both.
    Either(&'a str),
    /// The input of this name.
    Input(&'a str),
    /// The output of this name.
    Output(&'a str),
}

impl<'a> From<&'a str> for Binding<'a> {
    fn from(name: &'a str) -> Self {
        Self::Either(name)
    }
}

impl Program {
    /// Places inputs and outputs in memory of the caller's: from now on a run reads and writes it directly, without a copy.
    /// The program keeps the memory alive, and is recorded anew, which on a GPU takes as long as recording it the first time.
    /// An input that is bound counts as written.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Program, State, StateSpec, View};
    /// let engine = Engine::cpu()?;
    /// let spec = std::sync::Arc::new(StateSpec::new());
    /// let graph = Graph::new(&spec);
    /// let x = graph.input("x", DType::F32, [3]);
    /// graph.output("y", graph.exp(x)?);
    /// let mut state = State::new(&engine, &spec)?;
    /// let mut program = Program::compile(&engine, &state, "exp", &graph)?;
    /// let x = View::from(engine.tensor([3], &[0.0f32, 1.0, 2.0])?);
    /// let y = View::from(engine.empty(DType::F32, [3])?);
    /// program.bind(&[("x", &x), ("y", &y)])?;
    /// program.run(&mut state)?;
    /// assert_eq!(y.read::<f32>()?[0], 1.0);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoBinding`] for an unknown name; [`Error::Binding`] if an input and an output have the name and [`Binding`] does not
    /// say which, if the memory has another dtype, shape or engine, its
    /// elements do not lie row-major without gaps, a run writes it (an output's, or that of an input which an op updates) and it is
    /// read-only or shares bytes with another input's or output's, or if an output is a part of other memory, such as of a state; a device fault. The program is then
    /// as before.
    pub fn bind<'n, B>(&mut self, memory: &[(B, &View)]) -> Result<(), Error>
    where
        B: Into<Binding<'n>> + Copy,
    {
        let (mut own, runs_write) = (self.own.clone(), self.lowered.written());
        let mut written = Vec::new();
        for &(binding, view) in memory {
            let (name, id, is_input) = self.place_of(binding.into())?;
            self.fits(name, id, view, runs_write.contains(&id))?;
            own.insert(id, view.clone());
            if is_input {
                written.push(name);
            }
        }
        self.apart(&own, &runs_write)?;
        self.record_at(own)?;
        written.into_iter().for_each(|name| _ = self.unwritten.remove(name));
        Ok(())
    }

    /// The memory of an input or output: what is bound, or the program's own. An output's holds the result of the last run
    /// until the next.
    ///
    /// # Errors
    /// [`Error::NoBinding`]; [`Error::Binding`] for an output that is a part of other memory, and for a name that an input and an
    /// output have, where [`Binding`] does not say which.
    pub fn view<'n>(&self, of: impl Into<Binding<'n>>) -> Result<View, Error> {
        let (_, id, _) = self.place_of(of.into())?;
        Ok(self.own[&id].clone())
    }

    /// Runs, and copies each output that is named to a view of the caller's. All is checked before anything runs.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Program, State, StateSpec, View};
    /// let engine = Engine::cpu()?;
    /// let spec = std::sync::Arc::new(StateSpec::new());
    /// let graph = Graph::new(&spec);
    /// let x = graph.input("x", DType::F32, [2]);
    /// graph.output("y", graph.neg(x)?);
    /// let mut state = State::new(&engine, &spec)?;
    /// let mut program = Program::compile(&engine, &state, "neg", &graph)?;
    /// program.write("x", &[1.0f32, 2.0])?;
    /// let y = View::from(engine.empty(DType::F32, [2])?);
    /// program.run_to(&mut state, &[("y", &y)])?;
    /// assert_eq!(y.read::<f32>()?, [-1.0, -2.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Program::run`]; [`Error::NoBinding`] for an unknown output; [`Error::Given`] for a view of another dtype or
    /// shape; one of another device, one that is
    /// read-only, or that shares bytes with another of them or with another output's memory.
    #[track_caller]
    pub fn run_to(&mut self, state: &mut State, to: &[(&str, &View)]) -> Result<(), Error> {
        let at = Location::caller();
        let from =
            to.iter().map(|(name, _)| self.view(Binding::Output(name))).collect::<Result<Vec<_>, _>>()?;
        let specs: Vec<_> = from.iter().map(View::spec).collect();
        let refused = |rule: Rule| rule.of("program", &specs, Some(self.engine.device()), Some(at));
        for (output, (name, view)) in to.iter().enumerate() {
            self.takes("output", name, &from[output], view)?;
            self.destination(output, view, &from[output], &to[..output]).map_err(refused)?;
        }
        self.run(state)?;
        for ((_, to), from) in to.iter().zip(&from) {
            // What is bound has the result already.
            if to.operand().relation(from.operand()) != Relation::Identical {
                self.engine.call_views(&ops::Copy, &[from], &[to])?;
            }
        }
        Ok(())
    }

    /// That an output, whose memory is `from`, can be copied to a view beside those `before` it.
    fn destination(
        &self,
        output: usize,
        to: &View,
        from: &View,
        before: &[(&str, &View)],
    ) -> Result<(), Rule> {
        let given = to.spec();
        if !Arc::ptr_eq(to.handle(), self.engine.handle()) {
            return Err(Rule::Device { operand: output, found: to.device(), expected: self.engine.device() });
        }
        if !to.is_writable() {
            return Err(Rule::ReadOnly { output });
        }
        let layout = to.layout();
        if !layout.is_injective() {
            return Err(Rule::SelfOverlap { output, shape: given.shape, strides: layout.strides().to_vec() });
        }
        let relation = |other: &View| to.operand().relation(other.operand());
        let apart = |other: &View| relation(other) == Relation::Disjoint;
        if let Some(first) = before.iter().position(|(_, other)| !apart(other)) {
            let bytes = before[first].1.operand().overlap(to.operand());
            return Err(Rule::OutputsOverlap { first, second: output, bytes });
        }
        for (second, arg) in self.lowered.outputs.iter().map(|(_, arg)| arg).enumerate() {
            let Some(other) = self.own.get(&arg.value) else { continue };
            if relation(from) != Relation::Identical
                && !self.lowered.values[arg.value.0].initial
                && !apart(other)
            {
                let bytes = to.operand().overlap(other.operand());
                return Err(Rule::OutputsOverlap { first: output, second, bytes });
            }
        }
        Ok(())
    }

    /// Copies inputs for the next run from views, on the device. All are checked before the first is copied.
    ///
    /// # Errors
    /// [`Error::NoBinding`]; [`Error::Given`] for another dtype or shape; the rule that a copy violates: the memory must be of the engine's
    /// device.
    #[track_caller]
    pub fn write_views(&mut self, inputs: &[(&str, &View)]) -> Result<(), Error> {
        let mut to = Vec::new();
        for (name, from) in inputs {
            let memory = self.view(Binding::Input(name))?;
            self.takes("input", name, &memory, from)?;
            to.push(memory);
        }
        for ((name, from), to) in inputs.iter().zip(&to) {
            self.engine.call_views(&ops::Copy, &[from], &[to])?;
            self.unwritten.remove(*name);
        }
        Ok(())
    }

    /// That memory which a caller gives is of the dtype and shape of an input or output.
    fn takes(&self, kind: &'static str, name: &str, own: &View, given: &View) -> Result<(), Error> {
        let (expected, given) = (own.spec(), given.spec());
        if given == expected {
            return Ok(());
        }
        Err(Error::Given { program: self.name().to_owned(), kind, name: name.to_owned(), expected, given })
    }

    /// The name and memory of an input or output, and whether it is an input's.
    fn place_of<'n>(&self, binding: Binding<'n>) -> Result<(&'n str, StoredId, bool), Error> {
        let name = match binding {
            Binding::Input(name) => return Ok((name, self.input(name)?, true)),
            Binding::Output(name) => name,
            Binding::Either(name) => match (self.input(name), self.output(name)) {
                (Ok(id), Err(_)) => return Ok((name, id, true)),
                (Err(_), _) => name,
                (Ok(id), Ok(arg)) if arg.value == id => return Ok((name, id, true)),
                (Ok(_), Ok(_)) => {
                    let why = "an input and an output have this name; say which with Binding::Input or \
                               Binding::Output"
                        .to_owned();
                    return Err(Error::Binding { name: name.to_owned(), why });
                }
            },
        };
        let arg = self.output(name)?;
        let value = &self.lowered.values[arg.value.0];
        let whole = arg.dtype == value.spec.dtype && arg.layout == Layout::contiguous(value.spec.shape);
        // An input that is an output too would be written as neither.
        if whole && value.home == Home::Own && !value.initial {
            return Ok((name, arg.value, false));
        }
        let why = format!(
            "output {name} is {} and a part of other memory, of a state or of another value; it has none of its own",
            arg.spec()
        );
        Err(Error::Binding { name: name.to_owned(), why })
    }

    fn fits(&self, name: &str, id: StoredId, view: &View, is_written: bool) -> Result<(), Error> {
        let expected = self.lowered.values[id.0].spec;
        let why = if view.spec() != expected {
            format!("it is {expected}, the memory is {}", view.spec())
        } else if !Arc::ptr_eq(view.handle(), self.engine.handle()) {
            format!("the memory belongs to another engine (on {}); wrap it with the program's", view.device())
        } else if !view.layout().is_contiguous() {
            format!("the elements do not lie row-major without gaps (strides {:?})", view.layout().strides())
        } else if is_written && !view.is_writable() {
            "the memory is read-only, and a run writes it; give memory that may be written".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Binding { name: name.to_owned(), why })
    }

    /// That nothing which a run writes shares bytes with anything else.
    fn apart(&self, own: &super::run::Own, runs_write: &HashSet<StoredId>) -> Result<(), Error> {
        let all: Vec<(&StoredId, &View)> = own.iter().collect();
        for (n, (a, first)) in all.iter().enumerate() {
            for (b, second) in &all[n + 1..] {
                let is_written = runs_write.contains(a) || runs_write.contains(b);
                let [a, b] = [a, b].map(|v| &self.lowered.values[v.0]);
                if is_written && first.operand().relation(second.operand()) != Relation::Disjoint {
                    let why = format!(
                        "its memory and that of {} overlap{}; what a run writes needs memory of its own",
                        b.name,
                        first.operand().overlap(second.operand())
                    );
                    return Err(Error::Binding { name: a.name.clone(), why });
                }
            }
        }
        Ok(())
    }
}
