//! Rank 0's judge of all calls: it collects the parts of every rank, itself included, and either gives all parts to all or one fault.
//!
//! It is a thread of its own, so that a rank that ended or is late is found while rank 0 computes.

use super::event::Event;
use super::frame::{Frame, Kind};
use super::peer::Peer;
use super::verdict::Verdict;
use landfall::{Parts, Signature};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long a fault may take to be written to all ranks before rank 0 goes on.
const FLUSH: Duration = Duration::from_millis(500);

/// What rank 0 itself gets for a call.
pub(super) type Answer = Result<Parts, Verdict>;

/// What a rank gave in a call.
type Given = (Signature, Arc<[u8]>);

/// The judge.
#[derive(Debug)]
pub(super) struct Coordinator {
    limit: Duration,
    events: Receiver<Event>,
    /// To rank 0.
    own: Sender<Answer>,
    /// The others, from rank 1.
    peers: Vec<Peer>,
    /// What each rank that came to the current call gave.
    came: Vec<Option<Given>>,
    /// When the first rank came to it.
    began: Option<Instant>,
    /// Calls that are complete.
    complete: u64,
    /// Whether no call will be complete any more.
    failed: bool,
}

impl Coordinator {
    pub(super) fn new(
        limit: Duration,
        events: Receiver<Event>,
        own: Sender<Answer>,
        peers: Vec<Peer>,
    ) -> Self {
        let came = vec![None; peers.len() + 1];
        Self { limit, events, own, peers, came, began: None, complete: 0, failed: false }
    }

    /// Judges until rank 0 ends.
    pub(super) fn run(mut self) {
        loop {
            let event = match self.began {
                Some(began) => self.events.recv_timeout(self.limit.saturating_sub(began.elapsed())),
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Call { rank, call, part }) => self.call(rank, call, part),
                Ok(Event::Abort { rank, why, told }) => {
                    self.fail(Verdict::Ended { rank, call: self.current(), why });
                    drop(told);
                }
                Ok(Event::Ended { rank, why }) => {
                    self.fail(Verdict::Ended { rank, call: self.current(), why });
                }
                Ok(Event::Malformed { rank, why }) => {
                    self.fail(Verdict::Malformed { rank, call: self.current(), why });
                }
                Ok(Event::Stuck { rank }) => self.late(vec![rank]),
                Err(RecvTimeoutError::Timeout) => {
                    self.late((0..self.came.len()).filter(|&rank| self.came[rank].is_none()).collect());
                }
                Ok(Event::Leave) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let why = "it is no longer there".to_owned();
        self.fail(Verdict::Ended { rank: 0, call: self.current(), why });
        self.peers.into_iter().for_each(Peer::close);
    }

    /// The call that ranks are in, or the next one.
    fn current(&self) -> String {
        let first = self.came.iter().flatten().next();
        first.map_or_else(|| format!("call {}", self.complete + 1), |(call, _)| call.to_string())
    }

    fn call(&mut self, rank: usize, call: Signature, part: Arc<[u8]>) {
        if self.failed {
            return;
        }
        if self.came[rank].is_some() {
            let why = "a second part, before it had those of all".to_owned();
            return self.fail(Verdict::Malformed { rank, call: call.to_string(), why });
        }
        let differs = |(other, came): (usize, &Option<Given>)| {
            let (there, _) = came.as_ref()?;
            call.check((rank, other), there).err().map(|_| (other, there.to_string()))
        };
        if let Some((other, other_call)) = self.came.iter().enumerate().find_map(differs) {
            return self.fail(Verdict::Differs { rank, call: call.to_string(), other, other_call });
        }
        self.began.get_or_insert_with(Instant::now);
        self.came[rank] = Some((call, part));
        if self.came.iter().all(Option::is_some) {
            self.answer();
        }
    }

    /// Gives all parts to all ranks.
    fn answer(&mut self) {
        let parts: Parts = self.came.iter_mut().filter_map(Option::take).map(|(_, part)| part).collect();
        (self.began, self.complete) = (None, self.complete + 1);
        for (peer, to) in self.peers.iter().zip(1..) {
            // A rank has its own part already.
            let others = parts.iter().enumerate().filter(|(rank, _)| *rank != to);
            let frame = |(rank, part): (usize, &Arc<[u8]>)| Frame {
                kind: Kind::Part,
                number: rank as u64,
                text: String::new(),
                bytes: Arc::clone(part),
            };
            peer.send(others.map(frame).collect(), None);
        }
        // Rank 0 is there while this runs, unless it panicked in its call.
        let _ = self.own.send(Ok(parts));
    }

    fn late(&mut self, missing: Vec<usize>) {
        self.fail(Verdict::Late { missing, call: self.current(), limit: self.limit });
    }

    /// Gives a fault to all ranks, if it is the first.
    fn fail(&mut self, verdict: Verdict) {
        if self.failed {
            return;
        }
        (self.failed, self.began) = (true, None);
        self.came.fill(None);
        let bytes = serde_json::to_vec(&verdict).unwrap_or_default().into();
        let frame = Frame { kind: Kind::Fault, number: 0, text: String::new(), bytes };
        let (written, all) = channel();
        for peer in &self.peers {
            peer.send(vec![frame.clone()], Some(written.clone()));
        }
        drop(written);
        // Rank 0 may end the process as soon as it has the fault, so the others get it first. This ends when every writer has dropped
        // its end: nobody sends anything.
        let _ = all.recv_timeout(FLUSH);
        let _ = self.own.send(Err(verdict));
    }
}
