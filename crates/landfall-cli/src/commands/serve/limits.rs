//! What requests may take: bytes, time, and the memory of all of them together.

use super::answer::Refusal;
use hyper::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// What a request may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of a body.
    pub(super) body: usize,
    /// Histories.
    pub(super) histories: usize,
    /// Time.
    pub(super) time: Duration,
    /// Connections at once.
    pub(super) connections: usize,
}

/// Bodies of the largest size whose bytes the server holds at once.
const HELD: usize = 16;
/// Bodies of the largest size that are read at once: their cells take far more memory than their bytes.
const READ: usize = 2;

/// Memory that requests share.
pub(super) struct Memory {
    held: Arc<Semaphore>,
    reading: Arc<Semaphore>,
    limits: Limits,
}

/// Bytes of a body, which others may have once it is dropped.
#[derive(Default)]
pub(super) struct Held(Option<OwnedSemaphorePermit>);

impl Memory {
    pub(super) fn new(limits: Limits) -> Self {
        let of = |bodies: usize| Arc::new(Semaphore::new(bodies.saturating_mul(limits.body)));
        Self { held: of(HELD), reading: of(READ), limits }
    }

    /// Takes the place of further bytes of a body; none is waited for, since who waits holds bytes too.
    pub(super) fn hold(&self, bytes: usize, held: &mut Held) -> Result<(), Refusal> {
        let more = u32::try_from(bytes)
            .ok()
            .and_then(|bytes| Arc::clone(&self.held).try_acquire_many_owned(bytes).ok());
        let more = more.ok_or_else(|| {
            let text = format!(
                "the server holds {} MiB of other requests, and no more may be; try again in a second",
                (HELD * self.limits.body) >> 20
            );
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        match &mut held.0 {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// Waits until a body of this size may be read.
    pub(super) async fn read(
        &self,
        bytes: usize,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let place = timeout_at(deadline, Arc::clone(&self.reading).acquire_many_owned(bytes)).await;
        place.ok().and_then(Result::ok).ok_or_else(|| self.limits.late())
    }
}

impl Limits {
    /// A request whose time is over before it has its answer.
    pub(super) fn late(&self) -> Refusal {
        let text = format!(
            "no forecast within {} s (--timeout); try again with fewer histories",
            self.time.as_secs()
        );
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}
