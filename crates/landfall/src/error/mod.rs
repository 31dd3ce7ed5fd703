//! Errors: each names the op, every argument, the rule and the numbers.
//!
//! One enum for all higher floors: an operation of one floor (a program's run) fails with the errors of lower ones (a
//! launch, a device), so users match one level deep. Detail types are in submodules by floor.

mod device;
mod plan;
mod violation;

pub(crate) use device::IndexFault;
pub use device::{Absence, Version};
pub use plan::PlanError;
pub use violation::{Allocator, Culprit, Finding, QUARANTINE, Role, Violation};

use crate::values::{DeviceKind, OpError, RankFault, Spec};
use std::fmt;
use std::panic::Location;

/// What can go wrong with tensors, programs and devices.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum Error {
    #[error(transparent)]
    Op(#[from] OpError),
    #[error("plan refused: {0}")]
    Plan(#[from] PlanError),
    #[error("allocation of {bytes} bytes on {device} failed ({in_use} bytes are in use there)")]
    Memory { bytes: usize, device: DeviceKind, in_use: usize },
    #[error("the host has no memory for {bytes} bytes that are to be read; read a smaller part")]
    HostMemory { bytes: usize },
    #[error("{what} is {expected}, the memory of the host is {given}; {}", Unequal(.expected, .given))]
    HostData { what: String, expected: Spec, given: Spec },
    #[error(
        "program {program}: {kind} {name} is {expected}, the memory given is {given}; give memory of this dtype and shape, or compile the program for the other"
    )]
    Given { program: String, kind: &'static str, name: String, expected: Spec, given: Spec },
    #[error("reading {what}: the program has not run yet; run it first")]
    NotRun { what: String },
    #[error(
        "program {program} cannot run: its input {input} was never written; write it with Program::write(\"{input}\", ..)"
    )]
    Unwritten { program: String, input: String },
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
    Absent(#[from] Absence),
    #[error("{call} failed: {why} ({code}){}", Last(.last))]
    Cuda { call: &'static str, code: String, why: String, last: Option<String> },
    #[error("module {module} does not compile for {arch}: {why}")]
    Compile { module: String, arch: String, why: String },
    #[error("module {module} was compiled without the kernel {kernel}, which its source declares")]
    Symbol { module: String, kernel: &'static str },
    #[error("capturing a CUDA graph: {what}")]
    Capture { what: String },
    #[error("memory of another library: {why}")]
    Foreign { why: String },
    #[error("{device} has no stream to issue on; only a GPU has")]
    NoStream { device: DeviceKind },
    #[error("the loss does not depend on {name}: no gradient path leads to it; make the loss of it, or ask for no gradient of it{}", At(.at))]
    NoPath { name: String, at: Option<&'static Location<'static>> },
    #[error("parameter {name} is trainable, but no gradient path leads from the loss to it; use it or freeze it{}", At(.at))]
    Unused { name: String, at: Option<&'static Location<'static>> },
    #[error("the gradient with respect to {parameter} runs through {through}: {cause}")]
    Gradient { parameter: String, through: String, cause: Box<OpError> },
    #[error("the loss is {spec}; it must be a floating-point scalar: take its mean or sum (mean_all){}", At(.at))]
    Loss { spec: Spec, at: Option<&'static Location<'static>> },
    #[error("state has no entry {name}; it has {known}")]
    NoEntry { name: String, known: String },
    #[error("state entry {name} is named twice")]
    TwiceNamed { name: String },
    #[error("the program was compiled for another state; run takes its own only")]
    ForeignState,
    #[error("program {program} cannot run on a state that others read at the same time: {why}")]
    Shared { program: String, why: String },
    #[error("program has no {kind} {name}; it has {}", if .known.is_empty() { "none" } else { .known })]
    NoBinding { kind: &'static str, name: String, known: String },
    #[error("binding {name}: {why}")]
    Binding { name: String, why: String },
    #[error("the device {name} is not there: {why}")]
    NoDevice { name: String, why: String },
    #[error(transparent)]
    Sanitizer(Box<Violation>),
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
    #[error(transparent)]
    Ranks(#[from] RankFault),
    #[error("{name} became non-finite (first at element {element}: {value}) in {op}")]
    NonFinite { name: String, op: &'static str, element: usize, value: f64 },
}

crate::values::debug_as_text!(Error);

/// The most recent launch before a fault that the driver reports with delay.
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

/// What must be equal of two arrays.
struct Unequal<'a>(&'a Spec, &'a Spec);

impl fmt::Display for Unequal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(expected, given) = self;
        let counted = expected.dtype == given.dtype && expected.shape.elements() == given.shape.elements();
        f.write_str(if counted {
            "their sizes must be equal"
        } else {
            "dtype and number of elements must be equal"
        })
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
