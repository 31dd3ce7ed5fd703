//! What an op says of itself: one definition, all that the engine needs to compute it.

use super::{AttributeValue, Attributes, Graph, Value};
use crate::error::Error;
use crate::kernel::{cpu, cuda};
use crate::values::{DType, DeviceKind, Expression, HostTensor, Reg, Rule, Spec};
use arrayvec::ArrayVec;
use std::any::Any;
use std::fmt::{Debug, Write};

/// The most outputs an op can have.
pub const MAX_OUTPUTS: usize = 4;

/// What computes an op: all that the engine needs to run, differentiate, plan and tune it. What tests it is [`Tested`](super::Tested).
///
/// The implementor's fields are the op's attributes, declared by [`op_attributes!`](crate::op_attributes); `Debug` must print
/// all fields, because a graph takes ops of equal text with equal arguments as one.
pub trait Op: Any + Attributes + Debug + Send + Sync {
    /// Name in graphs, errors, tests and docs.
    fn name(&self) -> &'static str;
    /// Dtypes and shapes of the outputs for these arguments. Pure.
    ///
    /// # Errors
    /// The rule that the arguments break.
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
    /// How mixed precision treats the op.
    fn mixing(&self) -> Mixing {
        match self.body() {
            Body::Pointwise(_) => Mixing::BetweenProducts { operands: usize::MAX },
            Body::Primitive(_) | Body::Fused(_) | Body::Opaque(_) => Mixing::Full,
        }
    }
    /// Valid indices for the arguments of a trial of a kernel. `None`, or nothing at the end, for arguments that may hold
    /// any numbers, which only floats may: an op that gives no valid indices is not tuned.
    fn trial(&self, _args: &[Spec], _spread: Spread) -> Vec<Option<HostTensor>> {
        Vec::new()
    }
}

/// How [`mixed_precision`](crate::mixed_precision) treats an op whose arguments are of f32. "The compute dtype" is bf16, f16
/// or f32. Arguments from number `operands` on stay in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixing {
    /// Runs in the compute dtype: its time is that of tensor cores, and its sums run in f32.
    Product {
        /// How many arguments are cast.
        operands: usize,
    },
    /// Runs in the compute dtype where an argument comes from a product and the result leads to one, else in f32.
    BetweenProducts {
        /// How many arguments are cast.
        operands: usize,
    },
    /// Moves elements without computing: runs in the compute dtype where its argument is already in it or fewer bytes move.
    Movement,
    /// Runs in f32.
    Full,
}

/// How the indices of a trial are spread over what they choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Each is chosen as often as the others.
    Uniform,
    /// The one of rank r is chosen in proportion to 1 / r.
    Zipf,
}

impl Spread {
    /// `count` in parts, one for each of `of`, as they are spread.
    pub(crate) fn parts(self, count: usize, of: usize) -> Vec<usize> {
        let weight = |r: usize| match self {
            Self::Uniform => 1.0,
            Self::Zipf => 1.0 / (r + 1) as f64,
        };
        let whole: f64 = (0..of).map(weight).sum();
        let (mut seen, mut done) = (0.0, 0);
        let part = |r: usize| {
            seen += weight(r);
            // Of rounded sums, so that the parts are the whole.
            let upto = if r + 1 == of { count } else { (count as f64 * seen / whole) as usize };
            upto.min(count) - std::mem::replace(&mut done, upto.min(count))
        };
        (0..of).map(part).collect()
    }
}

/// Name and attributes of an op as one text: what plans and caches call it.
#[must_use]
pub fn text(op: &dyn Op) -> String {
    let mut text = op.name().to_owned();
    for (index, declared) in op.declared().iter().enumerate() {
        let before = if index == 0 { "(" } else { ", " };
        let value = op.attribute(index).unwrap_or(AttributeValue::None);
        // Writing to a text does not fail.
        _ = write!(text, "{before}{}={value}", declared.name);
    }
    if !op.declared().is_empty() {
        text.push(')');
    }
    text
}

/// The concrete op behind a trait object; kernels and rules use it to reach their attributes.
///
/// # Errors
/// [`Rule::Attribute`] when the object is another op, which only a wrong kernel table can cause.
pub fn attributes<T: Op>(op: &dyn Op) -> Result<&T, Rule> {
    (op as &dyn Any).downcast_ref::<T>().ok_or(Rule::Attribute {
        name: "op",
        value: 0.0,
        expected: "the kernel's own op",
    })
}

/// What memory an output may share with the inputs. Everything not said here is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alias {
    /// With no input.
    Disjoint,
    /// Exactly one of these inputs, element for element, or none.
    InPlace(&'static [usize]),
    /// An update: the output *is* this input.
    Must(usize),
    /// A packing: input by input lies in the output, each from the next multiple of this many elements on. An input
    /// either is that part of the output already, or shares nothing with it.
    Parts(usize),
}

/// Elements before each part of a packing whose parts start at multiples of `align` elements.
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
    /// Every element: what the result leaves open, the op fills with zeros.
    Zeroed,
    /// Some elements; the others keep what the `Must` input held.
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

/// Cotangents of the arguments, `None` where none flows.
pub type GradRule = fn(&dyn Op, &Vjp<'_>) -> Result<Vec<Option<Value>>, Error>;

/// What an op is made of.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// One scalar expression applied to each element, written step by step; its value is the last one's. Kernels are
    /// generated from it.
    Pointwise(fn(&dyn Op, &mut Expression) -> Reg),
    /// Known to the engine by its class.
    Primitive(&'static str),
    /// Written in other ops: fall-back, default gradient and second oracle.
    Fused(FusedBody),
    /// Not expressible in others, for this reason.
    Opaque(&'static str),
}

/// Gradient of an op.
#[derive(Debug, Clone, Copy)]
pub enum Grad {
    /// Written by hand: one cotangent per argument, `None` where none flows.
    Rule(GradRule),
    /// Taken through [`Body::Fused`].
    FromBody,
    /// Not differentiable, for this reason.
    None(&'static str),
}

/// What a gradient rule sees.
#[derive(Debug, Clone, Copy)]
pub struct Vjp<'a> {
    /// The graph to add to.
    pub graph: &'a Graph,
    /// Arguments of the call.
    pub inputs: &'a [Value],
    /// Results of the call.
    pub outputs: &'a [Value],
    /// Cotangent of each result; `None` where nothing depends on it.
    pub cotangents: &'a [Option<Value>],
    /// Whether the cotangent of each argument is needed.
    pub needs: &'a [bool],
}

/// Bytes moved and floating-point operations of a call: the denominators of benches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Bytes read and written once each.
    pub bytes: usize,
    /// Floating-point operations.
    pub flops: usize,
}

impl Cost {
    /// Cost of a call of `op` with these arguments; none where it does not take them.
    #[must_use]
    pub fn of(op: &dyn Op, args: &[Spec]) -> Self {
        let Ok(outputs) = op.infer(args) else { return Self::default() };
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

/// One way to compute an op on a device. What an instruction runs is a kernel, so a choice between ways that a tuner may
/// make is one between kernels: each has its own name.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Name in plans, records and errors.
    pub name: &'static str,
    /// Whether it can run these operands (layouts and dtypes; shapes are already inferred).
    pub accepts: fn(&dyn Op, &[Spec]) -> bool,
    /// Bytes of scratch memory it needs.
    pub workspace: fn(&dyn Op, &[Spec]) -> usize,
    /// The kernel.
    pub run: Run,
}

/// Code of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// A function over views, run on the calling thread and the engine's pool.
    Cpu(fn(&dyn Op, &cpu::Call<'_>) -> Result<(), Rule>),
    /// A function that turns operands into launches of kernels on a GPU. What it launches depends on dtypes, layouts
    /// and addresses only.
    Cuda(fn(&dyn Op, &mut cuda::Call<'_>) -> Result<(), cuda::Failure>),
}

impl Run {
    /// Whether it runs on a device of this kind. The null device takes the CPU's kernels, so that its plans are the
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
    /// A CPU kernel that takes whatever the op infers and needs no scratch memory.
    #[must_use]
    pub const fn cpu(name: &'static str, run: fn(&dyn Op, &cpu::Call<'_>) -> Result<(), Rule>) -> Self {
        Self { name, accepts: |_, _| true, workspace: |_, _| 0, run: Run::Cpu(run) }
    }

    /// A CUDA kernel that takes whatever the op infers and needs no scratch memory.
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

/// Output specs, held inline so that inferring them never allocates.
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
