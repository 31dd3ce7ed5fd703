//! Which memory holds results of a launch that read an index out of range.
//!
//! Such a fault belongs to the bytes that the launch wrote: reading any of them fails, on every thread and every time, until
//! they are overwritten; reading anything else succeeds. A replay counts as one launch. An update, or a launch that reads the
//! bytes that it writes, does not overwrite them.

use super::LaunchList;
use crate::contract::Op;
use crate::error::{Error, IndexFault};
use crate::values::{Address, Operand, Relation};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses of bytes.
pub(crate) type Bytes = Range<u64>;

/// The bytes that faulty launches wrote, with their faults.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Whether there are any: all that a launch without an index looks at.
    any: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    marks: Vec<(IndexFault, Vec<Bytes>)>,
    /// The first fault since the last synchronization.
    unreported: Option<IndexFault>,
}

impl Marks {
    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any bytes are marked.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Marks the bytes that a launch wrote.
    pub(crate) fn add(&self, fault: IndexFault, written: Vec<Bytes>) {
        let mut inner = self.locked();
        inner.unreported.get_or_insert(fault);
        inner.marks.push((fault, written));
        self.any.store(true, Relaxed);
    }

    /// These bytes were overwritten.
    pub(crate) fn overwritten(&self, bytes: &Bytes) {
        if self.any() {
            let mut inner = self.locked();
            inner.marks.iter_mut().for_each(|(_, spans)| cut(spans, bytes));
            inner.marks.retain(|(_, spans)| !spans.is_empty());
            self.any.store(!inner.marks.is_empty(), Relaxed);
        }
    }

    /// That none of these bytes is marked.
    pub(crate) fn check(&self, from: Address, bytes: usize) -> Result<(), Error> {
        if !self.any() {
            return Ok(());
        }
        let read = from.0..from.0 + bytes as u64;
        let inner = self.locked();
        let hit = inner.marks.iter().find(|(_, spans)| spans.iter().any(|s| overlap(s, &read)));
        hit.map_or(Ok(()), |(fault, _)| Err((*fault).into()))
    }

    /// The first fault that was not reported yet.
    pub(crate) fn report(&self) -> Result<(), Error> {
        if !self.any() {
            return Ok(());
        }
        self.locked().unreported.take().map_or(Ok(()), |fault| Err(fault.into()))
    }
}

fn overlap(a: &Bytes, b: &Bytes) -> bool {
    a.start < b.end && b.start < a.end
}

/// Takes bytes out of spans, in place: memory is needed only where one falls in two.
pub(crate) fn cut(spans: &mut Vec<Bytes>, bytes: &Bytes) {
    let mut at = 0;
    while let Some(s) = spans.get_mut(at) {
        if !overlap(s, bytes) {
            at += 1;
            continue;
        }
        let (left, right) = (s.start..bytes.start, bytes.end..s.end);
        match (left.is_empty(), right.is_empty()) {
            (true, true) => _ = spans.swap_remove(at),
            (false, true) => *s = left,
            (true, false) => *s = right,
            (false, false) => {
                *s = left;
                spans.push(right);
            }
        }
    }
}

/// The bytes of an operand.
pub(crate) fn span(operand: &Operand) -> Bytes {
    let (start, end) = operand.span();
    start..end
}

/// The bytes of a launch's outputs.
pub(crate) fn written(outputs: &[Operand]) -> Vec<Bytes> {
    outputs.iter().map(span).collect()
}

/// The bytes that a launch overwrites: outputs without gaps that are no updates and share no memory with an input.
pub(crate) fn overwritten<'a>(
    op: &'a dyn Op,
    inputs: &'a [Operand],
    outputs: &'a [Operand],
) -> impl Iterator<Item = Bytes> + 'a {
    let rules = op.outputs();
    let fresh = move |(j, o): &(usize, &Operand)| {
        rules.get(*j).is_some_and(|rule| rule.updated().is_none())
            && o.layout.is_contiguous()
            && inputs.iter().all(|i| o.relation(i) == Relation::Disjoint)
    };
    outputs.iter().enumerate().filter(fresh).map(|(_, o)| span(o))
}

/// The bytes that a replay of a list writes, and those of them that it overwrites.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) written: Vec<Bytes>,
    pub(crate) overwritten: Vec<Bytes>,
}

impl Footprint {
    pub(crate) fn of(list: &LaunchList) -> Self {
        let all = joined(list.launches.iter().flat_map(|l| written(&l.outputs)).collect());
        let fresh = list.launches.iter().flat_map(|l| overwritten(l.op.as_ref(), &l.inputs, &l.outputs));
        let mut overwritten = joined(fresh.collect());
        // What an update keeps of before the replay is not overwritten.
        for l in &list.launches {
            for (j, o) in l.outputs.iter().enumerate() {
                if l.op.outputs().get(j).is_some_and(|rule| rule.updated().is_some()) {
                    cut(&mut overwritten, &span(o));
                }
            }
        }
        Self { written: all, overwritten }
    }
}

/// Spans in ascending order, those that touch as one.
fn joined(mut spans: Vec<Bytes>) -> Vec<Bytes> {
    spans.retain(|s| s.start < s.end);
    spans.sort_by_key(|s| s.start);
    let mut all: Vec<Bytes> = Vec::new();
    for s in spans {
        match all.last_mut() {
            Some(last) if s.start <= last.end => last.end = last.end.max(s.end),
            _ => all.push(s),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_of_the_bytes_that_are_not_overwritten() {
        let fault = IndexFault { op: "gather", position: 3, value: 9, limit: 5 };
        let marks = Marks::default();
        assert!(!marks.any() && marks.report().is_ok() && marks.check(Address(0), 100).is_ok());
        marks.add(fault, vec![100..200, 300..310]);
        let reads = |from, bytes| marks.check(Address(from), bytes).is_err();
        assert!(reads(199, 1) && reads(0, 1000) && reads(305, 1) && !reads(200, 100) && !reads(90, 10));
        // Every time, and on every thread.
        assert!(reads(100, 1) && std::thread::scope(|s| s.spawn(|| reads(100, 1)).join().unwrap_or(false)));
        assert!(marks.report().is_err() && marks.report().is_ok(), "reported once");
        marks.overwritten(&(120..130));
        assert!(!reads(120, 10) && reads(119, 2) && reads(130, 1));
        marks.overwritten(&(0..250));
        assert!(!reads(0, 300) && marks.any());
        marks.overwritten(&(300..310));
        assert!(!marks.any());
    }

    #[test]
    fn spans_that_touch_are_one() {
        assert_eq!(joined(vec![8..12, 0..4, 4..6, 20..20, 10..16]), [0..6, 8..16]);
    }
}
