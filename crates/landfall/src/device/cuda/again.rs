//! Eager calls that were made before.
//!
//! Whether a rule refuses a call, and what it launches, follow from its op and from the dtype, layout and address of each
//! operand, and from nothing else ([decision 0018](../../../../../docs/decisions/0018-calls-made-again.md)). So a call
//! that was made is made again as it was, without being checked again.

use crate::contract::Op;
use crate::values::Operand;
use arrayvec::ArrayVec;
use rustc_hash::FxHasher;
use std::any::{Any, TypeId};
use std::hash::{Hash, Hasher};

/// How many calls are kept.
const PLACES: usize = 1 << 8;
/// The most inputs and the most outputs of one.
const MOST: usize = 4;

/// An op without attributes, with its operands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made<'a> {
    op: TypeId,
    inputs: &'a [Operand],
    outputs: &'a [Operand],
    hash: u64,
}

impl<'a> Made<'a> {
    /// None where the op has attributes, for nothing tells whether those of two calls are equal, and of many operands.
    #[inline]
    pub(super) fn new(op: &dyn Op, inputs: &'a [Operand], outputs: &'a [Operand]) -> Option<Self> {
        if size_of_val(op) > 0 || inputs.len().max(outputs.len()) > MOST {
            return None;
        }
        let op = (op as &dyn Any).type_id();
        let mut hasher = FxHasher::default();
        op.hash(&mut hasher);
        inputs.iter().chain(outputs).for_each(|o| hasher.write_u64(o.address()));
        Some(Self { op, inputs, outputs, hash: hasher.finish() })
    }

    fn place(&self) -> usize {
        self.hash as usize % PLACES
    }
}

/// Calls with what they launch. A call has one place, and a later one that has the same takes it over. All memory is here
/// from the start: a call allocates nothing, be it kept or not.
#[derive(Debug)]
pub(super) struct Calls<T>(Box<[Place<T>]>);

#[derive(Debug)]
struct Place<T> {
    /// Of the last call that came here and was not kept.
    passed: u64,
    kept: Option<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    op: TypeId,
    inputs: ArrayVec<Operand, MOST>,
    outputs: ArrayVec<Operand, MOST>,
    launches: T,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Place { passed: 0, kept: None }).collect())
    }
}

impl<T> Calls<T> {
    /// What the call launches, if it is kept.
    #[inline]
    pub(super) fn find(&self, call: &Made<'_>) -> Option<&T> {
        let kept = self.0[call.place()].kept.as_ref()?;
        let same = kept.op == call.op && kept.inputs[..] == *call.inputs && kept.outputs[..] == *call.outputs;
        same.then_some(&kept.launches)
    }

    /// Whether the call is to be kept: it came before, and no other has come to its place since. So what is called once
    /// does not take the place of what is called often.
    #[inline]
    pub(super) fn came(&mut self, call: &Made<'_>) -> bool {
        std::mem::replace(&mut self.0[call.place()].passed, call.hash) == call.hash
    }

    /// Keeps a call.
    pub(super) fn keep(&mut self, call: &Made<'_>, launches: T) {
        let list = |of: &[Operand]| of.iter().copied().take(MOST).collect();
        let (inputs, outputs) = (list(call.inputs), list(call.outputs));
        self.0[call.place()].kept = Some(Kept { op: call.op, inputs, outputs, launches });
    }
}

#[cfg(test)]
mod tests {
    use super::{Calls, MOST, Made};
    use crate::contract::Op;
    use crate::ops::{Add, Fill, Mul};
    use crate::values::{Address, DType, Layout, Operand};

    fn operand(base: u64, layout: Layout) -> Operand {
        Operand { base: Address(base), dtype: DType::F32, layout }
    }

    /// Every part of a call counts: a call that differs in any one of them is another one.
    #[test]
    fn another_call_is_not_found() {
        let square = Layout::contiguous([4, 4].into());
        let [a, b, c] = [64, 128, 192].map(|base| operand(base, square));
        let of = |op: &'static dyn Op, inputs: &'static [Operand], outputs: &'static [Operand]| {
            Made::new(op, inputs, outputs).expect("an op without attributes")
        };
        let list = |of: &[Operand]| -> &'static [Operand] { Box::leak(of.into()) };
        let mut calls = Calls::default();
        let first = of(&Add, list(&[a, b]), list(&[c]));
        assert_eq!(calls.find(&first), None);
        assert!(!calls.came(&first) && calls.came(&first), "kept when it comes again");
        calls.keep(&first, 7);
        assert_eq!(calls.find(&of(&Add, list(&[a, b]), list(&[c]))), Some(&7));
        let turned = square.permute(&[1, 0]).expect("two axes");
        let others = [
            of(&Mul, first.inputs, first.outputs),
            of(&Add, list(&[b, a]), first.outputs),
            of(&Add, list(&[a, b, c]), list(&[])),
            of(&Add, first.inputs, list(&[a])),
            of(&Add, list(&[a, Operand { dtype: DType::BF16, ..b }]), first.outputs),
            of(&Add, list(&[a, operand(128, turned)]), first.outputs),
            of(&Add, list(&[a, operand(128, Layout::contiguous([2, 8].into()))]), first.outputs),
            of(&Add, list(&[a, operand(124, square.shifted(1))]), first.outputs),
        ];
        // In its place, whatever their own would be.
        for other in others {
            assert_eq!(calls.find(&Made { hash: first.hash, ..other }), None, "{other:?}");
        }
    }

    /// A call that takes a place over is found there, and the one before no more.
    #[test]
    fn a_place_has_one_call() {
        let of = |base| [operand(base, Layout::contiguous([4].into()))];
        let (x, y) = (of(64), of(4096));
        let one = Made::new(&Add, &x, &x).expect("an op without attributes");
        let other = Made { inputs: &y, ..one };
        let mut calls = Calls::default();
        calls.keep(&one, 1);
        calls.keep(&other, 2);
        assert_eq!((calls.find(&one), calls.find(&other)), (None, Some(&2)));
    }

    /// Attributes are part of a call, and are not compared; of operands there is room for some.
    #[test]
    fn what_cannot_be_told_or_held_is_not_kept() {
        let x = operand(64, Layout::contiguous([4].into()));
        let fill = Fill { spec: x.spec(), value: 1.0 };
        assert!(Made::new(&fill, &[], &[x]).is_none());
        assert!(Made::new(&Add, &[x; MOST], &[x]).is_some());
        assert!(Made::new(&Add, &[x; MOST + 1], &[x]).is_none());
    }
}
