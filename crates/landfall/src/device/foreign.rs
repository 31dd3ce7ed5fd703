//! Memory and streams of other libraries.

use crate::values::{Address, DeviceKind};
use std::any::Any;
use std::fmt;

/// A CUDA stream of another library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignStream(u64);

impl ForeignStream {
    /// The stream of this `CUstream` handle; 0 is the legacy default stream, 1 the same by its name, 2 the default stream of
    /// the calling thread.
    ///
    /// # Safety
    /// The stream exists, in the primary context of its GPU, for as long as an engine follows it
    /// ([`Engine::follow`](crate::Engine::follow)) and memory that names it is wrapped.
    #[must_use]
    pub const unsafe fn new(handle: u64) -> Self {
        Self(handle)
    }

    /// Its handle.
    #[must_use]
    pub const fn handle(self) -> u64 {
        self.0
    }
}

/// Memory that another library allocated, to be wrapped as a [`View`](crate::View) by
/// [`Engine::wrap`](crate::Engine::wrap): nothing is copied.
pub struct Foreign {
    pub(crate) device: DeviceKind,
    pub(crate) address: Address,
    pub(crate) bytes: usize,
    pub(crate) writable: bool,
    pub(crate) stream: Option<ForeignStream>,
    pub(crate) waits: bool,
    /// Keeps the memory alive; its `Drop` is the deleter.
    _owner: Box<dyn Any + Send + Sync>,
}

impl Foreign {
    /// `bytes` bytes of `device`'s memory from `address` on. `owner` keeps them alive, and is dropped, on any thread, when no
    /// view of them is left.
    ///
    /// ```
    /// use landfall::{DType, DeviceKind, Engine, Foreign, Layout, ops};
    /// let engine = Engine::cpu()?;
    /// let owner: Vec<f32> = vec![1.0, 2.0, 3.0];
    /// let address = owner.as_ptr() as u64;
    /// // SAFETY: a vector does not move its elements while it is owned, and nobody else has this one.
    /// let memory = unsafe { Foreign::new(DeviceKind::Cpu, address, 12, owner) };
    /// let x = engine.wrap(memory, DType::F32, Layout::contiguous([3].into()))?;
    /// engine.call_views(&ops::Neg, &[&x], &[&x])?;
    /// assert_eq!(x.address(), address);
    /// assert_eq!(x.read::<f32>()?, [-1.0, -2.0, -3.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Safety
    /// The bytes are memory of that device, initialised on the CPU, until `owner` is dropped. While a call reads them nobody
    /// else writes them, and while one writes them nobody else reads or writes them: on a GPU in the order of the streams
    /// (see [`Foreign::on_stream`]).
    #[must_use]
    pub unsafe fn new(device: DeviceKind, address: u64, bytes: usize, owner: impl Any + Send + Sync) -> Self {
        Self {
            device,
            address: Address(address),
            bytes,
            writable: true,
            stream: None,
            waits: true,
            _owner: Box::new(owner),
        }
    }

    /// The same memory, which calls must not write.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { writable: false, ..self }
    }

    /// The same memory, for whose owner no call waits: an index out of range that a GPU finds while it writes there is reported by
    /// [`Engine::synchronize`](crate::Engine::synchronize), not by the call. On the CPU, where calls are complete, nothing changes.
    #[must_use]
    pub fn unwaited(self) -> Self {
        Self { waits: false, ..self }
    }

    /// The same memory, whose owner uses and reuses it in the order of this CUDA stream: the engine's stream waits for what
    /// was issued there before the memory is wrapped, and that stream waits for what the engine issued before the owner is
    /// dropped. Without it the owner is dropped only after the engine has waited for its own stream.
    #[must_use]
    pub fn on_stream(self, stream: ForeignStream) -> Self {
        Self { stream: Some(stream), ..self }
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, address, bytes, writable, stream, waits: _, _owner: _ } = self;
        write!(f, "Foreign {{ {bytes} bytes of {device} at {:#x}", address.0)?;
        if !writable {
            f.write_str(", read-only")?;
        }
        if let Some(stream) = stream {
            write!(f, ", stream {:#x}", stream.0)?;
        }
        f.write_str(" }")
    }
}
