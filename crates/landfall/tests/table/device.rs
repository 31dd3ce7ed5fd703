//! The devices that properties are checked on.

use crate::case::{Check, Failure, cases, ensure};
use crate::gpu::gpu;
use crate::launch::Operands;
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

/// Ops without a CUDA kernel, by name: what is left to write. An op that gets one leaves the list.
const HOLES: &[&str] = &["batch_norm", "batch_norm_grad", "layer_norm", "layer_norm_grad"];

const CUDA: DeviceKind = DeviceKind::Cuda(0);

fn has_kernel(op: &dyn Op) -> bool {
    op.kernels(CUDA).iter().any(|k| matches!(k.run, Run::Cuda(_)))
}

/// The list of holes is what the op table says, and it is sorted.
#[test]
fn holes_are_listed() -> Check {
    let found: Vec<&str> = table().iter().filter(|op| !has_kernel(op.as_ref())).map(|op| op.name()).collect();
    let mut sorted = found.clone();
    sorted.sort_unstable();
    ensure!(sorted == HOLES, "the ops without a CUDA kernel are {sorted:?}, listed are {HOLES:?}");
    Ok(())
}

/// Checks a property of an op on a GPU; of an op in the list of holes, that its calls are refused.
pub(crate) fn on_cuda(op: &dyn Op, property: fn(On, &dyn Op) -> Check) -> Check {
    let Some(engine) = gpu()? else { return Ok(()) };
    if HOLES.contains(&op.name()) {
        println!("hole: {} has no CUDA kernel", op.name());
        return refused(&engine, op);
    }
    property(On::Cuda, op).or_else(|Failure(why)| {
        // A program of several ops, one of which is a hole.
        let hole = HOLES.iter().find(|h| why.contains(&format!("{h}(")) && why.contains("no kernel of cuda"));
        match hole {
            Some(hole) => {
                println!("hole: {} could not be checked with {hole}, which has no CUDA kernel", op.name());
                Ok(())
            }
            None => Err(Failure(why)),
        }
    })
}

/// A call of an op without a kernel is an error that says so; nothing runs elsewhere.
fn refused(engine: &Engine, op: &dyn Op) -> Check {
    let Some(case) = cases(op)?.into_iter().next() else { return Ok(()) };
    let told = Operands::whole(engine, &case)?.call(engine, &case).err().map(|e| e.to_string());
    let said = told.as_ref().is_some_and(|t| t.contains("no kernel of cuda:0 takes"));
    ensure!(said, "a call without a kernel gave {told:?}");
    Ok(())
}
