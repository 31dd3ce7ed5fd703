//! Inputs and outputs of a program in memory of the caller's.

use super::run::Program;
use crate::engine::View;
use crate::error::Error;
use crate::lower::Home;
use crate::ops;
use crate::values::{Layout, Relation, StoredId};
use std::sync::Arc;

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
    /// [`Error::NoBinding`] for an unknown name; [`Error::Binding`] if the memory has another dtype, shape or engine, its
    /// elements do not lie row-major without gaps, it is read-only and of an output, or an output's shares bytes with another
    /// input's or output's, or if an output is a part of other memory, such as of a state; a device fault. The program is then
    /// as before.
    pub fn bind(&mut self, memory: &[(&str, &View)]) -> Result<(), Error> {
        let mut own = self.own.clone();
        let mut written = Vec::new();
        for &(name, view) in memory {
            let (id, is_input) = self.place_of(name)?;
            self.fits(name, id, view, is_input)?;
            own.insert(id, view.clone());
            if is_input {
                written.push(name);
            }
        }
        self.apart(&own)?;
        self.record_at(own)?;
        written.into_iter().for_each(|name| _ = self.unwritten.remove(name));
        Ok(())
    }

    /// The memory of an input or output: what is bound, or the program's own. An output's holds the result of the last run
    /// until the next.
    ///
    /// # Errors
    /// [`Error::NoBinding`]; [`Error::Binding`] for an output that is a part of other memory.
    pub fn view(&self, name: &str) -> Result<View, Error> {
        let (id, _) = self.place_of(name)?;
        Ok(self.own[&id].clone())
    }

    /// Copies an input for the next run from a view, on the device.
    ///
    /// # Errors
    /// [`Error::NoBinding`]; the rule that the copy violates: dtype and shape must be equal, and the memory of the engine's device.
    #[track_caller]
    pub fn write_view(&mut self, name: &str, from: &View) -> Result<(), Error> {
        let to = self.view(name)?;
        self.engine.call_views(&ops::Copy, &[from], &[&to])?;
        self.unwritten.remove(name);
        Ok(())
    }

    /// The memory of an input or output, and whether it is an input's.
    fn place_of(&self, name: &str) -> Result<(StoredId, bool), Error> {
        if let Some((_, id)) = self.lowered.inputs.iter().find(|(n, _)| n == name) {
            return Ok((*id, true));
        }
        let arg = self.output(name)?;
        let value = &self.lowered.values[arg.value.0];
        let whole = arg.dtype == value.spec.dtype && arg.layout == Layout::contiguous(value.spec.shape);
        // An input that is an output too would be written as neither.
        if whole && value.home == Home::Own && !value.initial {
            return Ok((arg.value, false));
        }
        let why = format!(
            "output {name} is {} and a part of other memory, of a state or of another value; it has none of its own",
            arg.spec()
        );
        Err(Error::Binding { name: name.to_owned(), why })
    }

    fn fits(&self, name: &str, id: StoredId, view: &View, is_input: bool) -> Result<(), Error> {
        let expected = self.lowered.values[id.0].spec;
        let why = if view.spec() != expected {
            format!("it is {expected}, the memory is {}", view.spec())
        } else if !Arc::ptr_eq(view.handle(), self.engine.handle()) {
            format!("the memory belongs to another engine (on {}); wrap it with the program's", view.device())
        } else if !view.layout().is_contiguous() {
            format!("the elements do not lie row-major without gaps (strides {:?})", view.layout().strides())
        } else if !is_input && !view.is_writable() {
            "the memory is read-only; an output needs memory that may be written".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Binding { name: name.to_owned(), why })
    }

    /// That no output shares bytes with anything else.
    fn apart(&self, own: &super::run::Own) -> Result<(), Error> {
        let all: Vec<(&StoredId, &View)> = own.iter().collect();
        for (n, (a, first)) in all.iter().enumerate() {
            for (b, second) in &all[n + 1..] {
                let [a, b] = [a, b].map(|v| &self.lowered.values[v.0]);
                let overlap = first.operand().relation(second.operand()) != Relation::Disjoint;
                if overlap && !(a.initial && b.initial) {
                    let why = format!(
                        "its memory and that of {} overlap{}; an output needs memory of its own",
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
