//! An instruction without its memory, and private memory for it.

use crate::contract::{Op, Spread, check};
use crate::device::Device;
use crate::engine::{Engine, Seen, alike, exact};
use crate::error::Error;
use crate::program::Program;
use crate::rng::Rng;
use crate::values::{ALIGNMENT, Address, DType, HostTensor, Layout, Operand, Spec};
use std::sync::Arc;

/// An instruction that may be tuned: its op, and how its operands lie and share memory, but not where. Nothing in it
/// leads to the memory of the program that it was taken from.
#[derive(Debug, Clone)]
pub struct Problem {
    pub(super) op: Arc<dyn Op>,
    inputs: Vec<Seat>,
    outputs: Vec<Seat>,
    /// Bytes of each piece of memory. Operands that overlap are in one.
    pieces: Vec<usize>,
}

/// Where an operand lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    dtype: DType,
    /// From its own first byte on.
    layout: Layout,
    piece: usize,
    /// Bytes before it in the piece.
    start: usize,
}

impl Seat {
    fn spec(&self) -> Spec {
        Spec { dtype: self.dtype, shape: *self.layout.shape() }
    }

    fn operand(&self, pieces: &[Address]) -> Operand {
        Operand { base: pieces[self.piece].offset(self.start), dtype: self.dtype, layout: self.layout }
    }

    fn seen(&self) -> Seen<'_> {
        Seen { spec: self.spec(), layout: &self.layout }
    }
}

impl Program {
    /// Its instructions as a tuner runs them, on memory of its own: see [`tune`](crate::tune).
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.launches().iter().map(|l| Problem::new(&l.op, &l.inputs, &l.outputs)).collect()
    }
}

impl Problem {
    /// The problem of a launch of these operands. Their addresses are compared, never followed.
    pub(crate) fn new(op: &Arc<dyn Op>, inputs: &[Operand], outputs: &[Operand]) -> Self {
        let all: Vec<&Operand> = inputs.iter().chain(outputs).collect();
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&i| all[i].span());
        let mut seats: Vec<Option<Seat>> = vec![None; all.len()];
        let (mut pieces, mut last) = (Vec::new(), (0, 0));
        for i in order {
            let (start, end) = all[i].span();
            if pieces.is_empty() || start >= last.1 {
                // A piece begins where an allocation may, so that operands are aligned as they were.
                last = (start - start % ALIGNMENT as u64, end);
                pieces.push(0);
            }
            last.1 = last.1.max(end);
            let piece = pieces.len() - 1;
            pieces[piece] = (last.1 - last.0) as usize;
            let layout = all[i].layout.at_origin();
            seats[i] = Some(Seat { dtype: all[i].dtype, layout, piece, start: (start - last.0) as usize });
        }
        let mut seats = seats.into_iter().flatten();
        let inputs = seats.by_ref().take(inputs.len()).collect();
        Self { op: Arc::clone(op), inputs, outputs: seats.collect(), pieces }
    }

    /// Whether its op has several kernels for it on an engine.
    #[must_use]
    pub fn tunable(&self, engine: &Engine) -> bool {
        check::kernels(self.op.as_ref(), engine.device(), &self.specs()).nth(1).is_some()
    }

    /// Dtype and shape of each argument.
    pub(super) fn specs(&self) -> Vec<Spec> {
        self.inputs.iter().map(Seat::spec).collect()
    }

    /// What its choice is pinned by.
    pub(super) fn exact(&self) -> String {
        exact(self.op.as_ref(), self.inputs.iter().map(Seat::seen), self.outputs.iter().map(Seat::seen))
    }

    /// What its choice is kept by on disk.
    pub(super) fn alike(&self) -> String {
        alike(self.op.as_ref(), self.inputs.iter().map(Seat::seen), self.outputs.iter().map(Seat::seen))
    }

    /// Whether two instructions of one key also share memory alike.
    pub(super) fn same(&self, other: &Self) -> bool {
        (&self.inputs, &self.outputs, &self.pieces) == (&other.inputs, &other.outputs, &other.pieces)
    }

    /// The ways to spread indices that it is tried with: one where it has none. `None` where nobody knows which are
    /// valid.
    pub(super) fn spreads(&self) -> Option<&'static [Spread]> {
        let specs = self.specs();
        let given = self.op.trial(&specs, Spread::Uniform);
        let valid = |i: usize| matches!(given.get(i), Some(Some(_)));
        if !specs.iter().enumerate().all(|(i, s)| s.dtype.is_float() || valid(i)) {
            return None;
        }
        let indices = (0..specs.len()).any(valid);
        Some(if indices { &[Spread::Uniform, Spread::Zipf] } else { &[Spread::Uniform] })
    }

    /// What each piece of memory holds before a trial: valid arguments, and poison everywhere else.
    pub(super) fn contents(&self, spread: Spread, poison: u8) -> Vec<Vec<u8>> {
        let mut pieces: Vec<Vec<u8>> = self.pieces.iter().map(|&bytes| vec![poison; bytes]).collect();
        let given = self.op.trial(&self.specs(), spread);
        for (i, seat) in self.inputs.iter().enumerate() {
            let valid = given.get(i).and_then(Option::as_ref);
            let numbers = valid.map_or_else(|| random(seat.dtype, i), HostTensor::to_bytes);
            let size = seat.dtype.size();
            let mut elements = numbers.chunks_exact(size).cycle();
            for e in 0..seat.layout.shape().elements() {
                let at = seat.start + seat.layout.index_flat(e) * size;
                if let Some(element) = elements.next() {
                    pieces[seat.piece][at..at + size].copy_from_slice(element);
                }
            }
        }
        pieces
    }
}

/// Random numbers of a period: a prime, so that no two rows of a matrix are alike.
const PERIOD: usize = 65_521;

/// Numbers between -1 and 1, or between 0 and 1 where a dtype has no sign, of an argument.
fn random(dtype: DType, argument: usize) -> Vec<u8> {
    let mut rng = Rng::new(0, argument as u32);
    HostTensor::from_fn(Spec::new(dtype, [PERIOD]), |_| 2.0 * rng.uniform() - 1.0).to_bytes()
}

/// Private memory of a problem on a device: freed when it drops.
#[derive(Debug)]
pub(super) struct Scratch {
    device: Arc<dyn Device>,
    pieces: Vec<(Address, usize)>,
    pub(super) inputs: Vec<Operand>,
    pub(super) outputs: Vec<Operand>,
    /// The pieces that a launch writes.
    written: Vec<usize>,
    pub(super) workspace: (Address, usize),
}

impl Scratch {
    /// Memory for a problem, with so many bytes of workspace.
    pub(super) fn new(device: &Arc<dyn Device>, problem: &Problem, workspace: usize) -> Result<Self, Error> {
        let mut this = Self {
            device: Arc::clone(device),
            pieces: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            written: Vec::new(),
            workspace: (Address(0), 0),
        };
        for &bytes in &problem.pieces {
            this.pieces.push((device.allocate(bytes.max(1))?, bytes.max(1)));
        }
        if workspace > 0 {
            this.workspace = (device.allocate(workspace)?, workspace);
        }
        let starts: Vec<Address> = this.pieces.iter().map(|p| p.0).collect();
        this.inputs = problem.inputs.iter().map(|s| s.operand(&starts)).collect();
        this.outputs = problem.outputs.iter().map(|s| s.operand(&starts)).collect();
        this.written = problem.outputs.iter().map(|s| s.piece).collect();
        this.written.sort_unstable();
        this.written.dedup();
        Ok(this)
    }

    /// Gives every piece its contents.
    pub(super) fn load(&self, contents: &[Vec<u8>]) -> Result<(), Error> {
        (0..self.pieces.len()).try_for_each(|p| self.put(p, contents))
    }

    /// Gives those pieces their contents back that a launch wrote.
    pub(super) fn restore(&self, contents: &[Vec<u8>]) -> Result<(), Error> {
        self.written.iter().try_for_each(|&p| self.put(p, contents))
    }

    fn put(&self, piece: usize, contents: &[Vec<u8>]) -> Result<(), Error> {
        let (at, data) = (self.pieces[piece].0, &contents[piece]);
        if data.is_empty() { Ok(()) } else { self.device.upload(at, data) }
    }

    /// The outputs' elements, row-major.
    pub(super) fn results(&self) -> Result<Vec<HostTensor>, Error> {
        self.outputs.iter().map(|o| read(self.device.as_ref(), o)).collect()
    }
}

fn read(device: &dyn Device, operand: &Operand) -> Result<HostTensor, Error> {
    let (start, end) = operand.span();
    let mut bytes = vec![0; (end - start) as usize];
    device.download(Address(start), &mut bytes)?;
    let spec = Spec::new(operand.dtype, [bytes.len() / operand.dtype.size()]);
    let flat = HostTensor::from_bytes(spec, &bytes)?;
    Ok(flat.picked(operand.spec().shape, |i| operand.layout.index_flat(i)))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let (at, bytes) = self.workspace;
        let workspace = (bytes > 0).then_some((at, bytes));
        for (at, bytes) in self.pieces.drain(..).chain(workspace) {
            self.device.free(at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use crate::ops::{Add, Concat};
    use crate::values::{Address, DeviceKind};

    fn operand(base: u64, layout: Layout) -> Operand {
        Operand { base: Address(base), dtype: DType::F32, layout }
    }

    /// Operands that share memory share it in the scratch memory, in the same way; others do not.
    #[test]
    fn sharing_is_kept_and_nothing_else_is() {
        let row = |n: usize| Layout::contiguous([n].into());
        let half = row(32).slice(0, 16, 16, 1).expect("inside");
        let op: Arc<dyn Op> = Arc::new(Add);
        let live = [operand(4096, row(16)), operand(9000 * 64, half), operand(4096, row(16))];
        let problem = Problem::new(&op, &live[..2], &live[2..]);
        let device: Arc<dyn Device> = cpu::Cpu::new(1).expect("a thread");
        let scratch = Scratch::new(&device, &problem, 0).expect("memory");
        assert_eq!(device.kind(), DeviceKind::Cpu);
        let all: Vec<Operand> = scratch.inputs.iter().chain(&scratch.outputs).copied().collect();
        for (a, now) in all.iter().enumerate() {
            assert_eq!(now.address() % 64, live[a].address() % 64, "operand {a} is aligned as it was");
            assert_eq!(now.spec(), live[a].spec());
            for b in 0..all.len() {
                assert_eq!(now.relation(&all[b]), live[a].relation(&live[b]), "operands {a} and {b}");
            }
        }
        assert_eq!(problem.pieces.len(), 2);
    }

    /// Parts of a packing stay parts of it.
    #[test]
    fn parts_stay_in_their_place() {
        let row = |n: usize| Layout::contiguous([n].into());
        let op: Arc<dyn Op> = Arc::new(Concat::default());
        let live = [operand(4096, row(16)), operand(4096 + 64, row(16)), operand(4096, row(32))];
        let problem = Problem::new(&op, &live[..2], &live[2..]);
        assert_eq!(problem.pieces, [128]);
        assert_eq!([problem.inputs[0].start, problem.inputs[1].start, problem.outputs[0].start], [0, 64, 0]);
        let contents = problem.contents(Spread::Uniform, 0xFF);
        assert!(contents[0].chunks_exact(4).all(|e| e != [0xFF; 4]), "every part is an argument");
    }
}
