//! The definition of an op: everything that the engine needs to compute it.

use super::{AttributeValue, Attributes, Graph, Value};
use crate::error::Error;
use crate::kernel::{cpu, cuda};
use crate::values::{DType, DeviceKind, Expression, HostTensor, Reg, Rule, Spec};
use arrayvec::ArrayVec;
use std::any::Any;
use std::fmt::{Debug, Write};

/// The maximum number of outputs of an op.
pub const MAX_OUTPUTS: usize = 4;

/// An op: everything that the engine needs to run, differentiate, plan and tune it. Its tests are in
/// [`Tested`](super::Tested).
///
/// The implementor's fields are the op's attributes, declared by [`op_attributes!`](crate::op_attributes). `Debug` must
/// print all fields, because a graph merges ops of equal text with equal arguments.
pub trait Op: Any + Attributes + Debug + Send + Sync {
    /// Name in graphs, errors, tests and docs.
    fn name(&self) -> &'static str;
    /// Dtypes and shapes of the outputs for these arguments. Pure.
    ///
    /// # Errors
    /// The rule that the arguments violate.
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule>;
    /// The alias rule of each output.
    fn alias(&self) -> &[Alias];
    /// The coverage of each output.
    fn coverage(&self) -> &[Coverage];
    /// How the op is defined.
    fn body(&self) -> Body;
    /// The gradient rule.
    fn vjp(&self) -> Grad;
    /// Kernels in order of preference. Kernels of other devices than `device` are ignored. Of those that accept a
    /// call's operands the first is the op's default; the others are its variants, which run only if they are pinned
    /// ([`tune`](crate::tune)).
    fn kernels(&self, device: DeviceKind) -> &'static [Kernel];
    /// Bytes moved and floating-point operations for these arguments.
    fn cost(&self, args: &[Spec]) -> Cost;
    /// The accumulation dtype of sums over elements of `dtype`; it bounds the difference between two kernels.
    fn accumulate(&self, dtype: DType) -> DType {
        dtype.accumulate()
    }
    /// How mixed precision treats the op.
    fn mixing(&self) -> Mixing {
        match self.body() {
            Body::Pointwise(_) => Mixing::BetweenProducts { operands: usize::MAX },
            Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => Mixing::Full,
        }
    }
    /// Valid indices for the arguments of a tuning trial. `None`, or a shorter list, for arguments that may hold any
    /// numbers, which is allowed for floats only: an op with index arguments and no valid indices is not tuned.
    fn trial(&self, _args: &[Spec], _spread: Spread) -> Vec<Option<HostTensor>> {
        Vec::new()
    }
}

/// How [`mixed_precision`](crate::mixed_precision) treats an op with f32 arguments. "The compute dtype" is bf16, f16 or
/// f32. Arguments from number `operands` on stay in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixing {
    /// Runs in the compute dtype, on tensor cores, with sums in f32.
    Product {
        /// The number of arguments that are cast.
        operands: usize,
    },
    /// Runs in the compute dtype if an argument comes from a matmul or attention and the result leads to one, else in
    /// f32.
    BetweenProducts {
        /// The number of arguments that are cast.
        operands: usize,
    },
    /// Moves elements without computing: runs in the compute dtype if its argument is already in it or fewer bytes
    /// move.
    Movement,
    /// Runs in f32.
    Full,
}

/// The distribution of a trial's indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Uniform.
    Uniform,
    /// Zipf: the index of rank r has a probability proportional to 1 / r.
    Zipf,
}

impl Spread {
    /// Splits `count` into `of` parts by this distribution.
    pub(crate) fn parts(self, count: usize, of: usize) -> Vec<usize> {
        let weight = |r: usize| match self {
            Self::Uniform => 1.0,
            Self::Zipf => 1.0 / (r + 1) as f64,
        };
        let whole: f64 = (0..of).map(weight).sum();
        let (mut seen, mut done) = (0.0, 0);
        let part = |r: usize| {
            seen += weight(r);
            // Rounds prefix sums, so that the parts add up to `count`.
            let upto = if r + 1 == of { count } else { (count as f64 * seen / whole) as usize };
            upto.min(count) - std::mem::replace(&mut done, upto.min(count))
        };
        (0..of).map(part).collect()
    }
}

/// Name and attributes of an op as one text, its key in plans and caches.
#[must_use]
pub fn text(op: &dyn Op) -> String {
    let mut text = op.name().to_owned();
    for (index, declared) in op.declared().iter().enumerate() {
        let before = if index == 0 { "(" } else { ", " };
        let value = op.attribute(index).unwrap_or(AttributeValue::None);
        // Formatting into a string cannot fail.
        _ = write!(text, "{before}{}={value}", declared.name);
    }
    if !op.declared().is_empty() {
        text.push(')');
    }
    text
}

/// Downcasts a trait object to the concrete op, for kernels and rules that read its attributes.
///
/// # Errors
/// [`Rule::Attribute`] if the object is another op, which only a wrong kernel table can cause.
pub fn attributes<T: Op>(op: &dyn Op) -> Result<&T, Rule> {
    (op as &dyn Any).downcast_ref::<T>().ok_or(Rule::Attribute {
        name: "op",
        value: 0.0,
        expected: "the kernel's own op",
    })
}

/// The alias rule of an output. Any aliasing that is not listed is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alias {
    /// Aliases no input.
    Disjoint,
    /// Aliases exactly one of these inputs, element for element, or none.
    InPlace(&'static [usize]),
    /// In-place update: the output *is* this input.
    Must(usize),
    /// A packed buffer: it holds the inputs in order, each starting at the next multiple of this many elements. Each
    /// input is either that part of the output already, or disjoint from it.
    Parts(usize),
}

/// Offsets, in elements, of the parts of a packed buffer that are aligned to `align` elements.
pub(crate) fn part_offsets(
    args: impl IntoIterator<Item = Spec>,
    align: usize,
) -> impl Iterator<Item = usize> {
    args.into_iter().scan(0usize, move |at, spec| {
        let start = at.checked_next_multiple_of(align.max(1))?;
        *at = start.checked_add(spec.shape.elements())?;
        Some(start)
    })
}

/// How much of an output a kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every element.
    Full,
    /// Every element: the op zeroes the elements without a result.
    Zeroed,
    /// Some elements; the others keep the contents of the `Must` input.
    Accumulates,
}

/// Expresses a fused op in other ops: its results for these arguments.
pub type FusedBody = fn(&dyn Op, &Graph, &[Value]) -> Result<Vec<Value>, Error>;

/// Cotangents of the arguments; `None` for an argument without one.
pub type GradRule = fn(&dyn Op, &Vjp<'_>) -> Result<Vec<Option<Value>>, Error>;

/// How an op is defined.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// One scalar expression per element, in steps; the last step is the result. Kernels are generated from it.
    Pointwise(fn(&dyn Op, &mut Expression) -> Reg),
    /// A class that the engine knows.
    Primitive(&'static str),
    /// Composed of other ops: fallback, default gradient and second reference.
    Fused(FusedBody),
    /// Not composable from other ops, for this reason.
    Opaque(&'static str),
}

/// Gradient of an op.
#[derive(Debug, Clone, Copy)]
pub enum Grad {
    /// Hand-written: one cotangent per argument, `None` for an argument without one.
    Rule(GradRule),
    /// Derived from [`Body::Fused`].
    FromBody,
    /// Not differentiable, for this reason.
    None(&'static str),
}

/// The arguments of a gradient rule.
#[derive(Debug, Clone, Copy)]
pub struct Vjp<'a> {
    /// The graph to append to.
    pub graph: &'a Graph,
    /// Arguments of the call.
    pub inputs: &'a [Value],
    /// Results of the call.
    pub outputs: &'a [Value],
    /// Cotangent of each result; `None` if nothing depends on it.
    pub cotangents: &'a [Option<Value>],
    /// Whether each argument needs a cotangent.
    pub needs: &'a [bool],
}

/// Bytes moved and floating-point operations of a call, for throughput figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Bytes read and written, each counted once.
    pub bytes: usize,
    /// Floating-point operations.
    pub flops: usize,
}

impl Cost {
    /// The cost of reading the arguments and writing the outputs once, with `flops` operations.
    #[must_use]
    pub fn of(args: &[Spec], outputs: &[Spec], flops: usize) -> Self {
        Self { bytes: args.iter().chain(outputs).map(Spec::bytes).fold(0, usize::saturating_add), flops }
    }
}

/// A kernel of an op on a device. An instruction runs one kernel, and the tuner chooses between kernels, so each
/// variant is a kernel with a unique name.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Name in plans, records and errors.
    pub name: &'static str,
    /// Whether it accepts these operands (layouts and dtypes; shapes are already inferred).
    pub accepts: fn(&dyn Op, &[Spec]) -> bool,
    /// Bytes of workspace.
    pub workspace: fn(&dyn Op, &[Spec]) -> usize,
    /// The code.
    pub run: Run,
}

/// The code of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// A function over views, run on the calling thread and the engine's thread pool.
    Cpu(fn(&dyn Op, &cpu::Call<'_>) -> Result<(), Rule>),
    /// A function that turns operands into GPU kernel launches. The launches depend on dtypes, layouts and addresses
    /// only.
    Cuda(fn(&dyn Op, &mut cuda::Call<'_>) -> Result<(), cuda::Failure>),
}

impl Run {
    /// Whether it runs on a device of this kind. The null device takes the CPU's kernels, so that its plans equal the
    /// CPU's.
    #[must_use]
    pub const fn on(&self, device: DeviceKind) -> bool {
        match self {
            Self::Cpu(_) => matches!(device, DeviceKind::Cpu | DeviceKind::Null),
            Self::Cuda(_) => matches!(device, DeviceKind::Cuda(_)),
        }
    }
}

impl Kernel {
    /// A CPU kernel that accepts all inferred operands and needs no workspace.
    #[must_use]
    pub const fn cpu(name: &'static str, run: fn(&dyn Op, &cpu::Call<'_>) -> Result<(), Rule>) -> Self {
        Self { name, accepts: |_, _| true, workspace: |_, _| 0, run: Run::Cpu(run) }
    }

    /// A CUDA kernel that accepts all inferred operands and needs no workspace.
    #[must_use]
    pub const fn cuda(
        name: &'static str,
        run: fn(&dyn Op, &mut cuda::Call<'_>) -> Result<(), cuda::Failure>,
    ) -> Self {
        Self { name, accepts: |_, _| true, workspace: |_, _| 0, run: Run::Cuda(run) }
    }
}

/// Output specs, stored inline so that inference never allocates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs(ArrayVec<Spec, MAX_OUTPUTS>);

impl Outputs {
    /// One output.
    #[must_use]
    pub fn one(spec: Spec) -> Self {
        let mut outputs = ArrayVec::new();
        outputs.push(spec);
        Self(outputs)
    }
}

impl<const N: usize> From<[Spec; N]> for Outputs {
    fn from(given: [Spec; N]) -> Self {
        const { assert!(N <= MAX_OUTPUTS, "an op has at most 4 outputs") };
        Self(given.into_iter().collect())
    }
}

impl std::ops::Deref for Outputs {
    type Target = [Spec];
    fn deref(&self) -> &[Spec] {
        &self.0
    }
}
