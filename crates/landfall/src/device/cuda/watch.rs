//! A thread that watches over collectives. A rank whose GPU waits in a collective for one that never comes would hang for ever: its
//! host waits for the GPU. So a thread looks at an event behind the oldest issue that is not known to be complete; when a rank ended,
//! or the time limit is over, it aborts the communicator, the kernels return, and the host finds the fault.

use super::driver::Current;
use super::locked;
use super::nccl::{LOOK, Shared};
use super::stream::{Mark, Stream};
use crate::error::Error;
use crate::values::RankFault;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The thread.
#[derive(Debug)]
pub(super) struct Watch {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    fault: OnceLock<RankFault>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// Behind the oldest issue that is not known to be complete, and since when it is the oldest.
    oldest: Option<(Mark, Instant)>,
    /// Behind the newest, if it is another.
    newest: Option<Mark>,
    /// Events that nobody waits for, to be recorded again.
    idle: Vec<Mark>,
    ended: bool,
}

impl Watch {
    pub(super) fn new(shared: Arc<Shared>, context: Current) -> Result<Self, Error> {
        let state = Arc::new(State::default());
        let own = Arc::clone(&state);
        let work = move || {
            if context.enter().is_ok() {
                watch(&own, &shared);
            }
        };
        let thread = std::thread::Builder::new().name("collectives".to_owned()).spawn(work);
        let why = |why: std::io::Error| RankFault::Nccl { call: "a thread for it", why: why.to_string() };
        Ok(Self { state, thread: Some(thread.map_err(why)?) })
    }

    /// Why the communicator was aborted.
    #[inline]
    pub(super) fn fault(&self) -> Option<&RankFault> {
        self.state.fault.get()
    }

    /// Watches over what was issued to a stream up to now.
    pub(super) fn issued(&self, stream: &Stream) -> Result<(), Error> {
        let mut inner = locked(&self.state.inner);
        let free = inner.newest.take().or_else(|| inner.idle.pop());
        let mark = free.map_or_else(Mark::new, Ok)?;
        stream.mark_again(&mark)?;
        if inner.oldest.is_some() {
            inner.newest = Some(mark);
        } else {
            inner.oldest = Some((mark, Instant::now()));
            self.state.changed.notify_all();
        }
        Ok(())
    }

    /// Ends the thread.
    pub(super) fn end(&mut self) {
        locked(&self.state.inner).ended = true;
        self.state.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How long after a rank ended collectives may still be under way: those that it took part in.
const GRACE: Duration = Duration::from_secs(1);

/// Looks at what was issued until it shall end, or there is a fault.
fn watch(state: &State, shared: &Shared) {
    let (limit, mut known) = (shared.world.limit(), None);
    let mut inner = locked(&state.inner);
    while !inner.ended {
        inner = match &inner.oldest {
            None => state.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
            Some(_) => state.changed.wait_timeout(inner, LOOK).unwrap_or_else(PoisonError::into_inner).0,
        };
        let Inner { oldest, newest, idle, .. } = &mut *inner;
        let Some((mark, since)) = oldest else { continue };
        // A lost context is told by whoever waits for it.
        if mark.is_over().unwrap_or(true) {
            idle.extend(oldest.take().map(|(mark, _)| mark));
            *oldest = newest.take().map(|mark| (mark, Instant::now()));
            continue;
        }
        let of_a_rank = || {
            let fault = shared.world.fault()?;
            (known.get_or_insert_with(Instant::now).elapsed() > GRACE).then_some(fault)
        };
        let late = since.elapsed() > limit;
        let stuck =
            || RankFault::Stuck { what: "what its GPU computes with those of the other ranks", limit };
        let fault = shared.failure().or_else(of_a_rank).or_else(|| late.then(stuck));
        let Some(fault) = fault else { continue };
        drop(inner);
        // First for those who wait: an abort returns when the graphs that hold collectives are gone.
        let fault = state.fault.get_or_init(|| fault);
        shared.world.abort(&fault.to_string());
        shared.abort();
        return;
    }
}
