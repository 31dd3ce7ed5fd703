//! The launches of a GPU's kernels as data, which needs no driver: the steps of a launch list with their edges, checked
//! against the plan's, and the list of kernels to compile.

mod dry;
pub(crate) mod edges;
mod listing;
pub(crate) mod outline;
pub(crate) mod parts;

pub use listing::{ListedLaunch, launches, launches_on};
pub(crate) use outline::prove;

use super::Launch;
use crate::contract::Run;
use crate::error::Error;
use crate::kernel::cuda::{Call, Failure, Sink};
use crate::values::{DeviceKind, Operand};

/// Passes a launch of an op to a sink.
pub(super) fn lower(launch: &Launch<'_>, device: DeviceKind, sink: &mut dyn Sink) -> Result<(), Error> {
    let Run::Cuda(run) = launch.kernel.run else {
        let (op, kernel) = (launch.op.name(), launch.kernel.name);
        return Err(Error::Kernel { op, kernel, device, why: "it is a kernel of another device" });
    };
    run(launch.op, &mut Call::new(launch.operands(), sink)).map_err(|failure| match failure {
        Failure::Device(error) => error,
        Failure::Rule(rule) => {
            let specs: Vec<_> = launch.inputs.iter().map(Operand::spec).collect();
            rule.of(launch.op.name(), &specs, Some(device), None).into()
        }
    })
}
