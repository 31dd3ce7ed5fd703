//! Ranks: engines that compute one step together. Each is on a thread or in a process of its own, runs the same program on its own
//! part of the data, and meets the others in collective ops.

mod signature;
mod single;
mod threads;

pub use signature::Signature;

use crate::values::RankFault;
use single::Single;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use threads::Hub;

/// What each rank gave, in the order of the ranks.
pub type Parts = Vec<Arc<[u8]>>;

/// What carries bytes between ranks.
///
/// Every collective of a CPU is made of [`Transport::exchange`], so one that moves bytes to every rank is all that a network, a
/// pipe or a test needs. A fault is final and the same on every rank that it reaches: every further call returns it.
pub trait Transport: std::fmt::Debug + Send + Sync {
    /// Gives the bytes of this rank to all ranks, and waits for those of all.
    ///
    /// # Errors
    /// [`RankFault::Late`] for ranks that did not come within the time limit, [`RankFault::Ended`] for one that ended or gave up,
    /// [`RankFault::Differs`] where another rank makes another call.
    fn exchange(&self, call: &Signature, part: &[u8]) -> Result<Parts, RankFault>;

    /// Tells the other ranks that this one gives up, so that none waits for it.
    fn abort(&self, why: &str);

    /// How long a rank waits for the others.
    fn limit(&self) -> Duration;

    /// Why no call will be complete any more, as far as this rank can tell without one. It does not wait.
    fn fault(&self) -> Option<RankFault>;
}

/// A rank's place among the ranks that it computes with. A clone is another handle to the same place; when the last is dropped, the
/// others are told that this rank ended.
///
/// ```
/// use landfall::World;
/// use std::time::Duration;
/// let worlds = World::threads(2, Duration::from_secs(10));
/// let all: Vec<Vec<u8>> = std::thread::scope(|s| {
///     let ranks: Vec<_> = worlds
///         .into_iter()
///         .map(|w| s.spawn(move || w.exchange("greeting", &[w.rank() as u8])))
///         .collect();
///     ranks.into_iter().map(|r| r.join().expect("a rank").map(|parts| parts.concat())).collect::<Result<_, _>>()
/// })?;
/// assert_eq!(all, [[0, 1], [0, 1]]);
/// # Ok::<(), landfall::RankFault>(())
/// ```
#[derive(Debug, Clone)]
pub struct World {
    rank: usize,
    size: usize,
    /// Its number among the ranks of its machine.
    local: usize,
    /// Whether nobody launched it as a rank.
    alone: bool,
    calls: Arc<AtomicU64>,
    transport: Arc<dyn Transport>,
}

impl Default for World {
    fn default() -> Self {
        Self::single()
    }
}

impl World {
    /// The world of one rank, in which every collective op is a copy.
    #[must_use]
    pub fn single() -> Self {
        Self { alone: true, ..Self::of_one() }
    }

    /// The world of one rank that a launcher started as such. It computes what ranks of a larger world compute: a training step has
    /// its collectives, on a GPU through NCCL.
    #[must_use]
    pub fn of_one() -> Self {
        Self::new(0, 1, Arc::new(Single))
    }

    /// Rank `rank` of `size`, which reaches the others through a transport.
    ///
    /// # Panics
    /// `rank` is not below `size`.
    #[must_use]
    pub fn new(rank: usize, size: usize, transport: Arc<dyn Transport>) -> Self {
        assert!(rank < size, "rank {rank} of {size}");
        Self { rank, size, local: rank, alone: false, calls: Arc::default(), transport }
    }

    /// The same place, as number `local` of the ranks of its machine; without it, its rank.
    #[must_use]
    pub fn on_machine(self, local: usize) -> Self {
        Self { local, ..self }
    }

    /// Its number among the ranks of its machine, from 0: that of its GPU.
    #[must_use]
    pub fn local(&self) -> usize {
        self.local
    }

    /// The places of `size` threads of one process, in the order of their ranks. A rank that waits longer than `limit` for another
    /// gets an error, and so do all others.
    #[must_use]
    pub fn threads(size: usize, limit: Duration) -> Vec<Self> {
        let hub = Arc::new(Hub::new(size, limit));
        (0..size).map(|rank| Self::new(rank, size, Arc::new(Hub::place(&hub, rank)))).collect()
    }

    /// This rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether there are no other ranks.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.size == 1
    }

    /// Whether nobody launched it as a rank, so that programs need no collectives.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Gives the bytes of this rank to all, and waits for those of all ranks, which make the same call: `what` is compared.
    ///
    /// # Errors
    /// As [`Transport::exchange`].
    pub fn exchange(&self, what: &str, part: &[u8]) -> Result<Parts, RankFault> {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        self.transport.exchange(&Signature { what: what.to_owned(), number }, part)
    }

    /// Whether any rank says yes. All ranks must ask at the same place.
    ///
    /// # Errors
    /// As [`Transport::exchange`].
    pub fn any(&self, what: &str, own: bool) -> Result<bool, RankFault> {
        if self.is_single() {
            return Ok(own);
        }
        Ok(self.exchange(what, &[u8::from(own)])?.iter().any(|part| **part != [0]))
    }

    /// Checks that every rank says the same of `what`: a configuration, a program.
    ///
    /// # Errors
    /// [`RankFault::Disagree`] with the first rank that says something else and the first line that differs; as
    /// [`Transport::exchange`].
    pub fn agree(&self, what: &'static str, text: &str) -> Result<(), RankFault> {
        let parts = self.exchange(what, text.as_bytes())?;
        let Some(other) = parts.iter().position(|part| **part != *parts[0]) else { return Ok(()) };
        let lines =
            |part: &[u8]| String::from_utf8_lossy(part).lines().map(str::to_owned).collect::<Vec<_>>();
        let (first, there) = (lines(&parts[0]), lines(&parts[other]));
        let at = first.iter().zip(&there).take_while(|(a, b)| a == b).count();
        let line = |of: &[String]| of.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
        Err(RankFault::Disagree { what, first: line(&first), rank: other, other: line(&there) })
    }

    /// Tells the other ranks that this one gives up, so that none waits for it.
    pub fn abort(&self, why: &str) {
        self.transport.abort(why);
    }

    /// How long a rank waits for the others.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.transport.limit()
    }

    /// Why no call will be complete any more, as far as is known without one: a rank ended or gave up.
    #[must_use]
    pub fn fault(&self) -> Option<RankFault> {
        self.transport.fault()
    }
}
