//! Lists the kernels that an op's calls launch, without a GPU, so that every kernel can be compiled and tested.

use super::dry::{Dry, Notes};
use super::{Launch, lower};
use crate::contract::{Op, Output, check, inferred};
use crate::error::Error;
use crate::kernel::cuda::{CollectiveLaunch, KernelLaunch, Module, ProductLaunch};
use crate::values::{ALIGNMENT, Address, DeviceKind, Layout, Operand, Rule, Spec, align};

/// Collects kernels; runs nothing.
#[derive(Default)]
struct Listing(Vec<(Module, &'static str)>);

impl Notes for Listing {
    fn kernel(&mut self, launch: &KernelLaunch<'_>) {
        let kernel = (launch.module.clone(), launch.module.source().entries[launch.entry].name);
        if !self.0.contains(&kernel) {
            self.0.push(kernel);
        }
    }

    /// The library's own choice is not taken, so that the op's own kernel is listed too.
    fn product(&mut self, launch: &ProductLaunch) -> bool {
        launch.problem.algorithm > 0
    }

    fn collective(&mut self, _: &CollectiveLaunch) {}

    fn fill(&mut self, _: Address) {}
}

/// The kernels that a call of an op on contiguous operands of these specs may launch, each once with its module, in
/// order: those of the op's default first, then those of its variants.
///
/// # Errors
/// The rule that the arguments violate, [`Rule::Unsupported`](crate::values::Rule::Unsupported) if the op has no kernel
/// for them, or the rule that one of its launches violates.
pub fn launches(op: &dyn Op, args: &[Spec]) -> Result<Vec<(Module, &'static str)>, Error> {
    let device = DeviceKind::Cuda(0);
    let fail = |rule: Rule| Error::from(rule.of(op.name(), args, Some(device), None));
    let outputs = inferred(op, args).map_err(fail)?;
    check::kernel(op, device, args).map_err(fail)?;
    // Addresses that are never dereferenced; an update has the address of its input.
    let mut next = 1 << 20;
    let mut place = |spec: Spec| {
        let base = Address(next);
        next += align(spec.bytes().max(ALIGNMENT)) as u64;
        Operand { base, dtype: spec.dtype, layout: Layout::contiguous(spec.shape) }
    };
    let inputs: Vec<Operand> = args.iter().map(|&s| place(s)).collect();
    let outputs: Vec<Operand> = (outputs.iter().enumerate())
        .map(|(j, &spec)| {
            let updated = op.outputs().get(j).and_then(Output::updated).and_then(|i| inputs.get(i));
            updated.copied().unwrap_or_else(|| place(spec))
        })
        .collect();
    let mut listing = Dry(Listing::default());
    for kernel in check::kernels(op, device, args) {
        let workspace_bytes = (kernel.workspace)(op, args);
        let (inputs, outputs, workspace) = (&inputs, &outputs, Address(1 << 16));
        let launch = Launch { op, kernel, inputs, outputs, workspace, workspace_bytes };
        lower(&launch, device, &mut listing)?;
    }
    Ok(listing.0.0)
}
