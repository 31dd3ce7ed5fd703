//! Records in which kernels report an index out of range, and what the host makes of them.
//!
//! Every launch that checks an index has a record of its own, and so has every such op of a captured graph, for all of its
//! replays. A kernel that finds an index out of range fills in its record and sets one flag. The host reads the flag with
//! every copy from the device; only if it is set does it read the records, and marks what depends on those launches: from the
//! first that it does not know to be sound, it has a [`Log`] of all that was issued.

use super::driver::Pinned;
use super::locked;
use super::log::{Flow, Gone, Log};
use super::stream::Stream;
use crate::device::faults::Marks;
use crate::error::{Error, IndexFault};
use crate::values::{Address, Operand};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of a record, `FaultRecord` in `prelude.cu`; the flag has as many in front of them.
const RECORD: usize = 32;
/// Number of records: launches that check an index between two reads, and such ops of captured graphs.
const RECORDS: usize = 1024;
/// The record of all eager launches that another library's graph captured: how many these are, and whether they are replayed, nobody
/// tells.
const CAPTURED: u32 = RECORDS as u32 - 1;
/// What such launches are called where they are of several ops.
const OF_A_GRAPH: &str = "an op of a captured graph";

/// The records of a device.
#[derive(Debug)]
pub(super) struct Faults {
    memory: Address,
    /// Whether there are marks, or launches that may turn out to need some: all that a launch without an index looks at.
    watching: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The host's copies: of the flag, and of the records.
    flag: Pinned,
    copies: Pinned,
    /// What the host knows of each record.
    records: Box<[Record]>,
    /// Records that nobody has.
    free: Vec<u32>,
    /// Records of launches and replays that the host does not yet know to be sound.
    pending: Vec<u32>,
    /// What was issued while any were pending. Its memory is kept: a launch allocates nothing.
    log: Log,
    /// Captured graphs that another library's graph replays unseen, so that their records may be filled in at any time.
    lent: Vec<Arc<Flow>>,
    /// The op of the launches of [`CAPTURED`].
    captured: Option<&'static str>,
    marks: Marks,
    /// How often the host looked. A launch that was issued while it looked may have set the flag just before that was cleared,
    /// so the next look reads the records in any case.
    looks: u64,
    suspect: bool,
}

/// What the host knows of a record.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    op: &'static str,
    pending: bool,
    /// Whether it belongs to a captured graph, which keeps it.
    kept: bool,
}

impl Inner {
    /// What reports to this record was issued.
    fn issued(&mut self, taken: Taken, op: &'static str, kept: bool) {
        self.suspect |= self.looks != taken.looks;
        let record = &mut self.records[taken.record as usize];
        (record.op, record.kept) = (op, kept);
        if !std::mem::replace(&mut record.pending, true) {
            self.pending.push(taken.record);
        }
    }

    /// Whether launches are followed: bytes are marked, or may turn out to be.
    fn watches(&self) -> bool {
        !self.pending.is_empty() || self.marks.any()
    }
}

/// A record of a launch that is about to be issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) record: u32,
    looks: u64,
}

/// The records of a captured graph, one for each op that checks an index.
pub(super) type Records = Vec<(Taken, &'static str)>;

impl Faults {
    /// Bytes of device memory that the records take.
    pub(super) const BYTES: usize = RECORD * (RECORDS + 1);

    /// Records in this memory, which is zeroed.
    pub(super) fn new(memory: Address) -> Result<Self, Error> {
        let inner = Inner {
            flag: Pinned::new(RECORD)?,
            copies: Pinned::new(RECORD * RECORDS)?,
            records: vec![Record::default(); RECORDS].into(),
            free: (0..CAPTURED).rev().collect(),
            pending: Vec::with_capacity(RECORDS),
            log: Log::new(),
            lent: Vec::new(),
            captured: None,
            marks: Marks::default(),
            looks: 0,
            suspect: false,
        };
        Ok(Self { memory, watching: AtomicBool::new(false), inner: Mutex::new(inner) })
    }

    pub(super) fn memory(&self) -> Address {
        self.memory
    }

    /// The addresses of a record and of the flag.
    pub(super) fn addresses(&self, taken: Taken) -> [Address; 2] {
        [self.memory.offset(RECORD * (taken.record as usize + 1)), self.memory]
    }

    /// A record that nobody has. If all are pending, the host looks which are sound.
    ///
    /// # Errors
    /// More ops of captured graphs check an index than there are records; a device fault.
    pub(super) fn take(&self, stream: &Stream) -> Result<Taken, Error> {
        for _ in 0..2 {
            let mut inner = locked(&self.inner);
            if let Some(record) = inner.free.pop() {
                return Ok(Taken { record, looks: inner.looks });
            }
            drop(inner);
            self.look(stream)?;
        }
        let what =
            format!("all {RECORDS} records for an index out of range belong to programs; drop one of them");
        Err(Error::Capture { what })
    }

    /// The record of an eager launch that another library's graph captures: taking one of its own would wait where all are pending, which
    /// a capture does not allow, and nobody would give it back.
    pub(super) fn take_captured(&self) -> Taken {
        Taken { record: CAPTURED, looks: locked(&self.inner).looks }
    }

    /// The number of looks before a replay.
    pub(super) fn looks(&self) -> u64 {
        locked(&self.inner).looks
    }

    /// A launch of `op` was issued, which reports to this record if it checks an index.
    ///
    /// # Errors
    /// A device fault, where the host had to look.
    pub(super) fn launched(
        &self,
        stream: &Stream,
        (op, record): (&'static str, Option<Taken>),
        inputs: &[Operand],
        outputs: &[Operand],
    ) -> Result<(), Error> {
        if record.is_none() && !self.watching() {
            return Ok(());
        }
        let mut inner = locked(&self.inner);
        let is_captured = record.is_some_and(|taken| taken.record == CAPTURED);
        if is_captured {
            inner.captured =
                Some(if inner.captured.is_none_or(|other| other == op) { op } else { OF_A_GRAPH });
        }
        let record = record.filter(|_| !is_captured);
        if let Some(taken) = record {
            inner.issued(taken, op, false);
        }
        if inner.pending.is_empty() {
            inner.marks.launched(None, inputs, outputs);
        } else {
            inner.log.launch(record.map(|taken| taken.record), inputs, outputs);
        }
        self.noted(stream, inner)
    }

    /// Something was noted in the log; the host looks where that is full.
    fn noted(&self, stream: &Stream, inner: MutexGuard<'_, Inner>) -> Result<(), Error> {
        self.watching.store(inner.watches(), Relaxed);
        let full = inner.log.is_full();
        drop(inner);
        if full && !stream.is_captured() { self.look(stream) } else { Ok(()) }
    }

    /// The launch that this record was taken for was not issued.
    pub(super) fn unused(&self, taken: Taken) {
        if taken.record != CAPTURED {
            locked(&self.inner).free.push(taken.record);
        }
    }

    /// A captured graph was replayed.
    ///
    /// # Errors
    /// As [`launched`](Self::launched).
    pub(super) fn replayed(&self, stream: &Stream, flow: &Arc<Flow>, looks: u64) -> Result<(), Error> {
        if flow.records.is_empty() && !self.watching() {
            return Ok(());
        }
        let mut inner = locked(&self.inner);
        for &(Taken { record, .. }, op) in &flow.records {
            inner.issued(Taken { record, looks }, op, true);
        }
        if inner.pending.is_empty() {
            flow.follow(1, &mut inner.marks, |_| None);
        } else {
            inner.log.replay(flow);
        }
        self.noted(stream, inner)
    }

    /// A captured graph became a part of another library's graph, which replays it unseen: from now on its records are read at
    /// every look.
    pub(super) fn lent(&self, flow: &Arc<Flow>) {
        if flow.records.is_empty() {
            return;
        }
        let mut inner = locked(&self.inner);
        for &(Taken { record, .. }, op) in &flow.records {
            inner.records[record as usize] = Record { op, kept: true, ..inner.records[record as usize] };
        }
        if !inner.lent.iter().any(|other| Arc::ptr_eq(other, flow)) {
            inner.lent.push(Arc::clone(flow));
        }
    }

    /// Whether a launch has anything to do here.
    #[inline]
    pub(super) fn watching(&self) -> bool {
        self.watching.load(Relaxed)
    }

    /// These bytes hold no value of the engine's any more.
    pub(super) fn gone(&self, bytes: Gone) {
        if self.watching() {
            let mut inner = locked(&self.inner);
            if inner.pending.is_empty() {
                bytes.tell(&mut inner.marks);
            } else {
                inner.log.gone(bytes);
            }
            self.watching.store(inner.watches(), Relaxed);
        }
    }

    /// Copies bytes to the host, after everything issued before, unless they depend on an index out of range.
    pub(super) fn read(&self, stream: &Stream, from: &Operand, data: &mut [u8]) -> Result<(), Error> {
        let mut inner = locked(&self.inner);
        stream.read_back(self.memory, inner.flag.bytes_mut(), Address(from.span().0), data)?;
        self.inspect(&mut inner, stream)?;
        inner.marks.check(from)
    }

    /// Whether the host has to wait for the device before it knows what is sound.
    pub(super) fn waits(&self) -> bool {
        self.watching() && !locked(&self.inner).pending.is_empty()
    }

    /// That an operand does not depend on an index out of range, as far as the host knows.
    pub(super) fn check(&self, operand: &Operand) -> Result<(), Error> {
        if self.watching() { locked(&self.inner).marks.check(operand) } else { Ok(()) }
    }

    /// Waits for everything issued, and reports the first index out of range since the last time.
    pub(super) fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        let inner = locked(&self.inner);
        let looks = inner.watches() || !inner.lent.is_empty() || inner.captured.is_some();
        drop(inner);
        if !looks {
            return stream.synchronize();
        }
        self.look(stream)?;
        locked(&self.inner).marks.report()
    }

    /// Waits for everything issued, and marks what depends on faulty launches.
    pub(super) fn look(&self, stream: &Stream) -> Result<(), Error> {
        let mut inner = locked(&self.inner);
        stream.read_back(self.memory, inner.flag.bytes_mut(), self.memory, &mut [])?;
        self.inspect(&mut inner, stream)
    }

    /// Gives records of a captured graph back, after a look at them.
    pub(super) fn give_back(&self, records: &[(Taken, &'static str)]) {
        let mut inner = locked(&self.inner);
        let given = |record: u32| records.iter().any(|(taken, _)| taken.record == record);
        inner.pending.retain(|&record| !given(record));
        inner.lent.retain(|flow| !flow.records.iter().any(|(taken, _)| given(taken.record)));
        for (taken, _) in records {
            let record = &mut inner.records[taken.record as usize];
            record.pending = false;
            inner.free.push(taken.record);
        }
    }

    /// What the copied flag means for the launches that are pending; the stream is synchronized.
    fn inspect(&self, inner: &mut Inner, stream: &Stream) -> Result<(), Error> {
        inner.looks += 1;
        if inner.pending.is_empty() && inner.lent.is_empty() && inner.captured.is_none() {
            return Ok(());
        }
        if let Some(op) = inner.captured {
            inner.records[CAPTURED as usize].op = op;
        }
        let word = |bytes: &[u8], at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let flagged = std::mem::take(&mut inner.suspect) || word(inner.flag.bytes_mut(), 0) as u32 != 0;
        if flagged {
            stream.read_back(self.memory.offset(RECORD), inner.copies.bytes_mut(), self.memory, &mut [])?;
            stream.fill(self.memory, RECORD, 0)?;
        }
        let Inner { copies, records, free, pending, log, lent, captured, marks, .. } = inner;
        let mut found: Vec<(u32, IndexFault)> = Vec::new();
        let of_lent = lent.iter().flat_map(|flow| &flow.records).map(|(taken, _)| taken.record);
        let of_captured = captured.map(|_| CAPTURED);
        for number in pending.iter().copied().chain(of_lent).chain(of_captured).filter(|_| flagged) {
            let at = number as usize * RECORD;
            let [taken, position, value, limit] = [0, 8, 16, 24].map(|k| word(copies.bytes_mut(), at + k));
            if taken as u32 != 0 {
                stream.fill(self.memory.offset(at + RECORD), RECORD, 0)?;
                let (op, position, limit) = (records[number as usize].op, position as usize, limit as usize);
                found.push((number, IndexFault { op, position, value: value as i64, limit }));
            }
        }
        let fault = |record: u32| found.iter().find(|(number, _)| *number == record).map(|(_, fault)| *fault);
        log.follow(marks, fault);
        // These may have been replayed at any time, and were not noted.
        let reports = |flow: &&Arc<Flow>| flow.records.iter().any(|(taken, _)| fault(taken.record).is_some());
        lent.iter().filter(reports).for_each(|flow| flow.follow(1, marks, fault));
        // What such launches wrote is the other library's to know.
        marks.owe(fault(CAPTURED));
        for number in pending.drain(..) {
            let record = &mut records[number as usize];
            record.pending = false;
            if !record.kept {
                free.push(number);
            }
        }
        self.watching.store(inner.watches(), Relaxed);
        Ok(())
    }
}
