//! The rules of ops: what a call may violate, with the op, its arguments and the numbers.

use super::{DType, DeviceKind, Overlap, RankFault, Relation, Shape, Spec};
use std::fmt;
use std::panic::Location;

/// A violated rule of an op, with the numbers.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum Rule {
    #[error("takes {takes}, got {got}")]
    Arity { takes: String, got: usize },
    #[error("writes {expected} outputs, got {got}")]
    Outputs { expected: usize, got: usize },
    #[error(
        "arg {arg} is value {value} of graph {of}; this is graph {graph}, which takes its own values alone: build both with one Graph"
    )]
    ForeignValue { arg: usize, value: u32, of: u32, graph: u32 },
    #[error("there is another {kind} {name}; each needs a name of its own")]
    Name { kind: &'static str, name: String },
    #[error("axis is {axis}, the rank is {rank}; axis must be < rank and at least −rank")]
    Axis { axis: isize, rank: usize },
    #[error("axis {axis} is named twice; each axis must be named once")]
    AxisTwice { axis: usize },
    #[error("arg {arg} has rank {rank}; it must be {expected}")]
    Rank { arg: usize, rank: usize, expected: &'static str },
    #[error("arg {} axis {} is {}, arg {} axis {} is {}; they must be equal", .lhs.0, .lhs.1, .lhs.2, .rhs.0, .rhs.1, .rhs.2)]
    Dim { lhs: (usize, usize, usize), rhs: (usize, usize, usize) },
    #[error("arg {lhs} is {lhs_shape}, arg {rhs} is {rhs_shape}; their shapes must be equal")]
    Shapes { lhs: usize, lhs_shape: Shape, rhs: usize, rhs_shape: Shape },
    #[error(
        "{rule}; the axes are [batch, tokens, heads, features]: of [batch, heads, tokens, features], as PyTorch has them, take scaled_dot_product_attention"
    )]
    HeadsFirst { rule: Box<Rule> },
    #[error("arg {arg} is {shape}; it must be {expected}")]
    ArgShape { arg: usize, shape: Shape, expected: Shape },
    #[error("arg {arg} is {dtype}; it must be {expected}")]
    Dtype { arg: usize, dtype: DType, expected: &'static str },
    #[error("arg {lhs} is {lhs_dtype}, arg {rhs} is {rhs_dtype}; their dtypes must be equal")]
    Dtypes { lhs: usize, lhs_dtype: DType, rhs: usize, rhs_dtype: DType },
    #[error("{name} is {value}; it must be {expected}")]
    Attribute { name: &'static str, value: f64, expected: &'static str },
    #[error(
        "shape {shape} has more than 2^48 elements (axes of size 0 not counted), which no memory holds; choose smaller sizes"
    )]
    TooLarge { shape: Shape },
    #[error("{spec} has {} elements, got {got}", .spec.shape.elements())]
    Elements { spec: Spec, got: usize },
    #[error("element {index} is {value}; {dtype} does not hold it")]
    Number { index: usize, value: f64, dtype: DType },
    #[error("no {kind} is called {name:?}; the nearest names are {}", .nearest.join(", "))]
    OpName { kind: &'static str, name: String, nearest: Vec<&'static str> },
    #[error("needs {name}, {takes}")]
    Missing { name: &'static str, takes: &'static str },
    #[error("it has no attribute {name:?}; {}", attribute_names(.known))]
    AttributeName { name: String, known: &'static [&'static str] },
    #[error("{name} is {value}; it must be {}", attribute_takes(.takes, .choices))]
    AttributeValue {
        name: &'static str,
        value: String,
        takes: &'static str,
        choices: &'static [&'static str],
    },
    #[error("output {output} must be {expected}, the destination given is {given}")]
    Destination { output: usize, expected: Spec, given: Spec },
    #[error("output {output} and input {input} are {relation:?} in memory{bytes}; the op allows {allowed}")]
    Alias { output: usize, input: usize, relation: Relation, bytes: Overlap, allowed: &'static str },
    #[error("output {output} is read-only memory; give a destination that may be written")]
    ReadOnly { output: usize },
    #[error(
        "the elements do not lie row-major without gaps (shape {shape}, strides {strides:?}); copy them first"
    )]
    NotContiguous { shape: Shape, strides: Vec<usize> },
    #[error("{} strides are no layout of shape {shape} ({strides:?} from element {offset} on)", .strides.len())]
    Strides { shape: Shape, strides: Vec<usize>, offset: usize },
    #[error("outputs {first} and {second} share memory{bytes}; each output needs its own")]
    OutputsOverlap { first: usize, second: usize, bytes: Overlap },
    #[error(
        "output {output} has elements that share memory (shape {shape}, strides {strides:?}); an output never overlaps itself"
    )]
    SelfOverlap { output: usize, shape: Shape, strides: Vec<usize> },
    #[error(
        "operand {operand} belongs to another engine (on {found}; this one works on {expected}); make it with this engine, or copy it through the host"
    )]
    Device { operand: usize, found: DeviceKind, expected: DeviceKind },
    #[error("no kernel of {device} takes {dtype}")]
    Unsupported { device: DeviceKind, dtype: DType },
    #[error(
        "needs {needed} bytes of workspace, {reserved} are reserved; call Engine::reserve({needed}) before"
    )]
    Workspace { needed: usize, reserved: usize },
    #[error("the workspace meets operand {operand} ({bytes}); a workspace shares no memory with an operand")]
    WorkspaceOverlaps { operand: usize, bytes: Overlap },
    #[error("shape {from} has {} elements, {to} has {}; a reshape keeps their number", .from.elements(), .to.elements())]
    Reshape { from: Shape, to: Shape },
    #[error(
        "strides {strides:?} of shape {from} do not allow shape {to} without moving elements; copy it first"
    )]
    ReshapeStrides { from: Shape, to: Shape, strides: Vec<usize> },
    #[error("shape {from} cannot be broadcast to {to}; each size, aligned at the end, must be 1 or equal")]
    Broadcast { from: Shape, to: Shape },
    #[error(
        "what step {step} carries on differs in number, shapes or dtypes from what it was given; a step must keep them"
    )]
    Carried { step: usize },
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
    #[error("{what}")]
    Product { what: String },
    #[error("launch of kernel {entry} of {file}.cu: {what}")]
    Launch { file: &'static str, entry: &'static str, what: String },
    #[error("not differentiable: {why}")]
    NoGradient { why: &'static str },
    #[error(transparent)]
    Ranks(#[from] RankFault),
}

crate::values::debug_as_text!(Rule);

fn attribute_names(known: &[&str]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) }
}

fn attribute_takes(takes: &str, choices: &[&str]) -> String {
    if choices.is_empty() { takes.to_owned() } else { choices.join(", ") }
}

impl Rule {
    /// Adds the context: the op, its arguments, the device and the caller.
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
#[derive(Clone, PartialEq)]
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

crate::values::debug_as_text!(OpError);
