//! Launches that are issued to the device's stream as they come.

use super::driver::Loaded;
use super::faults::Taken;
use super::{
    CollectiveLaunch, Cuda, Issued, Issuing, KernelLaunch, Prepared, ProductLaunch, Seat, Sink,
    TENSOR_MAP_WORDS, Tile, locked, tensor_map,
};
use crate::error::Error;
use crate::values::Address;

/// Issues launches to the stream as they come.
pub(super) struct Eager<'a> {
    device: &'a Cuda,
    /// Number of launches.
    pub(super) launches: usize,
    /// Whether to keep a kernel launch, and the last one.
    keep: bool,
    pub(super) kept: Option<Prepared>,
    /// Where it reports an index out of range, if it checks one.
    pub(super) record: Option<Taken>,
}

impl<'a> Eager<'a> {
    pub(super) fn new(device: &'a Cuda, keep: bool) -> Self {
        Self { device, launches: 0, keep, kept: None, record: None }
    }
}

impl Sink for Eager<'_> {
    fn kernel(&mut self, op: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        let (device, issued) = (self.device, Some(launch.issued(op)));
        // In a capture, edges would express an early launch.
        let early = device.context.waits() && !device.stream.is_captured();
        self.launches += 1;
        if self.keep {
            self.kept = Some(device.prepare(op, &launch)?);
        }
        // Repeated calls without a check do not come here: they are small, and bound by host time (decision 0018).
        let issue = |loaded: &Loaded| {
            let (function, params) = (loaded.functions[launch.entry], &mut launch.values.pointers());
            match early {
                true => device.stream.launch_early(function, &launch.geometry, params),
                false => device.stream.launch(function, &launch.geometry, params),
            }
        };
        // Held during the driver call, which is serial too.
        let mut issuing = locked(&device.issuing);
        let Issuing { modules, last, launches, .. } = &mut *issuing;
        if let Some(loaded) = modules.get(launch.module) {
            (*last, *launches) = (issued, *launches + 1);
            issue(loaded)?;
        } else {
            drop(issuing);
            let loaded = device.loaded(launch.module)?;
            device.counted(1, issued);
            issue(&loaded)?;
        }
        if device.sync_each_launch { device.stream.synchronize() } else { Ok(()) }
    }

    fn product(&mut self, op: &'static str, launch: &ProductLaunch) -> Result<bool, Error> {
        let device = self.device;
        let Some(prepared) = device.prepare_product(op, launch)? else { return Ok(false) };
        self.launches += 1;
        device.counted(1, Some(prepared.issued));
        prepared.product.issue(&prepared.addresses, &device.stream)?;
        if device.sync_each_launch {
            device.stream.synchronize()?;
        }
        Ok(true)
    }

    fn fill(&mut self, _: &'static str, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        self.launches += 1;
        self.device.counted(1, None);
        self.device.stream.fill(to, bytes, value)
    }

    fn seat(&self) -> Seat {
        self.device.seat()
    }

    fn collective(&mut self, op: &'static str, launch: &CollectiveLaunch) -> Result<(), Error> {
        let device = self.device;
        self.launches += 1;
        device.counted(1, Some(Issued { op, what: "NCCL", of: None }));
        let by = device.communicator()?;
        by.issue(launch, &device.stream)?;
        if !device.stream.is_captured() {
            by.issued(&device.stream)?;
        }
        Ok(())
    }

    fn tensor_map(&self, tile: &Tile<'_>) -> Result<[u64; TENSOR_MAP_WORDS], Error> {
        tensor_map::encode(tile)
    }

    fn faults(&mut self, _: &'static str) -> Result<[Address; 2], Error> {
        let faults = &self.device.faults;
        let taken = match self.record {
            Some(taken) => taken,
            None if self.device.stream.is_captured() => faults.take_captured(),
            None => faults.take(&self.device.stream)?,
        };
        self.record = Some(taken);
        Ok(faults.addresses(taken))
    }

    fn architecture(&self) -> Option<&str> {
        Some(self.device.compiler.arch())
    }
}
