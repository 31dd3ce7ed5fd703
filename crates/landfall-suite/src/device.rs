//! The devices that properties are checked on.

pub(crate) mod gpu;
pub(crate) mod heap;

use self::gpu::gpu;
use crate::case::Check;
use landfall::ops::Tested;
use landfall::{Engine, Error};

/// A device of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Cpu,
    Cuda,
}

impl On {
    /// The device's engine: of one thread on the processor, so that tests do not fight for cores; shared on a GPU.
    pub(crate) fn engine(self) -> Result<Engine, Error> {
        match self {
            Self::Cpu => Engine::cpu_with_threads(1),
            Self::Cuda => match gpu()? {
                Some(engine) => Ok(engine),
                None => Engine::cuda(0),
            },
        }
    }
}

/// Checks a property of an op on a GPU.
pub(crate) fn on_cuda(op: &dyn Tested, property: fn(On, &dyn Tested) -> Check) -> Check {
    if gpu()?.is_some() { property(On::Cuda, op) } else { Ok(()) }
}
