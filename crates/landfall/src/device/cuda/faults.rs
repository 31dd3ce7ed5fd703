//! Records in which kernels report an index out of range, and what the host makes of them.
//!
//! Every launch that checks an index has a record of its own, and so has every such op of a captured graph, for all of its
//! replays. A kernel that finds an index out of range fills in its record and sets one flag. The host reads the flag with
//! every copy from the device; only if it is set does it read the records, and marks the bytes that those launches wrote.

use super::driver::Pinned;
use super::locked;
use super::stream::Stream;
use crate::contract::MAX_OUTPUTS;
use crate::device::faults::{Bytes, Footprint, Marks, cut, span};
use crate::error::{Error, IndexFault};
use crate::values::{Address, Operand};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of a record, `FaultRecord` in `prelude.cu`; the flag has as many in front of them.
const RECORD: usize = 32;
/// Number of records: launches that check an index between two reads, and such ops of captured graphs.
const RECORDS: usize = 1024;

/// The records of a device.
#[derive(Debug)]
pub(super) struct Faults {
    memory: Address,
    /// Whether any bytes are to be watched: all that a launch without an index looks at.
    watching: AtomicBool,
    inner: Mutex<Inner>,
    marks: Marks,
}

#[derive(Debug)]
struct Inner {
    /// The host's copies: of the flag, and of the records.
    flag: Pinned,
    copies: Pinned,
    /// What the host knows of each record. Their memory is kept: a launch allocates nothing.
    records: Box<[Record]>,
    /// Records that nobody has.
    free: Vec<u32>,
    /// Records of launches and replays that the host does not yet know to be sound.
    pending: Vec<u32>,
    /// How often the host looked. A launch that was issued while it looked may have set the flag just before that was cleared,
    /// so the next look reads the records in any case.
    looks: u64,
    suspect: bool,
}

/// What the host knows of a record.
#[derive(Debug)]
struct Record {
    op: &'static str,
    /// The bytes that were written and that nobody overwrote since.
    written: Vec<Bytes>,
    pending: bool,
    /// Whether it belongs to a captured graph, which keeps it.
    kept: bool,
    /// Whether another library's graph replays it, so that it may report at any time.
    lent: bool,
}

impl Inner {
    /// What reports to this record was issued.
    fn issued(&mut self, taken: Taken, op: &'static str, kept: bool, written: impl FnOnce(&mut Vec<Bytes>)) {
        self.suspect |= self.looks != taken.looks;
        let record = &mut self.records[taken.record as usize];
        (record.op, record.kept) = (op, kept);
        written(&mut record.written);
        if !std::mem::replace(&mut record.pending, true) {
            self.pending.push(taken.record);
        }
    }
}

/// A record of a launch that is about to be issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    record: u32,
    looks: u64,
}

/// The records of a captured graph, one for each op that checks an index.
pub(super) type Records = Vec<(Taken, &'static str)>;

impl Faults {
    /// Bytes of device memory that the records take.
    pub(super) const BYTES: usize = RECORD * (RECORDS + 1);

    /// Records in this memory, which is zeroed.
    pub(super) fn new(memory: Address) -> Result<Self, Error> {
        let record = || Record {
            op: "",
            written: Vec::with_capacity(MAX_OUTPUTS),
            pending: false,
            kept: false,
            lent: false,
        };
        let inner = Inner {
            flag: Pinned::new(RECORD)?,
            copies: Pinned::new(RECORD * RECORDS)?,
            records: std::iter::repeat_with(record).take(RECORDS).collect(),
            free: (0..RECORDS as u32).rev().collect(),
            pending: Vec::with_capacity(RECORDS),
            looks: 0,
            suspect: false,
        };
        Ok(Self {
            memory,
            watching: AtomicBool::new(false),
            inner: Mutex::new(inner),
            marks: Marks::default(),
        })
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

    /// The number of looks before a replay.
    pub(super) fn looks(&self) -> u64 {
        locked(&self.inner).looks
    }

    /// A launch of `op` that reports to this record was issued, and wrote these outputs.
    pub(super) fn issued(&self, taken: Taken, op: &'static str, outputs: &[Operand]) {
        locked(&self.inner).issued(taken, op, false, |written| {
            written.clear();
            written.extend(outputs.iter().map(span));
        });
        self.watching.store(true, Relaxed);
    }

    /// The launch that this record was taken for was not issued.
    pub(super) fn unused(&self, taken: Taken) {
        locked(&self.inner).free.push(taken.record);
    }

    /// Room for the bytes that a captured graph writes, so that its first replay allocates nothing either.
    pub(super) fn reserve(&self, records: &[(Taken, &'static str)], footprint: &Footprint) {
        let mut inner = locked(&self.inner);
        for (taken, _) in records {
            inner.records[taken.record as usize].written.reserve(footprint.written.len());
        }
    }

    /// A captured graph whose ops report to these records was replayed.
    pub(super) fn replayed(&self, records: &[(Taken, &'static str)], footprint: &Footprint, looks: u64) {
        let mut inner = locked(&self.inner);
        let Inner { records: all, pending, .. } = &mut *inner;
        // Of its own records the bytes are noted anew below.
        let own = |record: u32| records.iter().any(|(taken, _)| taken.record == record);
        for bytes in &footprint.overwritten {
            pending.iter().filter(|r| !own(**r)).for_each(|&r| cut(&mut all[r as usize].written, bytes));
            self.marks.overwritten(bytes);
        }
        for &(Taken { record, .. }, op) in records {
            let written = |to: &mut Vec<Bytes>| to.clone_from(&footprint.written);
            inner.issued(Taken { record, looks }, op, true, written);
            self.watching.store(true, Relaxed);
        }
    }

    /// A captured graph whose ops report to these records became a part of another library's graph, which replays it
    /// unseen: from now on its records are read at every look.
    pub(super) fn lent(&self, records: &[(Taken, &'static str)], footprint: &Footprint) {
        self.replayed(records, footprint, self.looks());
        let mut inner = locked(&self.inner);
        records.iter().for_each(|(taken, _)| inner.records[taken.record as usize].lent = true);
    }

    /// Whether [`overwritten`](Self::overwritten) has anything to do.
    #[inline]
    pub(super) fn watching(&self) -> bool {
        self.watching.load(Relaxed) || self.marks.any()
    }

    /// These bytes were overwritten.
    pub(super) fn overwritten(&self, bytes: &Bytes) {
        if self.watching() {
            let mut inner = locked(&self.inner);
            let Inner { records, pending, .. } = &mut *inner;
            pending.iter().for_each(|&r| cut(&mut records[r as usize].written, bytes));
            drop(inner);
            self.marks.overwritten(bytes);
        }
    }

    /// Copies bytes to the host, after everything issued before, unless a launch that read an index out of range wrote them.
    pub(super) fn read(&self, stream: &Stream, from: Address, data: &mut [u8]) -> Result<(), Error> {
        let mut inner = locked(&self.inner);
        stream.read_back(self.memory, inner.flag.bytes_mut(), from, data)?;
        self.inspect(&mut inner, stream)?;
        self.marks.check(from, data.len())
    }

    /// Waits for everything issued, and reports the first index out of range since the last time.
    pub(super) fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        if !self.watching() {
            return stream.synchronize();
        }
        self.look(stream)?;
        self.marks.report()
    }

    /// Waits for everything issued, and marks what faulty launches wrote.
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
        for (taken, _) in records {
            let record = &mut inner.records[taken.record as usize];
            (record.pending, record.lent) = (false, false);
            inner.free.push(taken.record);
        }
    }

    /// What the copied flag means for the launches that are pending; the stream is synchronized.
    fn inspect(&self, inner: &mut Inner, stream: &Stream) -> Result<(), Error> {
        inner.looks += 1;
        if inner.pending.is_empty() {
            return Ok(());
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
        let Inner { copies, records, free, pending, .. } = inner;
        for &number in pending.iter() {
            let at = number as usize * RECORD;
            let [taken, position, value, limit] = [0, 8, 16, 24].map(|k| word(copies.bytes_mut(), at + k));
            let record = &mut records[number as usize];
            record.pending = record.lent;
            if flagged && taken as u32 != 0 {
                stream.fill(self.memory.offset(at + RECORD), RECORD, 0)?;
                let (position, limit) = (position as usize, limit as usize);
                let fault = IndexFault { op: record.op, position, value: value as i64, limit };
                self.marks.add(fault, record.written.clone());
            }
            if !record.kept {
                free.push(number);
            }
        }
        pending.retain(|&number| records[number as usize].pending);
        self.watching.store(!pending.is_empty(), Relaxed);
        Ok(())
    }
}
