//! One call of a case, with its operands placed as a property wants them.

use crate::case::{Case, Check};
use crate::place::{Place, Placed};
use landfall::{Engine, Error, TensorMut};

/// An output: memory of its own, or the memory of an input.
#[derive(Debug)]
pub(crate) enum Landing {
    Own(Box<Placed>),
    Input(usize),
}

impl Landing {
    fn own(&self) -> Option<&Placed> {
        match self {
            Self::Own(placed) => Some(placed),
            Self::Input(_) => None,
        }
    }

    fn own_mut(&mut self) -> Option<&mut Placed> {
        match self {
            Self::Own(placed) => Some(placed),
            Self::Input(_) => None,
        }
    }
}

/// The operands of a call.
#[derive(Debug)]
pub(crate) struct Operands {
    pub(crate) inputs: Vec<Placed>,
    pub(crate) outputs: Vec<Landing>,
}

/// Poison for memory that a call must not read or must overwrite: NaN in every float dtype.
pub(crate) const POISON: u8 = 0xFF;

impl Operands {
    /// Inputs and outputs placed; outputs that must be inputs are.
    pub(crate) fn new(
        engine: &Engine,
        case: &Case,
        inputs: &[Place],
        output: Place,
        poison: u8,
    ) -> Check<Self> {
        Self::sharing(engine, case, inputs, output, poison, |j| case.updated(j))
    }

    /// Inputs and outputs placed; output `j` is the input `shared(j)`, where there is one.
    pub(crate) fn sharing(
        engine: &Engine,
        case: &Case,
        inputs: &[Place],
        output: Place,
        poison: u8,
        shared: impl Fn(usize) -> Option<usize>,
    ) -> Check<Self> {
        let target = |i| (0..case.outputs.len()).any(|j| shared(j) == Some(i));
        let place =
            |i: usize| if target(i) { output } else { inputs.get(i).copied().unwrap_or(Place::Whole) };
        let data = case.inputs.iter().enumerate();
        let inputs = data
            .map(|(i, host)| Placed::new(engine, host, place(i), if target(i) { poison } else { POISON }))
            .collect::<Result<_, Error>>()?;
        let specs = case.outputs.iter().enumerate();
        let outputs = specs
            .map(|(j, &spec)| match shared(j) {
                Some(i) => Ok(Landing::Input(i)),
                None => Placed::empty(engine, spec, output, poison).map(|p| Landing::Own(Box::new(p))),
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { inputs, outputs })
    }

    /// Contiguous operands.
    pub(crate) fn whole(engine: &Engine, case: &Case) -> Check<Self> {
        Self::new(engine, case, &[], Place::Whole, POISON)
    }

    /// Calls the op on them, through the method of the engine that fits.
    pub(crate) fn call(&mut self, engine: &Engine, case: &Case) -> Result<(), Error> {
        self.call_within(engine, case, |call| call())
    }

    /// Makes the views of a call, then runs `within`, which is given the bare call.
    pub(crate) fn call_within(
        &mut self,
        engine: &Engine,
        case: &Case,
        within: impl FnOnce(&mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let op = case.op.as_ref();
        let mut operands = Vec::new();
        let mut targets: Vec<Option<TensorMut<'_>>> = Vec::new();
        for o in &mut self.outputs {
            let (own, input) = match o {
                Landing::Own(placed) => (Some(placed.view_mut()?), None),
                Landing::Input(i) => (None, Some(*i)),
            };
            targets.push(own);
            operands.push(input);
        }
        let mut rest = Vec::new();
        for (i, placed) in self.inputs.iter_mut().enumerate() {
            match operands.iter().position(|&o| o == Some(i)) {
                Some(j) => targets[j] = Some(placed.view_mut()?),
                None => {
                    let placed: &Placed = placed;
                    rest.push(placed.view()?);
                }
            }
        }
        let mut targets: Vec<TensorMut<'_>> = targets.into_iter().flatten().collect();
        let pairs: Vec<(usize, usize)> =
            operands.iter().enumerate().filter_map(|(j, i)| Some(((*i)?, j))).collect();
        let inputs: Vec<usize> = pairs.iter().map(|p| p.0).collect();
        within(&mut || match (&pairs[..], &mut targets[..]) {
            ([], targets) => engine.call(op, &rest, targets),
            ([(i, _)], [target]) => engine.call_in_place(op, *i, target, &rest),
            (_, targets) if pairs.len() == targets.len() => engine.call_updating(op, &inputs, targets, &rest),
            (pairs, targets) => engine.call_sharing(op, pairs, targets, &rest),
        })
    }

    /// The operand that an output is.
    pub(crate) fn output(&self, j: usize) -> &Placed {
        match &self.outputs[j] {
            Landing::Own(placed) => placed,
            Landing::Input(i) => &self.inputs[*i],
        }
    }

    /// All memory of the operands, with what lies beside their elements.
    pub(crate) fn memory(&self) -> Result<Vec<Vec<u8>>, Error> {
        let own = self.outputs.iter().filter_map(Landing::own);
        self.inputs.iter().chain(own).map(Placed::memory).collect()
    }

    /// Makes it what it was.
    pub(crate) fn restore(&mut self, memory: &[Vec<u8>]) -> Result<(), Error> {
        let own = self.outputs.iter_mut().filter_map(Landing::own_mut);
        self.inputs.iter_mut().chain(own).zip(memory).try_for_each(|(placed, bytes)| placed.write(bytes))
    }

    /// Bytes of every output's elements, row-major.
    pub(crate) fn results(&self) -> Check<Vec<Vec<u8>>> {
        Ok((0..self.outputs.len()).map(|j| self.output(j).bytes()).collect::<Result<_, _>>()?)
    }
}

/// Reserves the workspace of a case.
pub(crate) fn reserve(engine: &Engine, case: &Case) -> Result<(), Error> {
    engine.reserve(engine.workspace(case.op.as_ref(), &case.specs())?)
}

/// Bytes of the outputs of a call with operands placed like this.
pub(crate) fn run(engine: &Engine, case: &Case, inputs: &[Place], output: Place) -> Check<Vec<Vec<u8>>> {
    let mut operands = Operands::new(engine, case, inputs, output, POISON)?;
    reserve(engine, case)?;
    operands.call(engine, case)?;
    operands.results()
}

/// Compares outputs byte for byte.
pub(crate) fn same(case: &Case, what: &str, got: &[Vec<u8>], want: &[Vec<u8>]) -> Check {
    for (j, (got, want)) in got.iter().zip(want).enumerate() {
        let size = case.outputs[j].dtype.size();
        if let Some(at) = (0..want.len()).find(|&b| got.get(b) != Some(&want[b])) {
            let at = at / size * size;
            let text = |bytes: &[u8]| format!("{:02x?}", bytes.get(at..at + size).unwrap_or(&[]));
            let (got, want) = (text(got), text(want));
            return Err(format!("{what}: output {j} element {}: bytes {got}, not {want}", at / size).into());
        }
    }
    Ok(())
}
