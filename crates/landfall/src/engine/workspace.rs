//! The workspace of eager calls: memory that a kernel needs beside its operands.

use super::{Buffer, Engine};
use crate::contract::{Op, check, inferred};
use crate::device::Foreign;
use crate::error::Error;
use crate::values::{Rule, Spec};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

impl Engine {
    /// Grows the workspace of eager calls to at least `bytes` bytes. It grows here and nowhere else.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn reserve(&self, bytes: usize) -> Result<(), Error> {
        let mut slot = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = slot.as_ref().filter(|b| b.is_foreign() && b.bytes() < bytes) {
            let why = format!("the workspace was given, {} bytes; this call needs {bytes}", given.bytes());
            return Err(Error::Foreign { why });
        }
        if slot.as_ref().is_none_or(|b| b.bytes() < bytes) {
            *slot = Some(Buffer::new(&self.device, bytes)?);
        }
        Ok(())
    }

    /// The same engine, whose calls by this handle have their workspace in this memory and nowhere else: it is not grown.
    ///
    /// ```
    /// use landfall::{DeviceKind, Engine, Foreign, ops};
    /// let engine = Engine::cpu()?;
    /// let (x, w) = (engine.tensor([8, 8], &[1.0f32; 64])?, engine.tensor([8, 8], &[2.0f32; 64])?);
    /// let op = ops::MatMul::default();
    /// let bytes = engine.workspace(&op, &[x.spec(), w.spec()])?;
    /// let memory = vec![0u64; bytes.div_ceil(8)];
    /// let address = memory.as_ptr() as u64;
    /// // SAFETY: a vector does not move its elements while it is owned, and nobody else has this one.
    /// let workspace = unsafe { Foreign::new(DeviceKind::Cpu, address, bytes, memory) };
    /// let mut y = engine.empty(landfall::DType::F32, [8, 8])?;
    /// engine.with_workspace(workspace)?.call(&op, &[x.view(), w.view()], &mut [y.view_mut()])?;
    /// assert_eq!(y.read::<f32>()?[0], 16.0);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Foreign`] if the memory is of another device; a device fault.
    pub fn with_workspace(&self, memory: Foreign) -> Result<Self, Error> {
        if memory.device != self.device() {
            let why = format!("{memory:?}, this engine is on {}; use memory of its device", self.device());
            return Err(Error::Foreign { why });
        }
        let workspace = Arc::new(Mutex::new(Some(Buffer::foreign(&self.device, memory)?)));
        Ok(Self { workspace, ..self.clone() })
    }

    /// Workspace bytes that this call needs.
    ///
    /// # Errors
    /// The rule that the arguments violate.
    #[track_caller]
    pub fn workspace(&self, op: &dyn Op, args: &[Spec]) -> Result<usize, Error> {
        let at = Location::caller();
        let bytes = || {
            inferred(op, args)?;
            Ok((check::kernel(op, self.device(), args)?.workspace)(op, args))
        };
        bytes().map_err(|r: Rule| r.of(op.name(), args, Some(self.device()), Some(at)).into())
    }
}
