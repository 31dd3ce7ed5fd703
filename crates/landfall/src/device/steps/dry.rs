//! Launches without a GPU: what a driver would be asked for is made up.

use crate::error::Error;
use crate::kernel::cuda::{CollectiveLaunch, KernelLaunch, ProductLaunch, Sink, TENSOR_MAP_WORDS, Tile};
use crate::values::Address;

/// Takes note of launches; runs nothing.
pub(super) trait Notes {
    /// A launch of a kernel.
    fn kernel(&mut self, launch: &KernelLaunch<'_>);
    /// A product; whether the matrix library is taken to have an algorithm for it.
    fn product(&mut self, launch: &ProductLaunch) -> bool;
    /// A collective.
    fn collective(&mut self, launch: &CollectiveLaunch);
    /// A fill of the memory from `to` on.
    fn fill(&mut self, to: Address);
    /// The architecture that the launches are for; none if for all.
    fn architecture(&self) -> Option<&str> {
        None
    }
}

/// Notes as a place where launches go.
#[derive(Default)]
pub(super) struct Dry<N>(pub(super) N);

impl<N: Notes> Sink for Dry<N> {
    fn kernel(&mut self, _: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        self.0.kernel(&launch);
        Ok(())
    }

    fn product(&mut self, _: &'static str, launch: &ProductLaunch) -> Result<bool, Error> {
        Ok(self.0.product(launch))
    }

    fn fill(&mut self, _: &'static str, to: Address, _: usize, _: u8) -> Result<(), Error> {
        self.0.fill(to);
        Ok(())
    }

    fn collective(&mut self, _: &'static str, launch: &CollectiveLaunch) -> Result<(), Error> {
        self.0.collective(launch);
        Ok(())
    }

    fn tensor_map(&self, _: &Tile<'_>) -> Result<[u64; TENSOR_MAP_WORDS], Error> {
        Ok([0; TENSOR_MAP_WORDS])
    }

    fn faults(&mut self, _: &'static str) -> Result<[Address; 2], Error> {
        Ok([Address(0); 2])
    }

    fn architecture(&self) -> Option<&str> {
        self.0.architecture()
    }
}
