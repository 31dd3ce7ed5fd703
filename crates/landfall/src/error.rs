//! Errors: each names the op, every argument, the rule and the numbers.

use crate::DType;
use crate::device::DeviceKind;
use crate::layout::Relation;
use crate::shape::{Shape, Spec};
use std::fmt;
use std::panic::Location;

/// A rule of an op that its arguments broke, with the numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum Rule {
    #[error("takes {expected} arguments, got {got}")]
    Arity { expected: usize, got: usize },
    #[error("writes {expected} outputs, got {got}")]
    Outputs { expected: usize, got: usize },
    #[error("axis is {axis}, the rank is {rank}; axis must be < rank")]
    Axis { axis: usize, rank: usize },
    #[error("arg {arg} has rank {rank}; it must be {expected}")]
    Rank { arg: usize, rank: usize, expected: &'static str },
    #[error("arg {} axis {} is {}, arg {} axis {} is {}; they must be equal", .lhs.0, .lhs.1, .lhs.2, .rhs.0, .rhs.1, .rhs.2)]
    Dim { lhs: (usize, usize, usize), rhs: (usize, usize, usize) },
    #[error("arg {lhs} is {lhs_shape}, arg {rhs} is {rhs_shape}; their shapes must be equal")]
    Shapes { lhs: usize, lhs_shape: Shape, rhs: usize, rhs_shape: Shape },
    #[error("arg {arg} is {shape}; it must be {expected}")]
    ArgShape { arg: usize, shape: Shape, expected: Shape },
    #[error("arg {arg} is {dtype}; it must be {expected}")]
    Dtype { arg: usize, dtype: DType, expected: &'static str },
    #[error("arg {lhs} is {lhs_dtype}, arg {rhs} is {rhs_dtype}; their dtypes must be equal")]
    Dtypes { lhs: usize, lhs_dtype: DType, rhs: usize, rhs_dtype: DType },
    #[error("{name} is {value}; it must be {expected}")]
    Attribute { name: &'static str, value: f64, expected: &'static str },
    #[error("output {output} must be {expected}, the destination given is {given}")]
    Destination { output: usize, expected: Spec, given: Spec },
    #[error("output {output} and input {input} are {relation:?} in memory; the op allows {allowed}")]
    Alias { output: usize, input: usize, relation: Relation, allowed: &'static str },
    #[error("outputs {first} and {second} share memory; each output needs its own")]
    OutputsOverlap { first: usize, second: usize },
    #[error(
        "output {output} has elements that share memory (shape {shape}, strides {strides:?}); an output never overlaps itself"
    )]
    SelfOverlap { output: usize, shape: Shape, strides: Vec<usize> },
    #[error("operand {operand} lies on {found}, the engine works on {expected}; no op leaves its device")]
    Device { operand: usize, found: DeviceKind, expected: DeviceKind },
    #[error("no kernel of {device} takes {dtype}")]
    Unsupported { device: DeviceKind, dtype: DType },
    #[error(
        "needs {needed} bytes of workspace, {reserved} are reserved; call Engine::reserve({needed}) before"
    )]
    Workspace { needed: usize, reserved: usize },
    #[error("shape {from} has {} elements, {to} has {}; a reshape keeps their number", .from.elements(), .to.elements())]
    Reshape { from: Shape, to: Shape },
    #[error(
        "strides {strides:?} of shape {from} do not allow shape {to} without moving elements; copy it first"
    )]
    ReshapeStrides { from: Shape, to: Shape, strides: Vec<usize> },
    #[error("shape {from} cannot be broadcast to {to}; each size, aligned at the end, must be 1 or equal")]
    Broadcast { from: Shape, to: Shape },
    #[error("axes {axes:?} must name each of the {rank} axes once")]
    Permutation { axes: Vec<usize>, rank: usize },
    #[error(
        "slice of {len} from {start} in steps of {step} on axis {axis} of size {size}; it must lie inside"
    )]
    Slice { axis: usize, start: usize, len: usize, step: usize, size: usize },
    #[error("axis {axis} has size {size}; only an axis of size 1 can be squeezed")]
    Squeeze { axis: usize, size: usize },
    #[error("windows of {size} every {step} do not fit the last axis of {shape}")]
    Unfold { shape: Shape, size: usize, step: usize },
    #[error("input {input} is updated in place, but it is {what}")]
    Update { input: usize, what: &'static str },
    #[error("{0}")]
    Product(#[from] crate::cpu::gemm::GemmError),
    #[error("launch of kernel {entry} of {file}.cu: {what}")]
    Launch { file: &'static str, entry: &'static str, what: String },
    #[error("not differentiable: {why}")]
    NoGradient { why: &'static str },
}

impl Rule {
    /// Adds what the rule does not know: the op, its arguments, the device and the caller.
    #[must_use]
    pub fn of(
        self,
        op: &'static str,
        args: &[Spec],
        device: Option<DeviceKind>,
        at: Option<&'static Location<'static>>,
    ) -> OpError {
        OpError { op, args: args.to_vec(), device, rule: self, at }
    }
}

/// An op refused its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct OpError {
    /// Name of the op.
    pub op: &'static str,
    /// Dtype and shape of every argument.
    pub args: Vec<Spec>,
    /// The device of the call; `None` while a graph is being built.
    pub device: Option<DeviceKind>,
    /// The rule and its numbers.
    pub rule: Rule,
    /// The caller's line.
    pub at: Option<&'static Location<'static>>,
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op)?;
        for (i, a) in self.args.iter().enumerate() {
            write!(f, "{}{a}", if i == 0 { "" } else { ", " })?;
        }
        match self.device {
            Some(d) => write!(f, " on {d}): {}", self.rule)?,
            None => write!(f, "): {}", self.rule)?,
        }
        match self.at {
            Some(at) => write!(f, "  ({}:{})", at.file(), at.line()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for OpError {}

/// What can go wrong with tensors, programs and devices.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum Error {
    #[error(transparent)]
    Op(#[from] OpError),
    #[error("plan refused: {0}")]
    Plan(#[from] crate::plan::PlanError),
    #[error("allocation of {bytes} bytes on {device} failed ({in_use} bytes are in use there)")]
    Memory { bytes: usize, device: DeviceKind, in_use: usize },
    #[error("{what} is {expected}, the data given is {given}")]
    HostData { what: String, expected: Spec, given: Spec },
    #[error(
        "reading {what}: its memory holds the result of another program's run; run this program again first"
    )]
    Stale { what: String },
    #[error("reading {what}: device {device} computes nothing, so there is no result to read")]
    NoResult { what: String, device: DeviceKind },
    #[error("{op}: index {value} at position {position} is out of range 0..{limit}; the kernel clamped it")]
    Index { op: &'static str, position: usize, value: i64, limit: usize },
    #[error("kernel {kernel} of {op} on {device} failed: {why}")]
    Kernel { op: &'static str, kernel: &'static str, device: DeviceKind, why: &'static str },
    #[error("CUDA: {0}")]
    Absent(#[from] crate::cuda::Absence),
    #[error("{call} failed: {why} ({code}){}", Last(.last))]
    Cuda { call: &'static str, code: String, why: String, last: Option<String> },
    #[error("module {module} does not compile for {arch}: {why}")]
    Compile { module: String, arch: String, why: String },
    #[error("module {module} was compiled without the kernel {kernel}, which its source declares")]
    Symbol { module: String, kernel: &'static str },
    #[error("capturing a CUDA graph: {what}")]
    Capture { what: String },
    #[error("parameter {name} is trainable, but no gradient path leads from the loss to it; use it or freeze it{}", At(.at))]
    NoPath { name: String, at: Option<&'static Location<'static>> },
    #[error("the gradient of parameter {parameter} runs through {cause}")]
    Gradient { parameter: String, cause: OpError },
    #[error("the loss is {spec}; grad needs a floating-point scalar{}", At(.at))]
    Loss { spec: Spec, at: Option<&'static Location<'static>> },
    #[error("state has no entry {name}; it has {known}")]
    NoEntry { name: String, known: String },
    #[error("state entry {name} is named twice")]
    TwiceNamed { name: String },
    #[error("the program was compiled for another state; run takes its own only")]
    ForeignState,
    #[error("program has no {kind} {name}; it has {known}")]
    NoBinding { kind: &'static str, name: String, known: String },
    #[error("the device {name} is not there: {why}")]
    NoDevice { name: String, why: String },
    #[error(transparent)]
    Sanitizer(Box<crate::sanitize::Violation>),
    #[error("the environment variable {name} is {value:?}; it must be {expected}")]
    Setting { name: &'static str, value: String, expected: &'static str },
    #[error(
        "the kernel {kernel} is pinned for {instruction}, and {device} has no such kernel for it (it has {known}); tune again, or leave the choices out"
    )]
    Pinned { instruction: String, kernel: String, device: DeviceKind, known: String },
    #[error(
        "{instruction} cannot be tuned: its op's own kernel does not repeat itself ({why}); please report it"
    )]
    Untunable { instruction: String, why: String },
    #[error("{name} became non-finite (first at element {element}: {value}) in {op}")]
    NonFinite { name: String, op: &'static str, element: usize, value: f64 },
}

/// The launch before a fault that the driver reports later than it happens.
struct Last<'a>(&'a Option<String>);

impl fmt::Display for Last<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(last) => write!(
                f,
                "; the last launch was {last}, and the fault is its or an earlier one's: LANDFALL_CUDA_SYNC=1 tells which"
            ),
            None => Ok(()),
        }
    }
}

struct At<'a>(&'a Option<&'static Location<'static>>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => write!(f, "  ({}:{})", at.file(), at.line()),
            None => Ok(()),
        }
    }
}
