//! An instruction without its memory, and private memory for it.

use crate::contract::{Op, Spread, check};
use crate::device::Device;
use crate::engine::{Engine, Seen, alike, exact};
use crate::error::Error;
use crate::program::Program;
use crate::rng::Rng;
use crate::values::{ALIGNMENT, Address, DType, HostTensor, Layout, Operand, Spec};
use std::sync::Arc;

/// A tunable instruction: its op, and the layouts and overlaps of its operands, without addresses. It holds no
/// reference to the memory of its program.
#[derive(Debug, Clone)]
pub struct TuningCase {
    pub(super) op: Arc<dyn Op>,
    inputs: Vec<OperandSlot>,
    outputs: Vec<OperandSlot>,
    /// Bytes of each allocation. Operands that overlap share one.
    allocations: Vec<usize>,
}

/// The location of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OperandSlot {
    dtype: DType,
    /// Relative to its own first byte.
    layout: Layout,
    allocation: usize,
    /// Byte offset in the allocation.
    start: usize,
}

impl OperandSlot {
    fn spec(&self) -> Spec {
        Spec { dtype: self.dtype, shape: *self.layout.shape() }
    }

    fn operand(&self, allocations: &[Address]) -> Operand {
        Operand {
            base: allocations[self.allocation].offset(self.start),
            dtype: self.dtype,
            layout: self.layout,
        }
    }

    fn seen(&self) -> Seen<'_> {
        Seen { spec: self.spec(), layout: &self.layout }
    }
}

impl Program {
    /// Its instructions as tuning cases: see [`tune`](crate::tune).
    #[must_use]
    pub fn tuning_cases(&self) -> Vec<TuningCase> {
        self.launches().iter().map(|l| TuningCase::new(&l.op, &l.inputs, &l.outputs)).collect()
    }
}

impl TuningCase {
    /// The case of a launch of these operands. Their addresses are compared, never dereferenced.
    pub(crate) fn new(op: &Arc<dyn Op>, inputs: &[Operand], outputs: &[Operand]) -> Self {
        let all: Vec<&Operand> = inputs.iter().chain(outputs).collect();
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&i| all[i].span());
        let mut slots: Vec<Option<OperandSlot>> = vec![None; all.len()];
        let (mut allocations, mut last) = (Vec::new(), (0, 0));
        for i in order {
            let (start, end) = all[i].span();
            if allocations.is_empty() || start >= last.1 {
                // An allocation is aligned, so that operands keep their alignment.
                last = (start - start % ALIGNMENT as u64, end);
                allocations.push(0);
            }
            last.1 = last.1.max(end);
            let allocation = allocations.len() - 1;
            allocations[allocation] = (last.1 - last.0) as usize;
            let layout = all[i].layout.at_origin();
            slots[i] = Some(OperandSlot {
                dtype: all[i].dtype,
                layout,
                allocation,
                start: (start - last.0) as usize,
            });
        }
        let mut slots = slots.into_iter().flatten();
        let inputs = slots.by_ref().take(inputs.len()).collect();
        Self { op: Arc::clone(op), inputs, outputs: slots.collect(), allocations }
    }

    /// Whether its op has several kernels for it on an engine.
    #[must_use]
    pub fn tunable(&self, engine: &Engine) -> bool {
        check::kernels(self.op.as_ref(), engine.device(), &self.specs()).nth(1).is_some()
    }

    /// Dtype and shape of each argument.
    pub(super) fn specs(&self) -> Vec<Spec> {
        self.inputs.iter().map(OperandSlot::spec).collect()
    }

    /// The key by which its choice is pinned.
    pub(super) fn exact(&self) -> String {
        exact(
            self.op.as_ref(),
            self.inputs.iter().map(OperandSlot::seen),
            self.outputs.iter().map(OperandSlot::seen),
        )
    }

    /// The key of its choice in the cache.
    pub(super) fn alike(&self) -> String {
        alike(
            self.op.as_ref(),
            self.inputs.iter().map(OperandSlot::seen),
            self.outputs.iter().map(OperandSlot::seen),
        )
    }

    /// Whether two instructions of one key also have the same overlaps.
    pub(super) fn same(&self, other: &Self) -> bool {
        (&self.inputs, &self.outputs, &self.allocations)
            == (&other.inputs, &other.outputs, &other.allocations)
    }

    /// The index distributions of its trials: one if it has no indices. `None` if valid indices are unknown.
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

    /// The contents of each allocation before a trial: valid arguments, and poison everywhere else.
    pub(super) fn contents(&self, spread: Spread, poison: u8) -> Vec<Vec<u8>> {
        let mut allocations: Vec<Vec<u8>> =
            self.allocations.iter().map(|&bytes| vec![poison; bytes]).collect();
        let given = self.op.trial(&self.specs(), spread);
        for (i, slot) in self.inputs.iter().enumerate() {
            let valid = given.get(i).and_then(Option::as_ref);
            let numbers = valid.map_or_else(|| random(slot.dtype, i), HostTensor::to_bytes);
            let size = slot.dtype.size();
            let mut elements = numbers.chunks_exact(size).cycle();
            for e in 0..slot.layout.shape().elements() {
                let at = slot.start + slot.layout.index_flat(e) * size;
                if let Some(element) = elements.next() {
                    allocations[slot.allocation][at..at + size].copy_from_slice(element);
                }
            }
        }
        allocations
    }
}

/// Period of the random numbers: a prime, so that no two rows of a matrix are equal.
const PERIOD: usize = 65_521;

/// Numbers between -1 and 1, or between 0 and 1 if the dtype is unsigned, for an argument.
fn random(dtype: DType, argument: usize) -> Vec<u8> {
    let mut rng = Rng::new(0, argument as u32);
    HostTensor::from_fn(Spec::new(dtype, [PERIOD]), |_| 2.0 * rng.uniform() - 1.0).to_bytes()
}

/// Private memory of a case on a device: freed when it drops.
#[derive(Debug)]
pub(super) struct Scratch {
    device: Arc<dyn Device>,
    allocations: Vec<(Address, usize)>,
    pub(super) inputs: Vec<Operand>,
    pub(super) outputs: Vec<Operand>,
    /// The allocations that a launch writes.
    written: Vec<usize>,
    pub(super) workspace: (Address, usize),
}

impl Scratch {
    /// Memory for a case, with this many bytes of workspace.
    pub(super) fn new(device: &Arc<dyn Device>, case: &TuningCase, workspace: usize) -> Result<Self, Error> {
        let mut this = Self {
            device: Arc::clone(device),
            allocations: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            written: Vec::new(),
            workspace: (Address(0), 0),
        };
        for &bytes in &case.allocations {
            this.allocations.push((device.allocate(bytes.max(1))?, bytes.max(1)));
        }
        if workspace > 0 {
            this.workspace = (device.allocate(workspace)?, workspace);
        }
        let starts: Vec<Address> = this.allocations.iter().map(|p| p.0).collect();
        this.inputs = case.inputs.iter().map(|s| s.operand(&starts)).collect();
        this.outputs = case.outputs.iter().map(|s| s.operand(&starts)).collect();
        this.written = case.outputs.iter().map(|s| s.allocation).collect();
        this.written.sort_unstable();
        this.written.dedup();
        Ok(this)
    }

    /// Initializes every allocation.
    pub(super) fn load(&self, contents: &[Vec<u8>]) -> Result<(), Error> {
        (0..self.allocations.len()).try_for_each(|p| self.put(p, contents))
    }

    /// Restores the allocations that a launch wrote.
    pub(super) fn restore(&self, contents: &[Vec<u8>]) -> Result<(), Error> {
        self.written.iter().try_for_each(|&p| self.put(p, contents))
    }

    fn put(&self, allocation: usize, contents: &[Vec<u8>]) -> Result<(), Error> {
        let (at, data) = (self.allocations[allocation].0, &contents[allocation]);
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
    device.download(operand, &mut bytes)?;
    let spec = Spec::new(operand.dtype, [bytes.len() / operand.dtype.size()]);
    let flat = HostTensor::from_bytes(spec, &bytes)?;
    Ok(flat.picked(operand.spec().shape, |i| operand.layout.index_flat(i)))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let (at, bytes) = self.workspace;
        let workspace = (bytes > 0).then_some((at, bytes));
        for (at, bytes) in self.allocations.drain(..).chain(workspace) {
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

    /// Operands that share memory share it in the private memory, in the same way; others do not.
    #[test]
    fn sharing_is_kept_and_nothing_else_is() {
        let row = |n: usize| Layout::contiguous([n].into());
        let half = row(32).slice(0, 16, 16, 1).expect("inside");
        let op: Arc<dyn Op> = Arc::new(Add);
        let live = [operand(4096, row(16)), operand(9000 * 64, half), operand(4096, row(16))];
        let case = TuningCase::new(&op, &live[..2], &live[2..]);
        let device: Arc<dyn Device> = cpu::Cpu::new(1).expect("a thread");
        let scratch = Scratch::new(&device, &case, 0).expect("memory");
        assert_eq!(device.kind(), DeviceKind::Cpu);
        let all: Vec<Operand> = scratch.inputs.iter().chain(&scratch.outputs).copied().collect();
        for (a, now) in all.iter().enumerate() {
            assert_eq!(now.address() % 64, live[a].address() % 64, "operand {a} is aligned as it was");
            assert_eq!(now.spec(), live[a].spec());
            for b in 0..all.len() {
                assert_eq!(now.relation(&all[b]), live[a].relation(&live[b]), "operands {a} and {b}");
            }
        }
        assert_eq!(case.allocations.len(), 2);
    }

    /// Parts of a packed buffer remain its parts.
    #[test]
    fn parts_stay_in_their_place() {
        let row = |n: usize| Layout::contiguous([n].into());
        let op: Arc<dyn Op> = Arc::new(Concat::default());
        let live = [operand(4096, row(16)), operand(4096 + 64, row(16)), operand(4096, row(32))];
        let case = TuningCase::new(&op, &live[..2], &live[2..]);
        assert_eq!(case.allocations, [128]);
        assert_eq!([case.inputs[0].start, case.inputs[1].start, case.outputs[0].start], [0, 64, 0]);
        let contents = case.contents(Spread::Uniform, 0xFF);
        assert!(contents[0].chunks_exact(4).all(|e| e != [0xFF; 4]), "every part is an argument");
    }
}
