//! State: all tensors that outlive a step (parameters, moments, statistics, counters, data), as named entries of a few
//! slabs at fixed addresses.

use crate::contract::StateSpec;
use crate::engine::Engine;
use crate::engine::buffer::Buffer;
use crate::engine::read::{enlarge, room};
use crate::error::Error;
use crate::values::{Address, DType, Element, HostTensor, Layout, Operand, Spec, align};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of a state on a device. Its addresses are constant for its lifetime.
#[derive(Debug)]
pub struct State {
    memory: Arc<StateMemory>,
}

/// What programs compiled against a state keep alive.
#[derive(Debug)]
pub(crate) struct StateMemory {
    pub(crate) id: u64,
    pub(crate) spec: Arc<StateSpec>,
    block: Buffer,
    /// Byte offset of each slab in the block.
    offsets: Vec<usize>,
}

static NEXT_STATE: AtomicU64 = AtomicU64::new(1);

impl State {
    /// Memory for `spec`, zeroed.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn new(engine: &Engine, spec: &Arc<StateSpec>) -> Result<Self, Error> {
        let mut at = 0usize;
        let mut offsets = Vec::with_capacity(spec.slabs().len());
        for s in spec.slabs() {
            offsets.push(at);
            at = at.saturating_add(align(s.elements.saturating_mul(s.dtype.size())));
        }
        let block = Buffer::new(engine.handle(), at)?;
        engine.handle().fill(block.address(), at, 0)?;
        let id = NEXT_STATE.fetch_add(1, Relaxed);
        Ok(Self { memory: Arc::new(StateMemory { id, spec: Arc::clone(spec), block, offsets }) })
    }

    /// Its layout.
    #[must_use]
    pub fn spec(&self) -> &Arc<StateSpec> {
        &self.memory.spec
    }

    /// Bytes of device memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.block.bytes()
    }

    pub(crate) fn memory(&self) -> &Arc<StateMemory> {
        &self.memory
    }

    fn place(&self, name: &str) -> Result<Operand, Error> {
        let (slab, entry) = self.memory.spec.find(name)?;
        let (index, _) = self.memory.spec.find_slab(&slab.name)?;
        let base = self.memory.slab(index).offset(entry.offset * slab.dtype.size());
        Ok(Operand { base, dtype: slab.dtype, layout: Layout::contiguous(entry.shape) })
    }

    /// Copies an entry to the host, after every kernel that writes it.
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::HostData`] if `T` is not its dtype, a flagged index, a device fault.
    pub fn read<T: Element>(&self, name: &str) -> Result<Vec<T>, Error> {
        let mut out = Vec::new();
        self.read_into(name, &mut out)?;
        Ok(out)
    }

    /// Copies an entry into a host vector, which is resized to fit and keeps its capacity.
    ///
    /// # Errors
    /// As [`State::read`].
    pub fn read_into<T: Element>(&self, name: &str, out: &mut Vec<T>) -> Result<(), Error> {
        let place = self.place(name)?;
        let spec = place.spec();
        fits::<T>(name, spec, spec.shape.elements())?;
        enlarge(out, spec.shape.elements())?;
        self.memory.block.device().download(&place, bytemuck::cast_slice_mut(out))
    }

    /// Copies an entry to the host as `f64`.
    ///
    /// # Errors
    /// As [`State::read`].
    pub fn read_host(&self, name: &str) -> Result<HostTensor, Error> {
        let place = self.place(name)?;
        let spec = place.spec();
        let mut bytes: Vec<u8> = Vec::new();
        enlarge(&mut bytes, spec.bytes())?;
        room::<f64>(spec.shape.elements())?;
        self.memory.block.device().download(&place, &mut bytes)?;
        Ok(HostTensor::from_bytes(spec, &bytes)?)
    }

    /// Copies an entry from the host, and to its copy if it has one ([`StateSpec::add_copy`]).
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::HostData`] if dtype or number of elements differ, a device fault.
    pub fn write<T: Element>(&mut self, name: &str, data: &[T]) -> Result<(), Error> {
        let spec = self.place(name)?.spec();
        fits::<T>(name, spec, data.len())?;
        self.upload(name, bytemuck::cast_slice(data))
    }

    /// As [`State::write`], each element rounded to the entry's dtype.
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::HostData`] if the shape differs, a device fault.
    pub fn write_host(&mut self, name: &str, data: &HostTensor) -> Result<(), Error> {
        let spec = self.place(name)?.spec();
        if spec.shape != data.spec.shape {
            return Err(Error::HostData {
                what: format!("state entry {name}"),
                expected: spec,
                given: data.spec,
            });
        }
        self.upload(name, &data.cast(spec.dtype).to_bytes())
    }

    fn upload(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        for entry in std::iter::once(name).chain(self.memory.spec.copy_of(name)) {
            self.memory.block.device().upload(self.place(entry)?.base, bytes)?;
        }
        Ok(())
    }
}

/// Itself: what reads weights takes a state, a shared one, or what has one.
impl AsRef<State> for State {
    fn as_ref(&self) -> &State {
        self
    }
}

fn fits<T: Element>(name: &str, spec: Spec, elements: usize) -> Result<(), Error> {
    let dtype = T::DTYPE == spec.dtype || (T::DTYPE == DType::U8 && spec.dtype == DType::Bool);
    if dtype && elements == spec.shape.elements() {
        return Ok(());
    }
    let given = Spec::new(T::DTYPE, [elements]);
    Err(Error::HostData { what: format!("state entry {name}"), expected: spec, given })
}

impl StateMemory {
    /// Address of a slab.
    pub(crate) fn slab(&self, index: usize) -> Address {
        self.block.address().offset(self.offsets[index])
    }
}
