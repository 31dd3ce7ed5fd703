//! State: everything that outlives a step (parameters, moments, statistics, counters, data), in a few slabs with
//! named entries at fixed addresses.

use crate::buffer::Buffer;
use crate::device::{Address, align};
use crate::engine::Engine;
use crate::error::Error;
use crate::host::HostTensor;
use crate::shape::{Shape, Spec};
use crate::{DType, Element};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Elements to which entries of a slab are aligned, so that each starts where wide loads may.
pub const ENTRY_ALIGNMENT: usize = 16;

/// One named tensor in a slab.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name, unique in the state.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Its first element in the slab.
    pub offset: usize,
}

/// One block of memory that holds entries of one dtype behind each other; gaps between them hold zeros.
#[derive(Debug, Clone, PartialEq)]
pub struct Slab {
    /// Its name, unique in the state.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Its entries, in order.
    pub entries: Vec<Entry>,
    /// Elements in all, gaps included.
    pub elements: usize,
    /// Whether programs may only read it.
    pub constant: bool,
}

/// What a state holds: slabs and their entries.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateSpec {
    slabs: Vec<Slab>,
    /// Slab and number in it of each entry.
    by_name: HashMap<String, (usize, usize)>,
}

impl StateSpec {
    /// A state without slabs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The slabs, in order.
    #[must_use]
    pub fn slabs(&self) -> &[Slab] {
        &self.slabs
    }

    /// Adds a slab that programs may update.
    ///
    /// # Errors
    /// [`Error::TwiceNamed`].
    pub fn add(&mut self, name: &str, dtype: DType, entries: &[(String, Shape)]) -> Result<(), Error> {
        self.push(name, dtype, entries, false)
    }

    /// Adds a slab that programs only read.
    ///
    /// # Errors
    /// [`Error::TwiceNamed`].
    pub fn add_constant(
        &mut self,
        name: &str,
        dtype: DType,
        entries: &[(String, Shape)],
    ) -> Result<(), Error> {
        self.push(name, dtype, entries, true)
    }

    fn push(
        &mut self,
        name: &str,
        dtype: DType,
        entries: &[(String, Shape)],
        constant: bool,
    ) -> Result<(), Error> {
        let mut at = 0usize;
        let mut placed: Vec<Entry> = Vec::with_capacity(entries.len());
        let mut own = HashMap::with_capacity(entries.len());
        for (number, (entry, shape)) in entries.iter().enumerate() {
            let place = (self.slabs.len(), number);
            if self.by_name.contains_key(entry) || own.insert(entry.clone(), place).is_some() {
                return Err(Error::TwiceNamed { name: entry.clone() });
            }
            placed.push(Entry { name: entry.clone(), shape: *shape, offset: at });
            at = at
                .saturating_add(shape.elements())
                .checked_next_multiple_of(ENTRY_ALIGNMENT)
                .unwrap_or(usize::MAX);
        }
        if self.find_slab(name).is_ok() {
            return Err(Error::TwiceNamed { name: name.to_owned() });
        }
        self.by_name.extend(own);
        self.slabs.push(Slab { name: name.to_owned(), dtype, entries: placed, elements: at, constant });
        Ok(())
    }

    /// The slab of this name, with its number.
    ///
    /// # Errors
    /// [`Error::NoEntry`].
    pub fn find_slab(&self, name: &str) -> Result<(usize, &Slab), Error> {
        let found = self.slabs.iter().enumerate().find(|(_, s)| s.name == name);
        found.ok_or_else(|| Error::NoEntry {
            name: name.to_owned(),
            known: self.slabs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The entry of this name, with its slab.
    ///
    /// # Errors
    /// [`Error::NoEntry`].
    pub fn find(&self, name: &str) -> Result<(&Slab, &Entry), Error> {
        let found = self.by_name.get(name).map(|&(s, e)| (&self.slabs[s], &self.slabs[s].entries[e]));
        found.ok_or_else(|| Error::NoEntry {
            name: name.to_owned(),
            known: format!("{} entries", self.slabs.iter().map(|s| s.entries.len()).sum::<usize>()),
        })
    }
}

/// The memory of a state on a device. Addresses are constant for its life.
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
        let mut offsets = Vec::with_capacity(spec.slabs.len());
        for s in &spec.slabs {
            offsets.push(at);
            at = at.saturating_add(align(s.elements.saturating_mul(s.dtype.size())));
        }
        let block = Buffer::new(engine.handle(), at)?;
        engine.handle().fill(block.address(), at, 0)?;
        let id = NEXT_STATE.fetch_add(1, Relaxed);
        Ok(Self { memory: Arc::new(StateMemory { id, spec: Arc::clone(spec), block, offsets }) })
    }

    /// What it holds.
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

    fn place(&self, name: &str) -> Result<(Address, Spec), Error> {
        let (slab, entry) = self.memory.spec.find(name)?;
        let (index, _) = self.memory.spec.find_slab(&slab.name)?;
        let at = self.memory.slab(index).offset(entry.offset * slab.dtype.size());
        Ok((at, Spec { dtype: slab.dtype, shape: entry.shape }))
    }

    /// Copies an entry to the host, after every kernel that writes it.
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::HostData`] when `T` is not its dtype, a flagged index, a device fault.
    pub fn read<T: Element>(&self, name: &str) -> Result<Vec<T>, Error> {
        let mut out = Vec::new();
        self.read_into(name, &mut out)?;
        Ok(out)
    }

    /// Copies an entry into a vector on the host, which is resized to fit and keeps its memory.
    ///
    /// # Errors
    /// As [`State::read`].
    pub fn read_into<T: Element>(&self, name: &str, out: &mut Vec<T>) -> Result<(), Error> {
        let (at, spec) = self.place(name)?;
        fits::<T>(name, spec, spec.shape.elements())?;
        out.resize(spec.shape.elements(), T::from_f64(0.0));
        self.memory.block.device().download(at, bytemuck::cast_slice_mut(out))
    }

    /// Copies an entry to the host as `f64`.
    ///
    /// # Errors
    /// As [`State::read`].
    pub fn read_host(&self, name: &str) -> Result<HostTensor, Error> {
        let (at, spec) = self.place(name)?;
        let mut bytes = vec![0; spec.bytes()];
        self.memory.block.device().download(at, &mut bytes)?;
        Ok(HostTensor::from_bytes(spec, &bytes))
    }

    /// Copies an entry from the host.
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::HostData`] when dtype or number of elements differ, a device fault.
    pub fn write<T: Element>(&mut self, name: &str, data: &[T]) -> Result<(), Error> {
        let (at, spec) = self.place(name)?;
        fits::<T>(name, spec, data.len())?;
        self.memory.block.device().upload(at, bytemuck::cast_slice(data))
    }

    /// Copies an entry from the host, each element rounded to its dtype.
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::HostData`] when the shape differs, a device fault.
    pub fn write_host(&mut self, name: &str, data: &HostTensor) -> Result<(), Error> {
        let (at, spec) = self.place(name)?;
        if spec.shape != data.spec.shape {
            return Err(Error::HostData {
                what: format!("state entry {name}"),
                expected: spec,
                given: data.spec,
            });
        }
        self.memory.block.device().upload(at, &data.cast(spec.dtype).to_bytes())
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
