//! Loads the code of launch lists before they are recorded: modules that are missing are compiled on all cores at
//! once. One after the other, the hundred modules of a training step take half a minute.

use super::{Cuda, Eager, KernelLaunch, ProductLaunch, Sink, locked};
use crate::device::steps::lower;
use crate::device::{Device, LaunchList};
use crate::error::Error;
use crate::kernel::cuda::segment::{GROUP, SEGMENT};
use crate::kernel::cuda::{CollectiveLaunch, Module, Seat, TENSOR_MAP_WORDS, Tile};
use crate::values::Address;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Stack of a thread that compiles: the compiler gets what it has on the main thread.
const STACK: usize = 8 << 20;

/// Loads every module of these lists. The context must be current.
pub(super) fn preload(device: &Cuda, lists: &[&LaunchList]) -> Result<(), Error> {
    let mut needed = Needed { device, missing: FxHashSet::default() };
    for list in lists {
        let member = |n: usize| list.segments.iter().any(|s| s.launches.contains(&n));
        for (_, launch) in list.launches.iter().enumerate().filter(|(n, _)| !member(*n)) {
            lower(&launch.as_launch(), device.kind(), &mut needed)?;
        }
        for joined in list.segments.iter().filter_map(|s| s.of(list, device.kind()).ok()) {
            needed.kernel(SEGMENT, joined.launch())?;
        }
    }
    load(device, needed.missing.into_iter().collect())
}

/// Loads these modules, those that are missing on all cores at once. The context must be current.
pub(super) fn load(device: &Cuda, mut modules: Vec<Module>) -> Result<(), Error> {
    // The longest first: none of them is then alone at the end.
    modules.sort_by_cached_key(|module| Reverse(module.text().len()));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let work = || {
        let loaded = device.enter().and_then(|()| {
            while let Some(module) = modules.get(next.fetch_add(1, Relaxed)) {
                match device.loaded(module) {
                    // What joined launches do alone is found out where they are captured.
                    Err(Error::Compile { .. }) if [SEGMENT, GROUP].contains(&module.source().name) => {}
                    loaded => drop(loaded?),
                }
            }
            Ok(())
        });
        if let Err(error) = loaded {
            // The others stop after the module at hand.
            next.store(modules.len(), Relaxed);
            locked(&failed).get_or_insert(error);
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 1..cores.min(modules.len()) {
            // Without this thread, the others take its share.
            _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Collects the modules of launches that are not loaded yet. Nothing is launched.
struct Needed<'a> {
    device: &'a Cuda,
    missing: FxHashSet<Module>,
}

impl Sink for Needed<'_> {
    fn kernel(&mut self, _: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        if !self.device.has(launch.module) {
            self.missing.insert(launch.module.clone());
        }
        Ok(())
    }

    fn product(&mut self, op: &'static str, launch: &ProductLaunch) -> Result<bool, Error> {
        Ok(self.device.prepare_product(op, launch)?.is_some())
    }

    fn fill(&mut self, _: &'static str, _: Address, _: usize, _: u8) -> Result<(), Error> {
        Ok(())
    }

    fn seat(&self) -> Seat {
        self.device.seat()
    }

    fn collective(&mut self, _: &'static str, _: &CollectiveLaunch) -> Result<(), Error> {
        Ok(())
    }

    fn tensor_map(&self, tile: &Tile<'_>) -> Result<[u64; TENSOR_MAP_WORDS], Error> {
        Eager::new(self.device, false).tensor_map(tile)
    }

    fn faults(&mut self, _: &'static str) -> Result<[Address; 2], Error> {
        // Modules do not depend on where faults are reported.
        Ok([Address(0); 2])
    }

    fn architecture(&self) -> Option<&str> {
        Some(self.device.compiler.arch())
    }
}
