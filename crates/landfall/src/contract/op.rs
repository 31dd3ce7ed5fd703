//! What an op says of itself: one definition, all that the engine knows of it.

use super::{Graph, Value};
use crate::error::Error;
use crate::kernel::{cpu, cuda};
use crate::values::{DType, DeviceKind, Expression, HostTensor, Reg, Rule, Shape, Spec};
use arrayvec::ArrayVec;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The most outputs an op can have.
pub const MAX_OUTPUTS: usize = 4;

/// All that the engine knows of one op. No item but the last has a default: leaving one out does not compile.
///
/// Attributes are the implementor's fields; `Debug` must print them all, because equal text means equal op
/// (common subexpressions, plans and caches compare it).
pub trait Op: Any + Debug + Send + Sync {
    /// Name in graphs, errors, tests and docs.
    fn name(&self) -> &'static str;
    /// Dtypes and shapes of the outputs for these arguments. Pure.
    ///
    /// # Errors
    /// The rule that the arguments break.
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule>;
    /// What each output may share memory with.
    fn alias(&self) -> &[Alias];
    /// How much of each output is written.
    fn coverage(&self) -> &[Coverage];
    /// The dtype in which sums over elements of `dtype` run; one that is as coarse as their terms, where those are coarser.
    fn accumulate(&self, dtype: DType) -> DType;
    /// What the op is made of.
    fn body(&self) -> Body;
    /// How cotangents flow back.
    fn vjp(&self) -> Grad;
    /// Naive loops in `f64`: the truth that kernels are tested against.
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor>;
    /// Kernels, best first. Those of other devices than `device` are passed over. Of those that take a call's operands
    /// the first is the op's own choice; the others are its variants, which run only where one of them was pinned
    /// ([`tune`](crate::tune)).
    fn kernels(&self, device: DeviceKind) -> &'static [Kernel];
    /// Bytes moved and floating-point operations for these arguments.
    fn cost(&self, args: &[Spec]) -> Cost;
    /// Calls that tests, benches and the support table are made from.
    fn samples(&self) -> Vec<Sample>;
    /// What arguments must hold in a trial of a kernel, where not any numbers will do: valid indices. `None`, or nothing
    /// at the end, for those that may hold any numbers, which only floats may: an op that gives no valid indices is not
    /// tuned.
    fn trial(&self, _args: &[Spec], _spread: Spread) -> Vec<Option<HostTensor>> {
        Vec::new()
    }
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
    /// Cost of reading the arguments and writing the outputs once, with `flops` operations.
    #[must_use]
    pub fn of(args: &[Spec], outputs: &[Spec], flops: usize) -> Self {
        Self { bytes: args.iter().chain(outputs).map(Spec::bytes).fold(0, usize::saturating_add), flops }
    }
}

/// One way to compute an op on a device. What an instruction runs is a kernel, so a choice between ways that a tuner may
/// make is one between kernels: each has a name of its own.
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

/// One call to test an op with.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The op with its attributes.
    pub op: Arc<dyn Op>,
    /// The arguments.
    pub args: Vec<SampleArg>,
    /// The text that the error must contain, if the call must be refused.
    pub refused: Option<&'static str>,
}

/// An argument of a [`Sample`].
#[derive(Debug, Clone)]
pub struct SampleArg {
    /// Its dtype; `None` is the dtype under test.
    pub dtype: Option<DType>,
    /// Its shape.
    pub shape: Shape,
    /// What it holds.
    pub data: Data,
}

/// What a sample's argument holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Uniform in this range.
    Range(f64, f64),
    /// Standard normal values, with some exact zeros and some of large magnitude.
    Wide,
    /// Integers in `lo..hi`.
    Int(i64, i64),
    /// Exactly these, row-major.
    Exact(Vec<f64>),
}

impl Sample {
    /// A call that must succeed.
    #[must_use]
    pub fn new(op: impl Op, args: Vec<SampleArg>) -> Self {
        Self { op: Arc::new(op), args, refused: None }
    }

    /// A call that must be refused with a text that contains `text`.
    #[must_use]
    pub fn bad(op: impl Op, args: Vec<SampleArg>, text: &'static str) -> Self {
        Self { op: Arc::new(op), args, refused: Some(text) }
    }
}

impl SampleArg {
    /// An argument of the dtype under test, uniform in (−2, 2).
    pub fn any(shape: impl Into<Shape>) -> Self {
        Self::range(shape, -2.0, 2.0)
    }

    /// An argument of the dtype under test, uniform in a range.
    pub fn range(shape: impl Into<Shape>, lo: f64, hi: f64) -> Self {
        Self { dtype: None, shape: shape.into(), data: Data::Range(lo, hi) }
    }

    /// An argument with this data.
    pub fn with(dtype: Option<DType>, shape: impl Into<Shape>, data: Data) -> Self {
        Self { dtype, shape: shape.into(), data }
    }
}

/// Checks of arguments that many ops share.
pub(crate) mod rules {
    use crate::values::{DType, Rule, Shape, Spec};

    pub(crate) fn arity<const N: usize>(args: &[Spec]) -> Result<[Spec; N], Rule> {
        args.try_into().map_err(|_| Rule::Arity { expected: N, got: args.len() })
    }

    pub(crate) fn float(args: &[Spec], which: &[usize]) -> Result<(), Rule> {
        for &arg in which {
            let dtype = args[arg].dtype;
            if !dtype.is_float() {
                return Err(Rule::Dtype { arg, dtype, expected: "f32, f64, bf16 or f16" });
            }
        }
        Ok(())
    }

    pub(crate) fn dtype(args: &[Spec], arg: usize, want: DType) -> Result<(), Rule> {
        let dtype = args[arg].dtype;
        if dtype == want { Ok(()) } else { Err(Rule::Dtype { arg, dtype, expected: want.name() }) }
    }

    pub(crate) fn same_dtype(args: &[Spec], lhs: usize, rhs: usize) -> Result<(), Rule> {
        let (a, b) = (args[lhs].dtype, args[rhs].dtype);
        if a == b { Ok(()) } else { Err(Rule::Dtypes { lhs, lhs_dtype: a, rhs, rhs_dtype: b }) }
    }

    pub(crate) fn same_shape(args: &[Spec], lhs: usize, rhs: usize) -> Result<(), Rule> {
        let (a, b) = (args[lhs].shape, args[rhs].shape);
        if a == b { Ok(()) } else { Err(Rule::Shapes { lhs, lhs_shape: a, rhs, rhs_shape: b }) }
    }

    pub(crate) fn shape(args: &[Spec], arg: usize, expected: impl Into<Shape>) -> Result<(), Rule> {
        let (shape, expected) = (args[arg].shape, expected.into());
        if shape == expected { Ok(()) } else { Err(Rule::ArgShape { arg, shape, expected }) }
    }

    pub(crate) fn same_dim(args: &[Spec], lhs: (usize, usize), rhs: (usize, usize)) -> Result<(), Rule> {
        let size = |(arg, axis): (usize, usize)| args[arg].shape.dims().get(axis).copied().unwrap_or(1);
        let (a, b) = (size(lhs), size(rhs));
        if a == b { Ok(()) } else { Err(Rule::Dim { lhs: (lhs.0, lhs.1, a), rhs: (rhs.0, rhs.1, b) }) }
    }
}
