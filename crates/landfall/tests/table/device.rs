//! The devices that properties are checked on.

use crate::case::{Check, ensure};
use crate::gpu::gpu;
use landfall::ops::{Op, Run, table};
use landfall::{DeviceKind, Engine, Error};

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

const CUDA: DeviceKind = DeviceKind::Cuda(0);

/// The support table has no hole: every op has a kernel for a GPU.
#[test]
fn every_op_has_a_cuda_kernel() -> Check {
    let has = |op: &dyn Op| op.kernels(CUDA).iter().any(|k| matches!(k.run, Run::Cuda(_)));
    let holes: Vec<&str> = table().iter().filter(|op| !has(op.as_ref())).map(|op| op.name()).collect();
    ensure!(holes.is_empty(), "without a CUDA kernel: {holes:?}");
    Ok(())
}

/// Checks a property of an op on a GPU.
pub(crate) fn on_cuda(op: &dyn Op, property: fn(On, &dyn Op) -> Check) -> Check {
    if gpu()?.is_some() { property(On::Cuda, op) } else { Ok(()) }
}
