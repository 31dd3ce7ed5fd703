//! What was issued while the host does not know of each launch whether it found an index out of range, in order: when it knows,
//! it follows the faults through the launches. Issuing costs a note of the operands, and nothing is waited for.

use super::faults::Records;
use crate::device::LaunchList;
use crate::device::faults::{Bytes, Marks, joined};
use crate::error::IndexFault;
use crate::values::Operand;
use std::sync::Arc;

/// Operands of the launches of a log, after which the host looks. Three of a launch: thousands of launches between two looks.
const OPERANDS: usize = 1 << 14;

/// Launches that were issued, in order.
#[derive(Debug)]
pub(super) struct Log {
    events: Vec<Event>,
    /// The operands of eager launches, one launch after the other.
    operands: Vec<Operand>,
}

#[derive(Debug)]
enum Event {
    /// An eager launch: where it reports, and the numbers of its inputs and outputs.
    Launch {
        record: Option<u32>,
        inputs: usize,
        outputs: usize,
    },
    Gone(Gone),
    /// A captured graph, so many times in a row.
    Replay {
        of: Arc<Flow>,
        times: usize,
    },
}

/// Bytes that hold no value of the engine's any more.
#[derive(Debug)]
pub(super) enum Gone {
    /// The host wrote them, or gave them back.
    Overwritten(Bytes),
    /// Another library has what they hold, and did not wait.
    Left(Bytes),
}

impl Gone {
    pub(super) fn tell(&self, marks: &mut Marks) {
        match self {
            Self::Overwritten(bytes) => marks.overwritten(bytes),
            Self::Left(bytes) => marks.left(bytes),
        }
    }
}

/// What a captured graph reads and writes.
#[derive(Debug)]
pub(super) struct Flow {
    list: LaunchList,
    /// All that it reads or writes.
    touched: Vec<Bytes>,
    /// Where its ops report an index out of range.
    pub(super) records: Records,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { events: Vec::with_capacity(OPERANDS), operands: Vec::with_capacity(OPERANDS) }
    }

    /// Whether the host should look before more is issued. More is noted all the same, with memory of its own.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= OPERANDS || self.operands.len() + 64 > OPERANDS
    }

    pub(super) fn launch(&mut self, record: Option<u32>, inputs: &[Operand], outputs: &[Operand]) {
        self.operands.extend_from_slice(inputs);
        self.operands.extend_from_slice(outputs);
        self.events.push(Event::Launch { record, inputs: inputs.len(), outputs: outputs.len() });
    }

    pub(super) fn gone(&mut self, bytes: Gone) {
        self.events.push(Event::Gone(bytes));
    }

    pub(super) fn replay(&mut self, flow: &Arc<Flow>) {
        match self.events.last_mut() {
            Some(Event::Replay { of, times }) if Arc::ptr_eq(of, flow) => *times += 1,
            _ => self.events.push(Event::Replay { of: Arc::clone(flow), times: 1 }),
        }
    }

    /// Forgets what was issued, and tells the marks of it; `fault` is what a record holds.
    pub(super) fn follow(&mut self, marks: &mut Marks, fault: impl Fn(u32) -> Option<IndexFault>) {
        let mut rest = &self.operands[..];
        for event in self.events.drain(..) {
            match event {
                Event::Launch { record, inputs, outputs } => {
                    let (operands, behind) = rest.split_at(inputs + outputs);
                    let (inputs, outputs) = operands.split_at(inputs);
                    marks.launched(record.and_then(&fault), inputs, outputs);
                    rest = behind;
                }
                Event::Gone(bytes) => bytes.tell(marks),
                Event::Replay { of, times } => of.follow(times, marks, &fault),
            }
        }
        self.operands.clear();
    }
}

impl Flow {
    pub(super) fn new(list: LaunchList, records: Records) -> Self {
        let operands = list.launches.iter().flat_map(|l| l.inputs.iter().chain(&l.outputs));
        let spans = operands.map(|o| {
            let (start, end) = o.span();
            start..end
        });
        Self { touched: joined(spans.collect()), list, records }
    }

    /// Tells the marks of so many replays. An op that reports a fault may have found it in any of them, and in any of its
    /// launches.
    pub(super) fn follow(&self, times: usize, marks: &mut Marks, fault: impl Fn(u32) -> Option<IndexFault>) {
        let found: Vec<IndexFault> =
            self.records.iter().filter_map(|(taken, _)| fault(taken.record)).collect();
        if found.is_empty() && !self.touched.iter().any(|bytes| marks.meet(bytes)) {
            return;
        }
        for _ in 0..times {
            let before = marks.clone();
            for launch in self.list.sequence() {
                let own = found.iter().find(|fault| fault.op == launch.op.name()).copied();
                marks.launched(own, &launch.inputs, &launch.outputs);
            }
            // What a replay keeps of those before it is then marked, too.
            if *marks == before {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Address;

    const FAULT: IndexFault = IndexFault { op: "gather", position: 3, value: 9, limit: 5 };

    fn bytes(from: u64, to: u64) -> Operand {
        Operand::bytes(Address(from), (to - from) as usize)
    }

    /// What was issued behind a faulty launch, in order; what was issued before it is not concerned.
    #[test]
    fn a_fault_is_followed_from_its_launch_on() {
        for faulty in [false, true] {
            let (mut log, mut marks) = (Log::new(), Marks::default());
            log.launch(None, &[bytes(0, 10)], &[bytes(100, 110)]);
            log.launch(Some(7), &[bytes(20, 30)], &[bytes(0, 10)]);
            log.launch(Some(8), &[bytes(20, 30)], &[bytes(10, 20)]);
            log.launch(None, &[bytes(40, 50), bytes(5, 6)], &[bytes(50, 60)]);
            log.launch(None, &[bytes(10, 20)], &[bytes(70, 80)]);
            log.launch(None, &[bytes(50, 60)], &[bytes(80, 90)]);
            log.gone(Gone::Overwritten(50..60));
            log.launch(None, &[bytes(50, 60)], &[bytes(90, 100)]);
            log.follow(&mut marks, |record| (faulty && record == 7).then_some(FAULT));
            for (from, marked) in
                [(0, true), (10, false), (50, false), (70, false), (80, true), (90, false), (100, false)]
            {
                assert_eq!(marks.check(&bytes(from, from + 10)).is_err(), faulty && marked, "{from}");
            }
            // It is forgotten.
            log.follow(&mut marks, |_| Some(FAULT));
            assert!(marks.check(&bytes(10, 20)).is_ok());
        }
    }

    #[test]
    fn a_full_log_says_so() {
        let mut log = Log::new();
        let many = (0..OPERANDS).take_while(|_| {
            log.launch(None, &[bytes(0, 1), bytes(1, 2)], &[bytes(2, 3)]);
            !log.is_full()
        });
        assert!((4_000..6_000).contains(&many.count()));
        log.follow(&mut Marks::default(), |_| None);
        assert!(!log.is_full());
    }
}
