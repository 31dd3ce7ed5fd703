//! Owning views: a layout of memory that lives as long as a view of it, the engine's or another library's.

use super::buffer::Buffer;
use super::tensor::{Tensor, TensorMut, TensorRef, described};
use crate::device::{Device, Foreign};
use crate::error::Error;
use crate::values::{Address, DType, DeviceKind, Element, HostTensor, Layout, Operand, Rule, Shape, Spec};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// A view that keeps its memory alive. A clone is another view of the same memory.
///
/// Where the compiler cannot see who else holds the memory, each call checks: the byte ranges of its operands by the op's
/// alias rule, as every call does, and that no other call on views of the same memory runs at the same time: it waits.
///
/// ```
/// use landfall::{Engine, View, ops};
/// let engine = Engine::cpu()?;
/// let x = View::from(engine.tensor([4], &[1.0f32, 2.0, 3.0, 4.0])?);
/// let (low, high) = (x.slice(0, 0, 2)?, x.slice(0, 2, 2)?);
/// engine.call_views(&ops::Add, &[&low, &high], &[&low])?;
/// assert_eq!(x.read::<f32>()?, [4.0, 6.0, 3.0, 4.0]);
/// // Elements that are written while others still read them: refused.
/// let middle = x.slice(0, 1, 2)?;
/// assert!(engine.call_views(&ops::Add, &[&low, &high], &[&middle]).is_err());
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct View {
    memory: Arc<Memory>,
    operand: Operand,
}

/// Memory that views share.
#[derive(Debug)]
struct Memory {
    buffer: Buffer,
    writable: bool,
    /// Whether another library reads it without asking: its own memory, or what was handed out.
    shared: AtomicBool,
    /// Held for reading or for writing while a call is issued; on the CPU the call is then complete.
    gate: RwLock<()>,
}

/// A memory that work is about to use, and whether it writes it.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    memory: Arc<Memory>,
    writes: bool,
}

impl Memory {
    /// Memory that calls may write.
    fn of(buffer: Buffer, shared: bool) -> Self {
        Self { buffer, writable: true, shared: AtomicBool::new(shared), gate: RwLock::new(()) }
    }
}

impl View {
    /// A view of another library's memory.
    ///
    /// # Errors
    /// The address is not a multiple of the element size, or the layout leaves the memory; what the device refuses.
    pub(super) fn wrap(
        device: &Arc<dyn Device>,
        foreign: Foreign,
        dtype: DType,
        layout: Layout,
    ) -> Result<Self, Error> {
        let refused = |why: String| Err(Error::Foreign { why });
        if foreign.device != device.kind() {
            return refused(format!(
                "{foreign:?}, this engine is on {}; use an engine of its device, or copy it",
                device.kind()
            ));
        }
        layout.shape().bounded().map_err(|rule| rule.of("wrap", &[], Some(device.kind()), None))?;
        let (size, end) = (dtype.size(), layout.span().end);
        if !foreign.address.0.is_multiple_of(size as u64) {
            return refused(format!(
                "{foreign:?}, which is no multiple of the {size} bytes of an element of {dtype}; copy it"
            ));
        }
        if end.checked_mul(size).is_none_or(|bytes| bytes > foreign.bytes) {
            return refused(format!(
                "{foreign:?}; shape {} with strides {:?} from element {} on ends at element {end} of {dtype}, behind it",
                layout.shape(),
                layout.strides(),
                layout.offset()
            ));
        }
        if foreign.address.0.checked_add(foreign.bytes as u64).is_none() {
            return refused(format!("{foreign:?}, which ends beyond every address"));
        }
        let (base, writable) = (foreign.address, foreign.writable);
        let told = foreign.waits || device.kind() == DeviceKind::Cpu;
        let buffer = Buffer::foreign(device, foreign)?;
        let memory = Arc::new(Memory { writable, ..Memory::of(buffer, told) });
        Ok(Self { memory, operand: Operand { base, dtype, layout } })
    }

    described!();

    /// Offset and strides in the memory.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.operand.layout
    }

    /// The address of the first element in its device's memory. It is valid while a view of the memory lives. Another library
    /// that reads there gets it from [`hand_out`](Self::hand_out).
    #[must_use]
    pub fn address(&self) -> u64 {
        self.operand.address()
    }

    /// [`address`](Self::address), for another library, which from now on reads this memory without asking: what it reads is
    /// checked here, and each later call or program that writes to this memory returns a fault of its result itself. On a GPU it
    /// waits for launches that check indices.
    ///
    /// ```
    /// use landfall::{Engine, View, ops};
    /// let engine = Engine::cpu()?;
    /// let rows = View::from(engine.tensor([2], &[10.0f32, 20.0])?);
    /// let [good, bad] = [1i64, 2].map(|i| engine.tensor([1], &[i]).map(View::from));
    /// let gather = ops::Gather { axis: 0, rows: true };
    /// let wrong = engine.eval_views(&gather, &[&rows, &bad?])?;
    /// assert!(wrong[0].hand_out().is_err());
    /// let right = engine.eval_views(&gather, &[&rows, &good?])?;
    /// assert_eq!(right[0].hand_out()?, right[0].address());
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Index`] if an element depends on an index out of range; a device fault. While another library captures what is
    /// issued, only what is known then is checked.
    pub fn hand_out(&self) -> Result<u64, Error> {
        hold(&[Gate::of(self, false)], || {
            self.handle().sound(&self.operand)?;
            self.memory.shared.store(true, Relaxed);
            Ok(self.address())
        })
    }

    /// After a call that wrote it: the fault that another library would not see.
    pub(crate) fn told(&self) -> Result<(), Error> {
        if self.memory.shared.load(Relaxed) { self.handle().sound(&self.operand) } else { Ok(()) }
    }

    /// The kind of device.
    #[must_use]
    pub fn device(&self) -> DeviceKind {
        self.memory.buffer.device().kind()
    }

    /// Whether calls may write it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.memory.writable
    }

    #[track_caller]
    fn under(&self, op: &'static str, layout: Result<Layout, Rule>) -> Result<Self, Error> {
        let at = Some(Location::caller());
        let layout = layout.map_err(|rule| rule.of(op, &[self.spec()], Some(self.device()), at))?;
        Ok(Self { memory: Arc::clone(&self.memory), operand: self.operand.relaid(layout) })
    }

    /// As [`TensorRef::reshape`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Self, Error> {
        self.under("reshape", self.layout().reshape(shape.into()))
    }

    /// As [`TensorRef::permute`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn permute(&self, axes: &[usize]) -> Result<Self, Error> {
        self.under("permute", self.layout().permute(axes))
    }

    /// As [`TensorRef::slice`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn slice(&self, axis: usize, start: usize, len: usize) -> Result<Self, Error> {
        self.strided_slice(axis, start, len, 1)
    }

    /// Elements `start`, `start + step`, … along an axis, `len` of them.
    ///
    /// # Errors
    /// The axis must exist, the step be at least 1, and the last element be within the axis.
    #[track_caller]
    pub fn strided_slice(&self, axis: usize, start: usize, len: usize, step: usize) -> Result<Self, Error> {
        self.under("slice", self.layout().slice(axis, start, len, step))
    }

    /// As [`TensorRef::squeeze`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn squeeze(&self, axis: usize) -> Result<Self, Error> {
        self.under("squeeze", self.layout().squeeze(axis))
    }

    /// Inserts an axis of size 1 before `axis`.
    ///
    /// # Errors
    /// The axis must be at most the rank, and the rank below [`MAX_RANK`](crate::MAX_RANK).
    #[track_caller]
    pub fn unsqueeze(&self, axis: usize) -> Result<Self, Error> {
        self.under("unsqueeze", self.layout().unsqueeze(axis))
    }

    /// As [`TensorRef::broadcast_to`]; a view that shares elements is refused as an output.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Result<Self, Error> {
        self.under("broadcast_to", self.layout().broadcast_to(shape.into()))
    }

    /// As [`TensorRef::unfold`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn unfold(&self, size: usize, step: usize) -> Result<Self, Error> {
        self.under("unfold", self.layout().unfold(size, step))
    }

    /// Copies the elements to the host, row-major, after every call that writes them.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        hold(&[Gate::of(self, false)], || self.as_ref().read())
    }

    /// Copies the elements to `out`, row-major.
    ///
    /// # Errors
    /// As [`Tensor::read_into`].
    pub fn read_into<T: Element>(&self, out: &mut [T]) -> Result<(), Error> {
        hold(&[Gate::of(self, false)], || self.as_ref().read_into(out))
    }

    /// Copies the elements to the host as `f64`.
    ///
    /// # Errors
    /// As [`Tensor::read_host`].
    pub fn read_host(&self) -> Result<HostTensor, Error> {
        hold(&[Gate::of(self, false)], || self.as_ref().read_host())
    }

    /// Copies elements from the host.
    ///
    /// # Errors
    /// [`Error::HostData`] if dtype or number of elements differ; memory that is read-only; elements that do not lie row-major
    /// without gaps; a device fault.
    #[track_caller]
    pub fn write<T: Element>(&self, data: &[T]) -> Result<(), Error> {
        super::read::expect::<T>("tensor", self.spec(), data.len())?;
        self.write_bytes(bytemuck::cast_slice(data))
    }

    /// Copies the bytes of the elements, row-major, from the host.
    ///
    /// # Errors
    /// As [`View::write`].
    #[track_caller]
    pub fn write_bytes(&self, data: &[u8]) -> Result<(), Error> {
        let (spec, kind) = (self.spec(), Some(self.device()));
        let fail = |rule: Rule| Error::from(rule.of("write", &[spec], kind, Some(Location::caller())));
        if data.len() != spec.bytes() {
            let given = Spec::new(DType::U8, [data.len()]);
            return Err(Error::HostData { what: "tensor".to_owned(), expected: spec, given });
        }
        if !self.is_writable() {
            return Err(fail(Rule::ReadOnly { output: 0 }));
        }
        if !self.layout().is_contiguous() {
            return Err(fail(Rule::NotContiguous {
                shape: spec.shape,
                strides: self.layout().strides().to_vec(),
            }));
        }
        hold(&[Gate::of(self, true)], || self.memory.buffer.device().upload(Address(self.address()), data))
    }

    /// The view as an operand that is read. Its gate is held by the caller.
    pub(super) fn as_ref(&self) -> TensorRef<'_> {
        TensorRef::new(self.operand, self.memory.buffer.device())
    }

    /// The view as an operand that is written. Its gate is held by the caller, and byte ranges are checked by the call.
    pub(super) fn as_mut(&self) -> TensorMut<'_> {
        TensorMut::new(self.operand, self.memory.buffer.device())
    }

    pub(crate) fn operand(&self) -> &Operand {
        &self.operand
    }

    pub(crate) fn handle(&self) -> &Arc<dyn Device> {
        self.memory.buffer.device()
    }
}

impl From<Tensor> for View {
    fn from(tensor: Tensor) -> Self {
        let (buffer, operand) = tensor.into_parts();
        Self { memory: Arc::new(Memory::of(buffer, false)), operand }
    }
}

impl Gate {
    /// The memory of a view.
    pub(crate) fn of(view: &View, writes: bool) -> Self {
        Self { memory: Arc::clone(&view.memory), writes }
    }

    /// Puts gates in one order for all threads, so that none waits in a circle; of one memory the writer comes first.
    pub(crate) fn sort(gates: &mut [Self]) {
        gates.sort_unstable_by_key(|gate| (Arc::as_ptr(&gate.memory), !gate.writes));
    }
}

/// Does `work` once nobody else uses the memories of these gates, which are sorted. Allocates nothing.
pub(crate) fn hold<R>(gates: &[Gate], work: impl FnOnce() -> R) -> R {
    let Some((first, rest)) = gates.split_first() else { return work() };
    let same = rest.iter().take_while(|other| Arc::ptr_eq(&other.memory, &first.memory)).count();
    let (gate, rest) = (&first.memory.gate, &rest[same..]);
    if first.writes {
        let _alone = gate.write().unwrap_or_else(PoisonError::into_inner);
        hold(rest, work)
    } else {
        let _shared = gate.read().unwrap_or_else(PoisonError::into_inner);
        hold(rest, work)
    }
}
