//! Violations that the checker found in a memory plan.

use crate::values::{Block, Relation};

/// Why a plan was refused.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum PlanError {
    #[error(
        "instruction {instruction} ({op}): part {part} of its segment has bytes in common with part {other_part} of instruction {other}, which one of them writes; parts do not wait for each other"
    )]
    Parts { instruction: usize, op: &'static str, part: usize, other: usize, other_part: usize },
    #[error("instruction {instruction} ({op}) is in a segment of {parts} parts: {why}")]
    Member { instruction: usize, op: &'static str, parts: usize, why: &'static str },
    #[error("instruction {instruction} ({op}) reads {value}, which nothing has written")]
    MissingWriter { instruction: usize, op: &'static str, value: String },
    #[error(
        "instruction {instruction} ({op}) reads {value}, but its memory holds {found} since instruction {since}"
    )]
    Stale { instruction: usize, op: &'static str, value: String, found: String, since: usize },
    #[error(
        "instruction {instruction} ({op}): output {output} ({value}) and input {input} ({other}) are {relation:?}; the op allows {allowed}"
    )]
    Alias {
        instruction: usize,
        op: &'static str,
        output: usize,
        value: String,
        input: usize,
        other: String,
        relation: Relation,
        allowed: &'static str,
    },
    #[error("instruction {instruction} ({op}) writes outputs {first} and {second} into shared memory")]
    OutputsOverlap { instruction: usize, op: &'static str, first: usize, second: usize },
    #[error("instruction {instruction} ({op}) has scratch memory that its operand {value} shares")]
    Workspace { instruction: usize, op: &'static str, value: String },
    #[error("instruction {instruction} ({op}) writes {value}, a constant")]
    Constant { instruction: usize, op: &'static str, value: String },
    #[error("instruction {instruction} ({op}) writes {value} twice, or after its end")]
    Rewritten { instruction: usize, op: &'static str, value: String },
    #[error("{value} lies at bytes {start}..{end} of {block:?}, which has {size}")]
    OutOfBounds { value: String, block: Block, start: usize, end: usize, size: usize },
    #[error(
        "{value} must lie at byte {expected} of {block:?}, the plan has it at {found} of {found_block:?}"
    )]
    Misplaced { value: String, block: Block, expected: usize, found_block: Block, found: usize },
    #[error("the program leaves {value} overwritten by {found}; it must outlive the run")]
    Clobbered { value: String, found: String },
    #[error("nothing writes {value}, which is read after the run")]
    Unwritten { value: String },
    #[error(
        "instruction {instruction} ({op}) is not ordered after instruction {needed}, which touches the same memory or is the \
         collective before it"
    )]
    Unordered { instruction: usize, op: &'static str, needed: usize },
    #[error(
        "instruction {instruction} ({op}) keeps part of output {output} ({value}), but does not update it in place"
    )]
    Uncovered { instruction: usize, op: &'static str, output: usize, value: String },
    #[error("{value} lies at bytes {start}..{end} of the arena, of which another allocation begins at {cut}")]
    Torn { value: String, start: usize, end: usize, cut: usize },
    #[error("{value} is not aligned: byte {offset} of {block:?}")]
    Unaligned { value: String, block: Block, offset: usize },
}

crate::values::debug_as_text!(PlanError);
