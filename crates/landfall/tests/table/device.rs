//! The devices that properties are checked on.

use crate::case::{Case, Check, cases, ensure, few};
use crate::gpu::gpu;
use landfall::cuda::{Module, launches};
use landfall::ops::{Op, table};
use landfall::{Engine, Error};
use std::collections::HashSet;

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

/// The reduced set of cases leaves no kernel out, and is reduced.
#[test]
fn few_cases_launch_every_kernel() -> Check {
    let (mut of_all, mut of_few) = (0, 0);
    for op in table() {
        let all = cases(op.as_ref())?;
        let kept = few(all.clone())?;
        let kernels = |cases: &[Case]| -> Check<HashSet<(Module, &'static str)>> {
            let found = cases.iter().map(|c| launches(c.op.as_ref(), &c.specs()));
            Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        };
        let missed: Vec<String> = kernels(&all)?
            .difference(&kernels(&kept)?)
            .map(|(module, kernel)| format!("{kernel} of {}", module.label()))
            .collect();
        ensure!(missed.is_empty(), "the few cases of {} do not launch {missed:?}", op.name());
        (of_all, of_few) = (of_all + all.len(), of_few + kept.len());
    }
    println!("{of_few} of {of_all} cases launch every kernel");
    ensure!(of_few * 2 < of_all, "{of_few} of {of_all} cases are not few");
    Ok(())
}

/// Checks a property of an op on a GPU.
pub(crate) fn on_cuda(op: &dyn Op, property: fn(On, &dyn Op) -> Check) -> Check {
    if gpu()?.is_some() { property(On::Cuda, op) } else { Ok(()) }
}
