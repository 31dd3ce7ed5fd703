//! The CPU device: kernels are functions over typed views, run on the engine's threads.

mod hardware;

use super::faults::SharedMarks;
use super::{Counters, Counting, Device, Foreign, Hardware, Launch, LaunchList, Place, Recording};
use crate::contract::Run;
use crate::error::Error;
use crate::kernel::cpu::{Call, isa, memory};
use crate::ranks::World;
use crate::values::{Address, DeviceKind, Operand};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// The CPU, with its own thread pool.
#[derive(Debug)]
pub(crate) struct Cpu {
    pool: Option<rayon::ThreadPool>,
    counting: Counting,
    marks: SharedMarks,
    world: Place,
}

impl Cpu {
    /// A device of `threads` threads; with one thread, work runs on the caller's.
    pub(crate) fn new(threads: usize) -> Result<Arc<Self>, Error> {
        let pool = match threads {
            0 | 1 => None,
            n => {
                Some(rayon::ThreadPoolBuilder::new().num_threads(n).build().map_err(|e| Error::NoDevice {
                    name: "cpu".to_owned(),
                    why: format!("{n} threads could not be started: {e}"),
                })?)
            }
        };
        Ok(Arc::new(Self {
            pool,
            counting: Counting::default(),
            marks: SharedMarks::default(),
            world: Place::default(),
        }))
    }
}

impl Device for Cpu {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn allocate(&self, bytes: usize) -> Result<Address, Error> {
        let in_use = self.counting.in_use.load(Relaxed);
        let none = Error::Memory { bytes, device: DeviceKind::Cpu, in_use: in_use as usize };
        let address = memory::allocate(bytes).ok_or(none)?;
        self.counting.allocated(bytes);
        Ok(address)
    }

    fn free(&self, address: Address, bytes: usize) {
        self.counting.freed(bytes);
        self.marks.overwritten(&(address.0..address.0 + bytes as u64));
        memory::free(address, bytes);
    }

    fn adopt(&self, _: &Foreign) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self, foreign: &Foreign) {
        self.marks.overwritten(&(foreign.address.0..foreign.address.0 + foreign.bytes as u64));
    }

    fn upload(&self, to: Address, data: &[u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        memory::bytes_mut(to, data.len()).copy_from_slice(data);
        self.marks.overwritten(&(to.0..to.0 + data.len() as u64));
        Ok(())
    }

    fn download(&self, from: &Operand, data: &mut [u8]) -> Result<(), Error> {
        self.counting.transfers.fetch_add(1, Relaxed);
        self.marks.check(from)?;
        data.copy_from_slice(memory::bytes(Address(from.span().0), data.len()));
        Ok(())
    }

    fn sound(&self, of: &Operand) -> Result<(), Error> {
        self.marks.check(of)
    }

    fn fill(&self, to: Address, bytes: usize, value: u8) -> Result<(), Error> {
        memory::bytes_mut(to, bytes).fill(value);
        self.marks.overwritten(&(to.0..to.0 + bytes as u64));
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        self.counting.launches.fetch_add(1, Relaxed);
        let Run::Cpu(kernel) = launch.kernel.run else {
            return Err(Error::Kernel {
                op: launch.op.name(),
                kernel: launch.kernel.name,
                device: DeviceKind::Cpu,
                why: "it is a kernel of another device",
            });
        };
        // Without elements to write there is nothing to walk over, however long the other axes; ranks meet all the same.
        if launch.outputs.iter().all(|o| o.layout().shape().elements() == 0) && !launch.op.collective() {
            return Ok(());
        }
        let fault = Mutex::new(None);
        let call = Call::new(launch.operands(), self.pool.as_ref(), &fault, self.world.get());
        kernel(launch.op, &call)
            .map_err(|rule| rule.of(launch.op.name(), &call.specs(), Some(DeviceKind::Cpu), None))?;
        let fault = fault.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.marks.launched(fault, launch.inputs, launch.outputs);
        Ok(())
    }

    fn record(self: Arc<Self>, list: LaunchList) -> Result<Box<dyn Recording>, Error> {
        Ok(Box::new(Replay { device: self, list }))
    }

    fn join(&self, world: World) -> Result<(), Error> {
        self.world.join(world)
    }

    fn world(&self) -> &World {
        self.world.get()
    }

    fn hardware(&self) -> Result<Hardware, Error> {
        let threads = self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads);
        let name = format!("{}, {}", hardware::processor(), isa::Isa::detect().name());
        Ok(Hardware { name, driver: String::new(), threads, cache: hardware::cache() })
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.counting.synchronizations.fetch_add(1, Relaxed);
        self.marks.report()
    }

    fn counters(&self) -> Counters {
        self.counting.read()
    }

    fn enter(&self, work: &mut (dyn FnMut() + Send)) {
        match &self.pool {
            Some(pool) if pool.current_thread_index().is_none() => pool.install(work),
            _ => work(),
        }
    }
}

/// A launch list with raw addresses.
#[derive(Debug)]
struct Replay {
    device: Arc<Cpu>,
    list: LaunchList,
}

impl Recording for Replay {
    fn replay(&self) -> Result<(), Error> {
        self.device.counting.replays.fetch_add(1, Relaxed);
        let mut result = Ok(());
        self.device.enter(&mut || {
            result = self.list.sequence().try_for_each(|l| self.device.launch(&l.as_launch()));
        });
        result
    }
}
