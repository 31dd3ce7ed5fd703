//! Calls on views that are drawn at random: axes in any order, with steps and gaps, stretched and overlapping inputs, at any
//! offset of memory whose other bytes must stay as they are; the results are those of the reference.

use crate::case::{Case, Check, Failure, Random, cases, ensure, fill};
use crate::compare::{Worst, bound, close};
use crate::device::On;
use landfall::ops::{Alias, Data, Tested};
use landfall::rng::Rng;
use landfall::{DType, Engine, Error, HostTensor, Shape, Spec, View, with_dtype};

/// Draws of each op that the suite checks; `--guarded` draws as many as one likes.
const DRAWS: u64 = 12;

/// Elements of an operand at most: each call is checked element by element.
const MOST: usize = 4096;

/// What bytes hold that no element lies on.
const GUARD: u8 = 0xA5;

/// How an operand lies in flat memory.
#[derive(Debug, Clone)]
struct Lie {
    /// The axes from the outermost in memory to the innermost.
    order: Vec<usize>,
    axes: Vec<Axis>,
    /// The two innermost axes are windows of the innermost in memory, with this distance.
    windows: Option<usize>,
    /// Elements before the first one, and behind the last one.
    guards: [usize; 2],
}

/// How an axis lies in memory.
#[derive(Debug, Clone, Copy)]
struct Axis {
    /// Its size there.
    size: usize,
    /// Elements left out before the first.
    before: usize,
    step: usize,
    /// One element there, however many the operand has.
    stretched: bool,
}

/// A number below `n`.
fn below(rng: &mut Rng, n: usize) -> usize {
    rng.range(0..n.max(1))
}

impl Lie {
    /// Of an operand of this shape; `overlaps` says whether elements may share memory.
    fn draw(rng: &mut Rng, shape: &Shape, overlaps: bool) -> Self {
        let (dims, rank) = (shape.dims(), shape.rank());
        let mut order: Vec<usize> = (0..rank).collect();
        (1..rank).rev().for_each(|last| order.swap(last, below(rng, last + 1)));
        // Padded in each axis a shape of many axes would be too large.
        let roomy = rank < 5 && shape.elements() <= MOST / 4;
        let mut axes: Vec<_> = order
            .iter()
            .map(|&axis| {
                let size = dims[axis];
                if overlaps && size > 0 && below(rng, 5) == 0 {
                    return Axis { size: 1, before: 0, step: 1, stretched: true };
                }
                let (before, after) = if roomy { (below(rng, 3), below(rng, 3)) } else { (0, 0) };
                let step = if roomy { [1, 1, 1, 2, 3][below(rng, 5)] } else { 1 };
                let own = size.saturating_sub(1) * step + usize::from(size > 0);
                Axis { size: before + own + after, before, step, stretched: false }
            })
            .collect();
        let mut windows = None;
        if let (true, &[.., many, size]) = (overlaps && below(rng, 3) == 0, &order[..]) {
            let (many, size) = (dims[many], dims[size]);
            if many > 0 && size > 0 && rank < landfall::MAX_RANK {
                let step = 1 + below(rng, size);
                axes.truncate(rank - 2);
                axes.push(Axis { size: (many - 1) * step + size, before: 0, step: 1, stretched: false });
                windows = Some(step);
            }
        }
        let guards = [below(rng, 40), below(rng, 40)];
        Self { order, axes, windows, guards }
    }

    /// Elements of the flat memory.
    fn elements(&self) -> usize {
        self.inner() + self.guards[0] + self.guards[1]
    }

    fn inner(&self) -> usize {
        self.axes.iter().map(|a| a.size).product()
    }

    /// The view in flat memory that is at least as large.
    fn of(&self, flat: &View, shape: &Shape) -> Result<View, Error> {
        let sizes: Vec<usize> = self.axes.iter().map(|a| a.size).collect();
        let mut view = flat.slice(0, self.guards[0], self.inner())?.reshape(in_shape(&sizes))?;
        let ordered: Vec<usize> = self.order.iter().map(|&axis| shape.dims()[axis]).collect();
        let own = self.axes.len() - usize::from(self.windows.is_some());
        for (axis, lies) in self.axes.iter().enumerate().take(own).filter(|(_, lies)| !lies.stretched) {
            view = view.strided_slice(axis, lies.before, ordered[axis], lies.step)?;
        }
        if let (Some(step), Some(&size)) = (self.windows, ordered.last()) {
            view = view.unfold(size, step)?;
        }
        let view = view.broadcast_to(in_shape(&ordered))?;
        let place = |axis: usize| self.order.iter().position(|&a| a == axis).unwrap_or(axis);
        view.permute(&(0..shape.rank()).map(place).collect::<Vec<_>>())
    }
}

/// A shape of no more axes than that of a tensor that exists.
fn in_shape(sizes: &[usize]) -> Shape {
    Shape::new(sizes).unwrap_or(Shape::SCALAR)
}

/// Flat memory, with what it held before the call.
struct Memory {
    flat: View,
    before: Vec<u8>,
    /// What its elements were drawn from, where inputs lie anywhere in it.
    drawn: Option<(Data, HostTensor)>,
}

impl Memory {
    fn new(engine: &Engine, dtype: DType, bytes: Vec<u8>) -> Result<Self, Error> {
        let flat = View::from(engine.empty(dtype, [bytes.len() / dtype.size()])?);
        flat.write_bytes(&bytes)?;
        Ok(Self { flat, before: bytes, drawn: None })
    }

    fn now(&self) -> Result<Vec<u8>, Error> {
        with_dtype!(any self.flat.dtype(), T => Ok(bytemuck::cast_slice::<T, u8>(&self.flat.read::<T>()?).to_vec()))
    }

    fn elements(&self) -> usize {
        self.flat.shape().elements()
    }
}

/// The operands of a call: views, each in one of the memories.
struct Operands {
    memories: Vec<Memory>,
    inputs: Vec<(usize, View)>,
    /// What the inputs hold.
    data: Vec<HostTensor>,
    outputs: Vec<(usize, View)>,
}

impl Operands {
    fn draw(engine: &Engine, case: &Case, rng: &mut Rng) -> Check<Self> {
        let mut all =
            Self { memories: Vec::new(), inputs: Vec::new(), data: Vec::new(), outputs: Vec::new() };
        // The input that an output is: one that it updates, or now and then one in whose place it may be.
        let mut landing: Vec<Option<usize>> = (0..case.outputs.len()).map(|j| case.updated(j)).collect();
        for j in 0..landing.len() {
            let Alias::InPlace(which) = case.alias(j) else { continue };
            let fits = |i: &&usize| {
                !landing.contains(&Some(**i))
                    && case.inputs.get(**i).is_some_and(|h| h.spec == case.outputs[j])
            };
            let found = which.iter().find(fits).copied();
            landing[j] = found.filter(|_| below(rng, 3) == 0);
        }
        for i in 0..case.inputs.len() {
            all.input(engine, case, i, landing.contains(&Some(i)), rng)?;
        }
        for (j, spec) in case.outputs.iter().enumerate() {
            let output = match landing[j] {
                Some(input) => all.inputs[input].clone(),
                None => {
                    let lie = Lie::draw(rng, &spec.shape, false);
                    let bytes = vec![GUARD; lie.elements() * spec.dtype.size()];
                    all.memories.push(Memory::new(engine, spec.dtype, bytes)?);
                    let memory = all.memories.len() - 1;
                    (memory, lie.of(&all.memories[memory].flat, &spec.shape)?)
                }
            };
            all.outputs.push(output);
        }
        Ok(all)
    }

    /// Lays out an input: anywhere in memory whose every element is drawn as its own are, where they are free; else in memory of
    /// its own. One that is written has memory of its own too.
    fn input(&mut self, engine: &Engine, case: &Case, i: usize, written: bool, rng: &mut Rng) -> Check {
        let (given, data) = (&case.inputs[i], &case.args[i].data);
        let spec = given.spec;
        let free = !matches!(data, Data::Exact(_));
        let lie = Lie::draw(rng, &spec.shape, free && !written);
        if !free || written {
            let mut bytes = vec![GUARD; lie.elements() * spec.dtype.size()];
            let memory = Memory::new(engine, spec.dtype, bytes.clone())?;
            let (view, size) = (lie.of(&memory.flat, &spec.shape)?, spec.dtype.size());
            for (k, element) in given.to_bytes().chunks_exact(size).enumerate() {
                let at = view.layout().index_flat(k) * size;
                bytes[at..at + size].copy_from_slice(element);
            }
            memory.flat.write_bytes(&bytes)?;
            self.memories.push(Memory { before: bytes, ..memory });
            self.inputs.push((self.memories.len() - 1, view));
            self.data.push(given.clone());
            return Ok(());
        }
        let shared = self.memories.iter().position(|m| {
            let alike = m.flat.dtype() == spec.dtype && m.drawn.as_ref().is_some_and(|(own, _)| own == data);
            alike && m.elements() >= lie.elements()
        });
        let memory = match shared.filter(|_| below(rng, 2) == 0) {
            Some(memory) => memory,
            None => {
                let elements = Spec::new(spec.dtype, [lie.elements()]);
                let seed = below(rng, 1 << 30);
                let drawn = fill(data, elements, &mut Random::new("drawn", seed));
                let mut memory = Memory::new(engine, spec.dtype, drawn.to_bytes())?;
                memory.drawn = Some((data.clone(), drawn));
                self.memories.push(memory);
                self.memories.len() - 1
            }
        };
        let own = &self.memories[memory];
        let view = lie.of(&own.flat, &spec.shape)?;
        let layout = *view.layout();
        let host = match &own.drawn {
            Some((_, drawn)) => HostTensor::from_fn(spec, |k| drawn.data[layout.index_flat(k)]),
            None => given.clone(),
        };
        self.inputs.push((memory, view));
        self.data.push(host);
        Ok(())
    }

    /// Calls the op, and checks the results and all bytes beside them.
    fn check(&self, engine: &Engine, case: &Case) -> Check {
        let case = case.with_inputs(self.data.clone());
        let views = |of: &[(usize, View)]| of.iter().map(|(_, view)| view.clone()).collect::<Vec<_>>();
        let (inputs, outputs) = (views(&self.inputs), views(&self.outputs));
        let layouts = || {
            let all = inputs.iter().chain(&outputs);
            all.map(|v| format!("{} {:?}+{}", v.shape(), v.layout().strides(), v.layout().offset()))
                .collect::<Vec<_>>()
        };
        let failed = |why: String| Failure(format!("{case} on {}: {why}", layouts().join(", ")));
        engine
            .call_views(
                case.op.as_ref(),
                &inputs.iter().collect::<Vec<_>>(),
                &outputs.iter().collect::<Vec<_>>(),
            )
            .map_err(|e| failed(e.to_string()))?;
        let got = outputs.iter().map(View::read_host).collect::<Result<Vec<_>, _>>()?;
        close(&case, &got, &case.reference()?, bound, &mut Worst::new())
            .map_err(|Failure(why)| failed(why))?;
        for (number, memory) in self.memories.iter().enumerate() {
            let (mut now, size) = (memory.now()?, memory.flat.dtype().size());
            for (_, view) in self.outputs.iter().filter(|(of, _)| *of == number) {
                for k in 0..view.shape().elements() {
                    let at = view.layout().index_flat(k) * size;
                    now[at..at + size].copy_from_slice(&memory.before[at..at + size]);
                }
            }
            let stray = now.iter().zip(&memory.before).position(|(now, before)| now != before);
            ensure!(stray.is_none(), "{}", failed(format!("byte {stray:?} beside the outputs changed")).0);
        }
        Ok(())
    }
}

/// The cases of an op that are drawn from.
fn small(op: &dyn Tested) -> Check<Vec<Case>> {
    let fits = |case: &Case| {
        let specs = case.specs();
        !case.large() && specs.iter().chain(&case.outputs).all(|s| s.shape.elements() <= MOST)
    };
    Ok(cases(op)?.into_iter().filter(fits).collect())
}

fn one(engine: &Engine, cases: &[Case], rng: &mut Rng) -> Check {
    let Some(case) = cases.get(below(rng, cases.len())) else { return Ok(()) };
    Operands::draw(engine, case, rng)?.check(engine, case)
}

/// A few calls on drawn views.
pub(crate) fn drawn(on: On, op: &dyn Tested) -> Check {
    let (engine, cases) = (on.engine()?, small(op)?);
    (0..DRAWS).try_for_each(|seed| one(&engine, &cases, &mut Rng::new(seed, 1)))
}

/// Calls of ops, cases and views that a seed draws: so many of them, or the one of this number. What failed, a line each.
pub(crate) fn campaign(
    ops: &[&dyn Tested],
    on: On,
    seed: u64,
    numbers: std::ops::Range<u32>,
) -> Check<Vec<String>> {
    let engine = on.engine()?;
    let all = ops.iter().map(|op| small(*op)).collect::<Check<Vec<_>>>()?;
    let mut found = Vec::new();
    for number in numbers {
        let mut rng = Rng::new(seed, number);
        let cases = &all[below(&mut rng, all.len())];
        if let Err(Failure(why)) = one(&engine, cases, &mut rng) {
            found.push(format!("call {number} of seed {seed} on {on:?}: {why}"));
        }
    }
    Ok(found)
}
