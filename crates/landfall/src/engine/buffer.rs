//! Buffers: device memory with one owner, freed when it drops.

use crate::device::Device;
use crate::error::Error;
use crate::values::Address;
use std::sync::Arc;

/// A block of device memory. Its address is constant for its life; it is freed when it drops, in stream order.
#[derive(Debug)]
pub(crate) struct Buffer {
    device: Arc<dyn Device>,
    address: Address,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Self, Error> {
        Ok(Self { address: device.allocate(bytes)?, device: Arc::clone(device), bytes })
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
        self.device.free(self.address, self.bytes);
    }
}
