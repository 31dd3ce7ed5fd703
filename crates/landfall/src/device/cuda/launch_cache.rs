//! The launch cache: launches of eager calls that were checked before.
//!
//! Whether a rule refuses a call, and what it launches, follow from its op and from the dtype, layout and address of each
//! operand alone ([decision 0018](../../../../../docs/decisions/0018-cache-validated-eager-launches.md)). A repeated call
//! is therefore launched without a second check.

use crate::contract::Op;
use crate::values::Operand;
use arrayvec::ArrayVec;
use rustc_hash::FxHasher;
use std::any::{Any, TypeId};
use std::hash::{Hash, Hasher};

/// Number of slots.
const SLOTS: usize = 1 << 8;
/// Maximum number of inputs, and of outputs, of a cached call.
const MAX_OPERANDS: usize = 4;

/// What identifies a call: an op without attributes, and its operands.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchKey<'a> {
    op: TypeId,
    inputs: &'a [Operand],
    outputs: &'a [Operand],
    hash: u64,
}

impl<'a> LaunchKey<'a> {
    /// `None` if the op has attributes, which are not compared, or too many operands.
    #[inline]
    pub(super) fn new(op: &dyn Op, inputs: &'a [Operand], outputs: &'a [Operand]) -> Option<Self> {
        if size_of_val(op) > 0 || inputs.len().max(outputs.len()) > MAX_OPERANDS {
            return None;
        }
        let op = (op as &dyn Any).type_id();
        let mut hasher = FxHasher::default();
        op.hash(&mut hasher);
        inputs.iter().chain(outputs).for_each(|o| hasher.write_u64(o.address()));
        Some(Self { op, inputs, outputs, hash: hasher.finish() })
    }

    fn slot(&self) -> usize {
        self.hash as usize % SLOTS
    }
}

/// Cached calls with their launches. A call has one slot, and a later call of the same slot replaces it. All memory is
/// preallocated: a call allocates nothing, cached or not.
#[derive(Debug)]
pub(super) struct LaunchCache<T>(Box<[Slot<T>]>);

#[derive(Debug)]
struct Slot<T> {
    /// Hash of the last call of this slot that was not cached.
    last_missed: u64,
    entry: Option<CachedLaunch<T>>,
}

#[derive(Debug)]
struct CachedLaunch<T> {
    op: TypeId,
    inputs: ArrayVec<Operand, MAX_OPERANDS>,
    outputs: ArrayVec<Operand, MAX_OPERANDS>,
    launches: T,
}

impl<T> Default for LaunchCache<T> {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| Slot { last_missed: 0, entry: None }).collect())
    }
}

impl<T> LaunchCache<T> {
    /// What the call launches, if it is cached.
    #[inline]
    pub(super) fn find(&self, call: &LaunchKey<'_>) -> Option<&T> {
        let cached = self.0[call.slot()].entry.as_ref()?;
        let same =
            cached.op == call.op && cached.inputs[..] == *call.inputs && cached.outputs[..] == *call.outputs;
        same.then_some(&cached.launches)
    }

    /// Whether this call was the last uncached one of its slot, so that it is to be cached now: a call that is made
    /// once does not replace a frequent one.
    #[inline]
    pub(super) fn seen_before(&mut self, call: &LaunchKey<'_>) -> bool {
        std::mem::replace(&mut self.0[call.slot()].last_missed, call.hash) == call.hash
    }

    /// Caches a call.
    pub(super) fn insert(&mut self, call: &LaunchKey<'_>, launches: T) {
        let list = |of: &[Operand]| of.iter().copied().take(MAX_OPERANDS).collect();
        let (inputs, outputs) = (list(call.inputs), list(call.outputs));
        self.0[call.slot()].entry = Some(CachedLaunch { op: call.op, inputs, outputs, launches });
    }
}

#[cfg(test)]
mod tests {
    use super::{LaunchCache, LaunchKey, MAX_OPERANDS};
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
            LaunchKey::new(op, inputs, outputs).expect("an op without attributes")
        };
        let list = |of: &[Operand]| -> &'static [Operand] { Box::leak(of.into()) };
        let mut calls = LaunchCache::default();
        let first = of(&Add, list(&[a, b]), list(&[c]));
        assert_eq!(calls.find(&first), None);
        assert!(!calls.seen_before(&first) && calls.seen_before(&first), "cached when it is repeated");
        calls.insert(&first, 7);
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
        // In its slot, whatever their own would be.
        for other in others {
            assert_eq!(calls.find(&LaunchKey { hash: first.hash, ..other }), None, "{other:?}");
        }
    }

    /// A call that replaces another is found, and the other no more.
    #[test]
    fn a_slot_has_one_call() {
        let of = |base| [operand(base, Layout::contiguous([4].into()))];
        let (x, y) = (of(64), of(4096));
        let one = LaunchKey::new(&Add, &x, &x).expect("an op without attributes");
        let other = LaunchKey { inputs: &y, ..one };
        let mut calls = LaunchCache::default();
        calls.insert(&one, 1);
        calls.insert(&other, 2);
        assert_eq!((calls.find(&one), calls.find(&other)), (None, Some(&2)));
    }

    /// Attributes are part of a call and are not compared; a slot has room for a few operands.
    #[test]
    fn attributes_and_many_operands_are_not_cached() {
        let x = operand(64, Layout::contiguous([4].into()));
        let fill = Fill { spec: x.spec(), value: 1.0 };
        assert!(LaunchKey::new(&fill, &[], &[x]).is_none());
        assert!(LaunchKey::new(&Add, &[x; MAX_OPERANDS], &[x]).is_some());
        assert!(LaunchKey::new(&Add, &[x; MAX_OPERANDS + 1], &[x]).is_none());
    }
}
