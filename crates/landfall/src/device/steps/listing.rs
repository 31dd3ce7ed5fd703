//! Lists the kernels that an op's calls launch, without a GPU, so that every kernel can be compiled and tested.

use super::dry::{Dry, Notes};
use super::{Launch, lower};
use crate::contract::{Op, Output, check, inferred};
use crate::error::Error;
use crate::kernel::cuda::{CollectiveLaunch, Geometry, KernelLaunch, Module, ProductLaunch};
use crate::values::{ALIGNMENT, Address, DeviceKind, Layout, Operand, Rule, Spec, align};

/// A launch of a kernel, as a call of an op makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedLaunch {
    /// What is compiled.
    pub module: Module,
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its blocks, with the dynamic shared memory of each.
    pub geometry: Geometry,
}

/// Collects launches; runs nothing.
struct Listing<'a> {
    /// The architecture that they are for; none if for all.
    arch: Option<&'a str>,
    launches: Vec<ListedLaunch>,
}

impl Notes for Listing<'_> {
    fn kernel(&mut self, launch: &KernelLaunch<'_>) {
        let (module, geometry) = (launch.module.clone(), launch.geometry);
        let known = |arch| module.architecture().is_none_or(|only| only == arch);
        if self.arch.is_none_or(known) {
            let kernel = module.source().entries[launch.entry].name;
            self.launches.push(ListedLaunch { module, kernel, geometry });
        }
    }

    /// The library's own choice is not taken, so that the op's own kernel is listed too.
    fn product(&mut self, launch: &ProductLaunch) -> bool {
        launch.problem.algorithm > 0
    }

    fn collective(&mut self, _: &CollectiveLaunch) {}

    fn fill(&mut self, _: Address) {}

    fn architecture(&self) -> Option<&str> {
        self.arch
    }
}

/// The kernels that a call of an op on contiguous operands of these specs may launch, each once with its module, in
/// order: those of the op's default first, then those of its variants.
///
/// # Errors
/// The rule that the arguments violate, [`Rule::Unsupported`](crate::values::Rule::Unsupported) if the op has no kernel
/// for them, or the rule that one of its launches violates.
pub fn launches(op: &dyn Op, args: &[Spec]) -> Result<Vec<(Module, &'static str)>, Error> {
    let mut kernels = Vec::new();
    for ListedLaunch { module, kernel, .. } in listed(op, args, None)? {
        if !kernels.iter().any(|(m, k)| *k == kernel && *m == module) {
            kernels.push((module, kernel));
        }
    }
    Ok(kernels)
}

/// The launches of such a call on an architecture such as `sm_120a`, in order: those of the op's default there, then those of the
/// variants that the architecture has.
///
/// ```
/// use landfall::cuda::launches_on;
/// use landfall::{DType, Spec};
/// let x = Spec::new(DType::F32, [4, 8]);
/// let all = launches_on(&landfall::ops::Abs, &[x], "sm_120a")?;
/// assert_eq!(all[0].geometry.shared, 0);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// As [`launches`].
pub fn launches_on(op: &dyn Op, args: &[Spec], arch: &str) -> Result<Vec<ListedLaunch>, Error> {
    listed(op, args, Some(arch))
}

fn listed(op: &dyn Op, args: &[Spec], arch: Option<&str>) -> Result<Vec<ListedLaunch>, Error> {
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
    let mut listing = Dry(Listing { arch, launches: Vec::new() });
    for kernel in check::kernels(op, device, args) {
        let workspace_bytes = (kernel.workspace)(op, args);
        let (inputs, outputs, workspace) = (&inputs, &outputs, Address(1 << 16));
        let launch = Launch { op, kernel, inputs, outputs, workspace, workspace_bytes };
        lower(&launch, device, &mut listing)?;
    }
    Ok(listing.0.launches)
}
