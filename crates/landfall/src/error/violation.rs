//! What the sanitizer finds: launches that break the contract.

use super::Error;
use crate::values::{DeviceKind, Spec};
use std::fmt;

/// In what order the sanitizer gives out addresses. Results must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// No address twice, until [`QUARANTINE`] bytes of memory have been given back. Each value of a program has an
    /// allocation of its own.
    NeverReuse,
    /// Memory that was given back last is given out first; in programs too ([`Reuse::Most`](crate::plan::Reuse::Most)).
    ReuseAtOnce,
    /// As [`Allocator::NeverReuse`], but each allocation from an offset on that is drawn from this seed, now and then in
    /// memory that was given back.
    Shuffled(u64),
}

/// Bytes of memory given back that the sanitizer keeps out of use, poisoned, before the oldest is used again.
pub const QUARANTINE: usize = 1 << 28;

/// Something that the sanitizer found, and in whose work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The launch, or `None` where memory was touched by none that is known.
    pub launch: Option<Culprit>,
    /// The device.
    pub device: DeviceKind,
    /// What it did.
    pub finding: Finding,
}

/// A launch, for errors.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What memory is to a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The input of this number.
    Input(usize),
    /// The output of this number.
    Output(usize),
    /// Its scratch memory.
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

/// What a launch, or somebody outside of any, did against the contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
