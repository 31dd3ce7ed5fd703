//! Ranks that are threads of one process.

use super::{Parts, Signature, Transport};
use crate::values::RankFault;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where the threads meet.
#[derive(Debug)]
pub(super) struct Hub {
    size: usize,
    limit: Duration,
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

/// The call that ranks meet in.
#[derive(Debug)]
struct Meeting {
    /// Calls that are complete.
    complete: u64,
    /// What each rank that came gave.
    came: Vec<Option<(Signature, Arc<[u8]>)>>,
    /// The parts of the last complete call. A rank that has yet to take them has not come to the next, so they stay.
    parts: Parts,
    /// Why no call will be complete any more.
    fault: Option<RankFault>,
    /// Ranks that ended.
    ended: Vec<bool>,
}

impl Hub {
    pub(super) fn new(size: usize, limit: Duration) -> Self {
        let meeting = Meeting {
            complete: 0,
            came: vec![None; size],
            parts: Vec::new(),
            fault: None,
            ended: vec![false; size],
        };
        Self { size, limit, meeting: Mutex::new(meeting), changed: Condvar::new() }
    }

    /// The place of a rank.
    pub(super) fn place(hub: &Arc<Self>, rank: usize) -> Place {
        Place { hub: Arc::clone(hub), rank }
    }

    fn meeting(&self) -> MutexGuard<'_, Meeting> {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records why no call will be complete any more, if it is the first reason, and returns the first.
    fn fail(&self, meeting: &mut Meeting, fault: RankFault) -> RankFault {
        let first = meeting.fault.get_or_insert(fault).clone();
        self.changed.notify_all();
        first
    }
}

/// A rank's place in a hub.
#[derive(Debug)]
pub(super) struct Place {
    hub: Arc<Hub>,
    rank: usize,
}

impl Transport for Place {
    fn exchange(&self, call: &Signature, part: &[u8]) -> Result<Parts, RankFault> {
        let (hub, began) = (&*self.hub, Instant::now());
        let mut meeting = hub.meeting();
        if let Some(fault) = &meeting.fault {
            return Err(fault.clone());
        }
        for (rank, came) in meeting.came.iter().enumerate() {
            if let Some(differs) =
                came.as_ref().and_then(|(other, _)| call.check((self.rank, rank), other).err())
            {
                return Err(hub.fail(&mut meeting, differs));
            }
        }
        let number = meeting.complete;
        meeting.came[self.rank] = Some((call.clone(), part.into()));
        if meeting.came.iter().all(Option::is_some) {
            meeting.parts = meeting.came.iter_mut().filter_map(Option::take).map(|(_, part)| part).collect();
            meeting.complete += 1;
            hub.changed.notify_all();
        }
        loop {
            if meeting.complete > number {
                return Ok(meeting.parts.clone());
            }
            if let Some(fault) = &meeting.fault {
                return Err(fault.clone());
            }
            let absent = |meeting: &Meeting, which: &dyn Fn(usize) -> bool| {
                (0..hub.size).filter(|&r| meeting.came[r].is_none() && which(r)).collect::<Vec<_>>()
            };
            if let Some(&rank) = absent(&meeting, &|r| meeting.ended[r]).first() {
                let why = "it is no longer there".to_owned();
                return Err(hub.fail(&mut meeting, RankFault::Ended { rank, call: call.to_string(), why }));
            }
            let Some(rest) = hub.limit.checked_sub(began.elapsed()).filter(|rest| !rest.is_zero()) else {
                let missing = absent(&meeting, &|_| true);
                let late = RankFault::Late { missing, call: call.to_string(), limit: hub.limit };
                return Err(hub.fail(&mut meeting, late));
            };
            meeting = hub.changed.wait_timeout(meeting, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn abort(&self, why: &str) {
        let mut meeting = self.hub.meeting();
        let call = format!("call {}", meeting.complete + 1);
        self.hub.fail(&mut meeting, RankFault::Ended { rank: self.rank, call, why: why.to_owned() });
    }

    fn limit(&self) -> Duration {
        self.hub.limit
    }

    fn fault(&self) -> Option<RankFault> {
        let mut meeting = self.hub.meeting();
        let ended = meeting.ended.iter().position(|&ended| ended);
        if let (None, Some(rank)) = (&meeting.fault, ended) {
            let (call, why) = (format!("call {}", meeting.complete + 1), "it is no longer there".to_owned());
            return Some(self.hub.fail(&mut meeting, RankFault::Ended { rank, call, why }));
        }
        meeting.fault.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hub.meeting().ended[self.rank] = true;
        self.hub.changed.notify_all();
    }
}
