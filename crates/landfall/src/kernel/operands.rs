//! The memory of one kernel call.

use crate::values::{Address, Operand};

/// The operands and the workspace of one kernel call, with the name of its op for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands<'a> {
    /// Name of the op.
    pub(crate) op: &'static str,
    /// Operands read.
    pub(crate) inputs: &'a [Operand],
    /// Operands written.
    pub(crate) outputs: &'a [Operand],
    /// Address of the workspace.
    pub(crate) workspace: Address,
    /// Bytes of workspace.
    pub(crate) workspace_bytes: usize,
}

/// Indices of the addend and of the bias among a matmul's operands: of those after the factors, the matrix is the
/// addend.
pub(crate) fn added(operands: usize, rank: impl Fn(usize) -> usize) -> (Option<usize>, Option<usize>) {
    let addend = (operands > 2 && rank(2) > 1).then_some(2);
    let bias = 2 + usize::from(addend.is_some());
    (addend, (operands > bias).then_some(bias))
}
