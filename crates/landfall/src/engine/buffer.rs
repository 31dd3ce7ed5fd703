//! Buffers: memory of a device with one owner, given back when it drops.

use crate::device::{Device, Foreign};
use crate::error::Error;
use crate::values::Address;
use std::sync::Arc;

/// A block of device memory: allocated for it, and freed in stream order when it drops; or another library's, which is
/// released then. Its address is constant for its life.
#[derive(Debug)]
pub(crate) struct Buffer {
    device: Arc<dyn Device>,
    address: Address,
    bytes: usize,
    foreign: Option<Foreign>,
}

impl Buffer {
    pub(crate) fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Self, Error> {
        let address = device.allocate(bytes)?;
        Ok(Self { address, device: Arc::clone(device), bytes, foreign: None })
    }

    /// Memory of another library.
    pub(super) fn foreign(device: &Arc<dyn Device>, foreign: Foreign) -> Result<Self, Error> {
        device.adopt(&foreign)?;
        let (address, bytes) = (foreign.address, foreign.bytes);
        Ok(Self { device: Arc::clone(device), address, bytes, foreign: Some(foreign) })
    }

    /// Whether another library allocated it.
    pub(super) fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match &self.foreign {
            Some(foreign) => self.device.release(foreign),
            None => self.device.free(self.address, self.bytes),
        }
    }
}
