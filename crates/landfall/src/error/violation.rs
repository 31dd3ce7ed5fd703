//! Findings of the sanitizer: launches that violate the contract.

use super::Error;
use crate::values::{DeviceKind, Spec};
use std::fmt;

/// The address policy of the sanitizer. Results must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// Never reuses an address, until [`QUARANTINE`] bytes of memory have been freed. Each value of a program has its
    /// own allocation.
    NeverReuse,
    /// Allocates the most recently freed memory first; in programs too ([`Reuse::Most`](crate::plan::Reuse::Most)).
    ReuseAtOnce,
    /// As [`Allocator::NeverReuse`], but each allocation starts at a random offset from this seed, sometimes in freed
    /// memory.
    Shuffled(u64),
}

/// Bytes of freed memory that the sanitizer keeps poisoned and unused, before the oldest is reused.
pub const QUARANTINE: usize = 1 << 28;

/// A finding of the sanitizer, with its culprit.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The launch, or `None` if no known launch touched the memory.
    pub launch: Option<Culprit>,
    /// The device.
    pub device: DeviceKind,
    /// The finding.
    pub finding: Finding,
}

/// A launch, for errors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Culprit {
    /// Its number in the program that was run; `None` for an eager call.
    pub instruction: Option<usize>,
    /// The op.
    pub op: &'static str,
    /// Its kernel.
    pub kernel: &'static str,
    /// Dtype and shape of each argument.
    pub args: Vec<Spec>,
}

/// The role of memory in a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The input of this number.
    Input(usize),
    /// The output of this number.
    Output(usize),
    /// Its workspace.
    Scratch,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(i) => write!(f, "input {i}"),
            Self::Output(j) => write!(f, "output {j}"),
            Self::Scratch => f.write_str("its scratch memory"),
        }
    }
}

/// A violation of the contract, by a launch or outside of any.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum Finding {
    #[error("{operand} lies in memory that is not allocated (or was given back)")]
    Unallocated { operand: Role },
    #[error("it wrote to {operand}, which it may only read: byte {byte} of its memory changed")]
    WroteInput { operand: Role, byte: usize },
    #[error("it wrote outside of its outputs: the byte {distance} bytes {side} {operand}, {region}, changed")]
    WroteOutside { operand: Role, distance: u64, side: &'static str, region: &'static str },
    #[error(
        "element {element} of {operand} depends on bytes that are none of its operands: it was not written, or made from scratch memory that was not, or from memory outside of an operand"
    )]
    Depends { operand: Role, element: usize },
    #[error("element {element} of {operand} is not the same when the launch is repeated")]
    Unstable { operand: Role, element: usize },
    #[error("byte {at} from the start of another allocation of {bytes} bytes changed, in its guard band")]
    Guard { at: isize, bytes: usize },
    #[error(
        "{bytes} bytes of memory were written after they had been given back, the first of them byte {at}"
    )]
    Freed { at: usize, bytes: usize },
    #[error("a copy of {bytes} bytes from or to the host leaves the memory that is allocated")]
    Copy { bytes: usize },
    #[error("under allocator {allocator:?}, result {result} is another one from byte {byte} on")]
    Disagree { allocator: Allocator, result: usize, byte: usize },
}

crate::values::debug_as_text!(Finding);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sanitizer: ")?;
        if let Some(Culprit { instruction, op, kernel, args }) = &self.launch {
            if let Some(k) = instruction {
                write!(f, "instruction {k}, ")?;
            }
            let args: Vec<String> = args.iter().map(Spec::to_string).collect();
            write!(f, "{op}({} on {}), kernel {kernel}: {}", args.join(", "), self.device, self.finding)
        } else {
            write!(f, "{}: {}", self.device, self.finding)
        }
    }
}

impl std::error::Error for Violation {}

crate::values::debug_as_text!(Violation);

impl Violation {
    pub(crate) fn of_memory(device: DeviceKind, finding: Finding) -> Self {
        Self { launch: None, device, finding }
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::Sanitizer(Box::new(violation))
    }
}
