//! The definition of an op: everything that the engine needs to compute it.

use super::{AttributeValue, Attributes, Graph, Value};
use crate::error::Error;
use crate::kernel::{cpu, cuda};
use crate::values::{DType, DeviceKind, Expression, HostTensor, Reg, Rule, Spec};
use arrayvec::ArrayVec;
use std::any::Any;
use std::fmt::{Debug, Write};
use std::ops::Range;
use std::sync::Arc;

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
    /// What each output may share memory with, and how much of it is written.
    fn outputs(&self) -> &[Output];
    /// What the op is made of.
    fn body(&self) -> Body;
    /// How cotangents flow back: through the body, unless the op says otherwise. Through one that is not written in other ops
    /// none flows.
    fn vjp(&self) -> Grad {
        match self.body() {
            Body::Fused(_) => Grad::FromBody,
            Body::Opaque(why) => Grad::None(why),
            Body::Pointwise(_) | Body::Primitive(_) => Grad::None("the op has no rule"),
        }
    }
    /// Kernels, best first. Those of other devices than `device` are passed over. Of those that take a call's operands
    /// the first is the op's own choice; the others are its variants, which run only where one of them was pinned
    /// ([`tune`](crate::tune)).
    fn kernels(&self, device: DeviceKind) -> &'static [Kernel];
    /// Floating-point operations of a call. Those of a pointwise op are counted in its expression.
    fn flops(&self, _args: &[Spec], _outputs: &[Spec]) -> usize {
        0
    }
    /// Bytes that a call reads and writes, where it is not each operand once.
    fn bytes(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        Cost::bytes_of(args, outputs)
    }
    /// The dtype in which sums over elements of `dtype` run, which bounds what two kernels may differ by.
    fn accumulate(&self, dtype: DType) -> DType {
        dtype.accumulate()
    }
    /// The value of an attribute that a call by name leaves out, where it depends on the arguments.
    fn left_out(&self, _attribute: &str, _args: &[Spec]) -> Option<AttributeValue> {
        None
    }
    /// Whether only passes make it: a caller could not give its attributes.
    fn internal(&self) -> bool {
        false
    }
    /// Whether the ranks of a world compute it together. Each rank must meet the others in the same order, so such ops are ordered
    /// among themselves, whatever bytes they touch.
    fn collective(&self) -> bool {
        false
    }
    /// The axes along which a call's results are independent of each other: of each argument, then of each output, how many of its
    /// leading axes count the same things in the same order. A call on some of those things, of operands cut along these axes, gives
    /// the bytes that the whole call gives for them. An operand with 0 is read whole by each. `None` if there are no such axes.
    fn independent(&self, args: &[Spec], outputs: &[Spec]) -> Option<Vec<usize>> {
        // All axes of a pointwise op that updates nothing.
        let all = || args.iter().chain(outputs).map(|s| s.shape.rank()).collect();
        let fresh = self.outputs().iter().all(|o| o.updated().is_none());
        (fresh && matches!(self.body(), Body::Pointwise(_))).then(all)
    }
    /// The op of a call on one of so many equal parts along those axes, where it is not the op itself: one that divides by the number
    /// of all elements says there how many parts there are.
    fn of_part(&self, _parts: usize) -> Option<Arc<dyn Op>> {
        None
    }
    /// Ops of the same arguments that make its results one after the other, where a segment can do some of them: each with the results
    /// that are its own.
    fn apart(&self) -> Vec<(Arc<dyn Op>, Range<usize>)> {
        Vec::new()
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
    #[must_use]
    pub fn parts(self, count: usize, of: usize) -> Vec<usize> {
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

/// The outputs of a call with these arguments, all of shapes that tensors can have: the one place where the engine asks an op for them.
///
/// # Errors
/// [`Rule::TooLarge`] for an argument or an output; the rule that the arguments violate.
pub(crate) fn inferred(op: &dyn Op, args: &[Spec]) -> Result<Outputs, Rule> {
    let bounded = |specs: &[Spec]| specs.iter().try_for_each(|s| s.shape.bounded().map(drop));
    bounded(args)?;
    let outputs = op.infer(args)?;
    bounded(&outputs)?;
    Ok(outputs)
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

/// What an op says of one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// What it may share memory with.
    pub alias: Alias,
    /// How much of it is written.
    pub coverage: Coverage,
}

impl Output {
    /// Shares memory with no input and is written whole.
    pub const FULL: Self = Self { alias: Alias::Disjoint, coverage: Coverage::Full };
    /// As [`Output::FULL`], with zeros where the result leaves elements open.
    pub const ZEROED: Self = Self { coverage: Coverage::Zeroed, ..Self::FULL };

    /// May lie on exactly one of these inputs, element for element, and is written whole.
    #[must_use]
    pub const fn in_place(inputs: &'static [usize]) -> Self {
        Self { alias: Alias::InPlace(inputs), ..Self::FULL }
    }

    /// Is this input; elements that are not written keep what it held.
    #[must_use]
    pub const fn update(input: usize) -> Self {
        Self { alias: Alias::Must(input), coverage: Coverage::Accumulates }
    }

    /// Is packed of the inputs, each from the next multiple of `align` elements on, with zeros between them.
    #[must_use]
    pub const fn parts(align: usize) -> Self {
        Self { alias: Alias::Parts(align), ..Self::ZEROED }
    }

    /// The input that it is an update of.
    #[must_use]
    pub const fn updated(&self) -> Option<usize> {
        match self.alias {
            Alias::Must(input) => Some(input),
            Alias::Disjoint | Alias::InPlace(_) | Alias::Parts(_) => None,
        }
    }
}

/// The alias rule of an output; one without a rule shares no memory.
#[must_use]
pub fn alias(op: &dyn Op, output: usize) -> Alias {
    op.outputs().get(output).map_or(Alias::Disjoint, |o| o.alias)
}

/// Writes a fused op in other ops: its results for these arguments.
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
    /// As [`Grad::Rule`], of an op that keeps some of its results for that rule. Where one of these has a cotangent itself, as in a
    /// second derivative, the gradient is that of [`Body::Fused`].
    Keeping {
        /// Asked where no result that is kept has a cotangent.
        rule: GradRule,
        /// The results that are kept, by number.
        kept: &'static [usize],
    },
    /// Derived from [`Body::Fused`].
    FromBody,
    /// 0: the op is constant between its steps, or its results are integers.
    Zero,
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

impl Vjp<'_> {
    /// The cotangent of result 0: of an op with one result there always is one where its rule is asked.
    ///
    /// # Errors
    /// [`Rule::NoGradient`] where nothing depends on result 0.
    pub fn cotangent(&self) -> Result<Value, Error> {
        self.cotangents[0].ok_or_else(|| {
            Rule::NoGradient { why: "nothing depends on the output" }.of("vjp", &[], None, None).into()
        })
    }
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
    /// Cost of a call of `op` with these arguments; none where it does not take them.
    #[must_use]
    pub fn of(op: &dyn Op, args: &[Spec]) -> Self {
        let Ok(outputs) = inferred(op, args) else { return Self::default() };
        let flops = match op.body() {
            Body::Pointwise(write) => {
                outputs[0].shape.elements().saturating_mul(Expression::new(|e| write(op, e)).flops())
            }
            Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => op.flops(args, &outputs),
        };
        Self { bytes: op.bytes(args, &outputs), flops }
    }

    /// Bytes of these operands, each counted once.
    #[must_use]
    pub fn bytes_of(args: &[Spec], outputs: &[Spec]) -> usize {
        args.iter().chain(outputs).map(Spec::bytes).fold(0, usize::saturating_add)
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), flops: self.flops.saturating_add(other.flops) }
    }
}

/// One way to compute an op on a device. What an instruction runs is a kernel, so a choice between ways that a tuner may
/// make is one between kernels: each has its own name.
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

    /// The same kernel for these operands only.
    #[must_use]
    pub const fn accepting(self, accepts: fn(&dyn Op, &[Spec]) -> bool) -> Self {
        Self { accepts, ..self }
    }

    /// The same kernel with so many bytes of scratch memory.
    #[must_use]
    pub const fn with_workspace(self, workspace: fn(&dyn Op, &[Spec]) -> usize) -> Self {
        Self { workspace, ..self }
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

impl Outputs {
    /// These, of which there are at most [`MAX_OUTPUTS`].
    pub(crate) fn of(given: &[Spec]) -> Self {
        Self(given.iter().copied().take(MAX_OUTPUTS).collect())
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
