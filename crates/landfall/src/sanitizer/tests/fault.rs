//! A device that spoils launches. It exists in this test binary alone.

use crate::device::{Counters, Device, Foreign, Hardware, Launch, LaunchList, Recording};
use crate::error::Error;
use crate::ranks::World;
use crate::values::{Address, DeviceKind, Operand, Relation};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// An operand of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Input(usize),
    Output(usize),
}

/// What is done to a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The output is put where the input is: `shift` elements further, so that also those that may lie exactly there
    /// are where they must not be.
    Alias { output: usize, input: usize, shift: usize },
    /// The last block of an output's elements is not written.
    Tail { output: usize },
    /// The zeros of an output are not written.
    Fill { output: usize },
    /// An operand lies one element further.
    Shift(Which),
    /// Two operands of as many bytes change places.
    Swap(Which, Which),
}

/// Elements of a block: the last one, which may be smaller, is left out.
const BLOCK: usize = 64;

/// The first element of the last block of `elements`.
pub(super) fn tail(elements: usize) -> usize {
    elements.saturating_sub(1) / BLOCK * BLOCK
}

/// Puts each of two operands where the other one is.
fn exchange(operands: &mut [Operand], a: usize, b: usize) {
    (operands[a].base, operands[b].base) = (operands[b].base, operands[a].base);
}

/// A device in front of another one.
#[derive(Debug)]
pub(crate) struct Saboteur {
    inner: Arc<dyn Device>,
    fault: Mutex<Option<Fault>>,
    /// The kernel that has it; every one where none is named.
    only: Mutex<Option<&'static str>>,
}

impl Saboteur {
    pub(crate) fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self { inner, fault: Mutex::new(None), only: Mutex::new(None) })
    }

    /// Every launch from now on has this fault, or none.
    pub(super) fn arm(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Every launch of this kernel from now on has this fault, and no other one.
    pub(crate) fn arm_kernel(&self, kernel: &'static str, fault: Fault) {
        *self.only.lock().unwrap_or_else(PoisonError::into_inner) = Some(kernel);
        self.arm(Some(fault));
    }

    /// Runs a launch without what it writes to some elements of an output.
    fn without(
        &self,
        launch: &Launch<'_>,
        output: usize,
        lost: impl Fn(usize, &[u8]) -> bool,
    ) -> Result<(), Error> {
        let o = launch.outputs[output];
        let (start, end) = o.span();
        let mut before = vec![0; (end - start) as usize];
        self.inner.download(&o, &mut before)?;
        self.inner.launch(launch)?;
        let mut after = before.clone();
        self.inner.download(&o, &mut after)?;
        let size = o.dtype.size();
        let bytes = |i: usize| -> Range<usize> {
            let at = (o.layout.index_flat(i) - o.layout.span().start) * size;
            at..at + size
        };
        for i in (0..o.spec().shape.elements()).filter(|&i| lost(i, &after[bytes(i)])).collect::<Vec<_>>() {
            after[bytes(i)].copy_from_slice(&before[bytes(i)]);
        }
        self.inner.upload(Address(start), &after)
    }

    fn spoil(&self, launch: &Launch<'_>, fault: Fault) -> Result<(), Error> {
        let (mut inputs, mut outputs) = (launch.inputs.to_vec(), launch.outputs.to_vec());
        let moved = |o: &Operand, by: usize| Operand { base: o.base.offset(by * o.dtype.size()), ..*o };
        match fault {
            Fault::Alias { output, input, shift } => {
                let at = inputs[input].base;
                outputs[output] = moved(&Operand { base: at, ..outputs[output] }, shift);
            }
            Fault::Tail { output } => {
                let first = tail(outputs[output].spec().shape.elements());
                return self.without(launch, output, |i, _| i >= first);
            }
            Fault::Fill { output } => {
                return self.without(launch, output, |_, new| new.iter().all(|&b| b == 0));
            }
            Fault::Shift(Which::Input(i)) => inputs[i] = moved(&inputs[i], 1),
            Fault::Shift(Which::Output(j)) => {
                // An operand that is updated is one and the same.
                let at = outputs[j];
                let same = |i: &&mut Operand| i.relation(&at) == Relation::Identical;
                inputs.iter_mut().filter(same).for_each(|i| *i = moved(i, 1));
                outputs[j] = moved(&at, 1);
            }
            Fault::Swap(Which::Input(a), Which::Input(b)) => {
                let updated = |i: usize| {
                    outputs.iter().position(|o| o.relation(&launch.inputs[i]) == Relation::Identical)
                };
                if let (Some(a), Some(b)) = (updated(a), updated(b)) {
                    exchange(&mut outputs, a, b);
                }
                exchange(&mut inputs, a, b);
            }
            Fault::Swap(Which::Output(a), Which::Output(b)) => exchange(&mut outputs, a, b),
            Fault::Swap(..) => unreachable!("inputs change places with inputs, outputs with outputs"),
        }
        self.inner.launch(&Launch { inputs: &inputs, outputs: &outputs, ..*launch })
    }
}

impl Device for Saboteur {
    fn kind(&self) -> DeviceKind {
        self.inner.kind()
    }

    fn allocate(&self, bytes: usize) -> Result<Address, Error> {
        self.inner.allocate(bytes)
    }

    fn free(&self, address: Address, bytes: usize) {
        self.inner.free(address, bytes);
    }

    fn adopt(&self, foreign: &Foreign) -> Result<(), Error> {
        self.inner.adopt(foreign)
    }

    fn release(&self, foreign: &Foreign) {
        self.inner.release(foreign);
    }

    fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error> {
        self.inner.upload(to, data)
    }

    fn download(&self, from: &Operand, data: &mut [u8]) -> Result<(), Error> {
        self.inner.download(from, data)
    }

    fn sound(&self, of: &Operand) -> Result<(), Error> {
        self.inner.sound(of)
    }

    fn fill(&self, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        self.inner.fill(to, bytes, value)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let only = *self.only.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Some(fault) if only.is_none_or(|kernel| kernel == launch.kernel.name) => {
                self.spoil(launch, fault)
            }
            Some(_) | None => self.inner.launch(launch),
        }
    }

    fn record(self: Arc<Self>, list: LaunchList) -> Result<Box<dyn Recording>, Error> {
        Arc::clone(&self.inner).record(list)
    }

    fn join(&self, world: World) -> Result<(), Error> {
        self.inner.join(world)
    }

    fn world(&self) -> &World {
        self.inner.world()
    }

    fn hardware(&self) -> Result<Hardware, Error> {
        self.inner.hardware()
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.inner.synchronize()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        self.inner.enter(work);
    }
}
