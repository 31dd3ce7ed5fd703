//! Which memory holds values that depend on an index out of range.
//!
//! A kernel clamps such an index, so its result is wrong and looks right. The fault travels with the value: a launch that reads
//! marked bytes marks what it writes, and one that reads none clears it. Reading marked bytes fails, on every thread and every
//! time; reading anything else succeeds.

use crate::error::{Error, IndexFault};
use crate::values::{MAX_RANK, Operand};
use arrayvec::ArrayVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses of bytes.
pub(crate) type Bytes = Range<u64>;

/// Marked bytes, each with the fault that its value depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// In ascending order, none overlaps another.
    marks: Vec<Mark>,
    /// The first fault since the last synchronization.
    unreported: Option<IndexFault>,
    /// The first fault of a value that another library has: it is reported, whatever becomes of the bytes.
    owed: Option<IndexFault>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    bytes: Bytes,
    fault: IndexFault,
}

impl Marks {
    /// Whether any bytes are marked, or a fault is to be reported.
    pub(crate) fn any(&self) -> bool {
        !self.marks.is_empty() || self.owed.is_some()
    }

    /// A launch read `inputs`, where it found this index out of range, and wrote `outputs` in full.
    pub(crate) fn launched(&mut self, fault: Option<IndexFault>, inputs: &[Operand], outputs: &[Operand]) {
        if fault.is_none() && self.marks.is_empty() {
            return;
        }
        self.unreported = self.unreported.or(fault);
        // Of several faults the one that an input depends on was first.
        let cause = inputs.iter().find_map(|input| self.of(input)).or(fault);
        outputs.iter().for_each(|output| self.set(&runs(output), cause));
    }

    /// The host or nobody needs what these bytes held.
    pub(crate) fn overwritten(&mut self, bytes: &Bytes) {
        self.set(std::slice::from_ref(bytes), None);
    }

    /// Another library has what these bytes hold, and reads it unseen.
    #[cfg(feature = "cuda")]
    pub(crate) fn left(&mut self, bytes: &Bytes) {
        self.owe(self.marks[self.within(bytes)].first().map(|mark| mark.fault));
        self.overwritten(bytes);
    }

    /// A fault that only a report can tell of.
    #[cfg(feature = "cuda")]
    pub(crate) fn owe(&mut self, fault: Option<IndexFault>) {
        self.owed = self.owed.or(fault);
    }

    /// That no element of this operand is marked.
    pub(crate) fn check(&self, operand: &Operand) -> Result<(), Error> {
        self.of(operand).map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// The first fault that was not reported yet.
    pub(crate) fn report(&mut self) -> Result<(), Error> {
        self.owed.take().or_else(|| self.unreported.take()).map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// The fault that an operand depends on.
    fn of(&self, operand: &Operand) -> Option<IndexFault> {
        let (start, end) = operand.span();
        let near = &self.marks[self.within(&(start..end))];
        if near.is_empty() || operand.layout.is_contiguous() {
            return near.first().map(|mark| mark.fault);
        }
        let runs = runs(operand);
        let hit = near.iter().find(|mark| overlapping(&runs, &mark.bytes).next().is_some());
        hit.map(|mark| mark.fault)
    }

    /// Whether any of these bytes is marked: what the log of a stream asks.
    #[cfg(feature = "cuda")]
    pub(crate) fn meet(&self, bytes: &Bytes) -> bool {
        !self.within(bytes).is_empty()
    }

    /// The marks that overlap a span.
    fn within(&self, span: &Bytes) -> Range<usize> {
        let first = self.marks.partition_point(|mark| mark.bytes.end <= span.start);
        let behind = self.marks.partition_point(|mark| mark.bytes.start < span.end);
        first..behind.max(first)
    }

    /// Marks these bytes, which are in ascending order, or clears them.
    fn set(&mut self, runs: &[Bytes], fault: Option<IndexFault>) {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return };
        let near = self.within(&(first.start..last.end));
        if near.is_empty() && fault.is_none() {
            return;
        }
        let mut rest = Vec::new();
        for Mark { bytes, fault } in &self.marks[near.clone()] {
            let mut from = bytes.start;
            for run in overlapping(runs, bytes) {
                rest.push(Mark { bytes: from..run.start, fault: *fault });
                from = run.end;
            }
            rest.push(Mark { bytes: from..bytes.end, fault: *fault });
        }
        rest.extend(
            fault
                .into_iter()
                .flat_map(|fault| runs.iter().map(move |bytes| Mark { bytes: bytes.clone(), fault })),
        );
        rest.retain(|mark| mark.bytes.start < mark.bytes.end);
        rest.sort_unstable_by_key(|mark| mark.bytes.start);
        self.marks.splice(near, rest);
        if self.marks.is_empty() {
            self.unreported = None;
        }
    }
}

/// Marks that many threads share.
#[derive(Debug, Default)]
pub(crate) struct SharedMarks {
    /// Whether there are any: all that a sound launch looks at.
    any: AtomicBool,
    marks: Mutex<Marks>,
}

impl SharedMarks {
    fn locked(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// As [`Marks::launched`].
    #[inline]
    pub(crate) fn launched(&self, fault: Option<IndexFault>, inputs: &[Operand], outputs: &[Operand]) {
        if fault.is_some() || self.any() {
            self.change(|marks| marks.launched(fault, inputs, outputs));
        }
    }

    /// As [`Marks::overwritten`].
    pub(crate) fn overwritten(&self, bytes: &Bytes) {
        if self.any() {
            self.change(|marks| marks.overwritten(bytes));
        }
    }

    #[cold]
    fn change(&self, by: impl FnOnce(&mut Marks)) {
        let mut marks = self.locked();
        by(&mut marks);
        self.any.store(marks.any(), Relaxed);
    }

    /// As [`Marks::check`].
    pub(crate) fn check(&self, operand: &Operand) -> Result<(), Error> {
        if self.any() { self.locked().check(operand) } else { Ok(()) }
    }

    /// As [`Marks::report`].
    pub(crate) fn report(&self) -> Result<(), Error> {
        if self.any() { self.locked().report() } else { Ok(()) }
    }
}

/// Those of these spans, which are in ascending order, that overlap another.
fn overlapping<'a>(spans: &'a [Bytes], with: &Bytes) -> impl Iterator<Item = &'a Bytes> {
    let first = spans.partition_point(|span| span.end <= with.start);
    let behind = spans.partition_point(|span| span.start < with.end);
    spans[first..behind.max(first)].iter()
}

/// The bytes of an operand's elements without the gaps between them, in ascending order.
fn runs(operand: &Operand) -> Vec<Bytes> {
    let ((start, end), size) = (operand.span(), operand.dtype.size() as u64);
    if start == end {
        return Vec::new();
    }
    let (dims, strides) = (operand.layout.shape().dims(), operand.layout.strides());
    let mut axes: ArrayVec<(u64, u64), MAX_RANK> = ArrayVec::new();
    axes.extend(dims.iter().zip(strides).map(|(&d, &s)| (s as u64 * size, d as u64)));
    axes.sort_unstable();
    let (mut run, mut dense) = (size, 0);
    while let Some(&(step, count)) = axes.get(dense).filter(|(step, count)| *step <= run || *count == 1) {
        (run, dense) = (run.max(step * (count - 1) + run), dense + 1);
    }
    let mut starts = vec![start];
    for &(step, count) in axes[dense..].iter().rev() {
        starts = starts.iter().flat_map(|&at| (0..count).map(move |i| at + i * step)).collect();
    }
    joined(starts.into_iter().map(|at| at..at + run).collect())
}

/// Spans in ascending order, those that touch as one.
pub(crate) fn joined(mut spans: Vec<Bytes>) -> Vec<Bytes> {
    spans.retain(|s| s.start < s.end);
    spans.sort_unstable_by_key(|s| s.start);
    let mut all: Vec<Bytes> = Vec::with_capacity(spans.len());
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
    use crate::values::{Address, DType, Layout};

    const FAULT: IndexFault = IndexFault { op: "gather", position: 3, value: 9, limit: 5 };

    fn bytes(from: u64, to: u64) -> Operand {
        Operand::bytes(Address(from), (to - from) as usize)
    }

    /// Column `column` of `rows` rows of `columns` elements of four bytes at 0.
    fn column(column: usize, rows: usize, columns: usize) -> Operand {
        let all = Layout::contiguous([rows, columns].into());
        let layout = all.slice(1, column, 1, 1).expect("a column");
        Operand { base: Address(0), dtype: DType::F32, layout }
    }

    #[test]
    fn marks_are_of_the_bytes_that_are_not_overwritten() {
        let marks = SharedMarks::default();
        let reads = |from, to| marks.check(&bytes(from, to)).is_err();
        assert!(!marks.any() && marks.report().is_ok() && !reads(0, 100));
        marks.launched(Some(FAULT), &[], &[bytes(100, 200), bytes(300, 310)]);
        assert!(reads(199, 200) && reads(0, 1000) && reads(305, 306) && !reads(200, 300) && !reads(90, 100));
        // Every time, and on every thread.
        assert!(
            reads(100, 101) && std::thread::scope(|s| s.spawn(|| reads(100, 101)).join().unwrap_or(false))
        );
        assert!(marks.report().is_err() && marks.report().is_ok(), "reported once");
        marks.overwritten(&(120..130));
        assert!(!reads(120, 130) && reads(119, 121) && reads(130, 131));
        marks.overwritten(&(0..250));
        assert!(!reads(0, 300) && marks.any());
        marks.overwritten(&(300..310));
        assert!(!marks.any());
    }

    /// What another library took before the host knew is reported once, whatever it or the engine writes there since.
    #[cfg(feature = "cuda")]
    #[test]
    fn a_fault_in_memory_of_others_is_reported() {
        let mut marks = Marks::default();
        marks.left(&(0..1000));
        assert!(!marks.any() && marks.report().is_ok());
        marks.launched(Some(FAULT), &[], &[bytes(100, 200)]);
        marks.left(&(100..200));
        assert!(marks.any() && marks.check(&bytes(100, 200)).is_ok());
        marks.launched(Some(FAULT), &[], &[bytes(300, 310)]);
        marks.overwritten(&(300..310));
        assert!(marks.report().is_err() && marks.report().is_ok() && !marks.any());
    }

    /// What reads a mark passes it on, what reads none takes it away, and the first fault stays.
    #[test]
    fn a_fault_travels_with_the_value() {
        let marks = SharedMarks::default();
        let fault = |from, to| marks.check(&bytes(from, to)).err();
        let error = |fault: IndexFault| Some(Error::from(fault).to_string());
        let later = IndexFault { op: "scatter_add", ..FAULT };
        marks.launched(Some(FAULT), &[bytes(0, 10)], &[bytes(10, 20)]);
        marks.launched(None, &[bytes(0, 10), bytes(15, 30)], &[bytes(40, 50)]);
        marks.launched(Some(later), &[bytes(45, 46)], &[bytes(60, 70)]);
        marks.launched(Some(later), &[bytes(0, 10)], &[bytes(80, 90)]);
        assert_eq!(fault(60, 70).map(|e| e.to_string()), error(FAULT));
        assert_eq!(fault(80, 90).map(|e| e.to_string()), error(later));
        // In place nothing is overwritten.
        marks.launched(None, &[bytes(40, 50)], &[bytes(40, 50)]);
        assert!(fault(40, 50).is_some());
        marks.launched(None, &[bytes(0, 10)], &[bytes(40, 50)]);
        assert!(fault(40, 50).is_none() && fault(10, 20).is_some() && fault(0, 10).is_none());
    }

    /// The gaps between strided elements belong to others.
    #[test]
    fn gaps_are_not_marked() {
        let marks = SharedMarks::default();
        let reads = |c| marks.check(&column(c, 5, 3)).is_err();
        marks.launched(Some(FAULT), &[], &[column(1, 5, 3)]);
        assert!(!reads(0) && reads(1) && !reads(2) && marks.check(&bytes(0, 60)).is_err());
        marks.launched(None, &[], &[column(0, 5, 3)]);
        assert!(reads(1));
        marks.launched(None, &[], &[column(1, 5, 3)]);
        assert!(!marks.any());
    }

    #[test]
    fn runs_are_the_bytes_of_the_elements() {
        let cube = Layout::contiguous([2, 3, 4].into());
        let of = |layout: Layout| runs(&Operand { base: Address(8), dtype: DType::F32, layout });
        let one = |start: u64, end: u64| std::iter::once(start..end).collect::<Vec<_>>();
        assert_eq!(of(cube), one(8, 104));
        assert_eq!(of(cube.permute(&[2, 0, 1]).expect("axes")), one(8, 104));
        assert_eq!(of(cube.slice(1, 1, 1, 1).expect("a slice")), [24..40, 72..88]);
        assert_eq!(
            of(cube.slice(2, 0, 2, 2).expect("a slice")),
            (0..12).map(|i| 8 + i * 8..12 + i * 8).collect::<Vec<_>>()
        );
        assert_eq!(of(Layout::strided([5, 2].into(), &[0, 1], 3).expect("a layout")), one(20, 28));
        assert_eq!(of(Layout::contiguous([3, 0].into())), []);
        assert_eq!(of(Layout::SCALAR), one(8, 12));
    }

    #[test]
    fn spans_that_touch_are_one() {
        assert_eq!(joined(vec![8..12, 0..4, 4..6, 20..20, 10..16]), [0..6, 8..16]);
    }
}
