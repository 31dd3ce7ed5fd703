//! Collectives of several GPUs, by NCCL: they are enqueued on the device's stream, or captured into a graph, as any launch is.

mod library;

pub(super) use library::found;

use super::driver::Context;
use super::stream::Stream;
use super::watch::Watch;
use crate::error::Error;
use crate::kernel::cuda::{Collective, CollectiveLaunch, Combination, Seat};
use crate::ranks::World;
use crate::values::{DType, RankFault};
use cudarc::driver::sys;
use library::{Comm, Config, Library, UniqueId, find};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a rank that waits for the others looks whether one of them ended.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A GPU among those of the other ranks.
#[derive(Debug)]
pub(super) struct Communicator {
    shared: Arc<Shared>,
    watch: Watch,
    rank: usize,
    size: usize,
}

/// What the thread that watches over the collectives shares with those that issue them.
#[derive(Debug)]
pub(super) struct Shared {
    library: &'static Library,
    /// Null once it was aborted.
    comm: AtomicPtr<c_void>,
    pub(super) world: World,
}

/// A communicator's handle, on its way from the thread that makes it.
struct Made(Comm);

// SAFETY: the library takes a communicator from any thread.
unsafe impl Send for Made {}

impl Shared {
    /// What the library found out by itself: a connection that broke.
    pub(super) fn failure(&self) -> Option<RankFault> {
        let comm = self.comm.load(Acquire);
        let mut status: c_int = 0;
        // SAFETY: this thread alone aborts the communicator, and it is destroyed after this thread has ended; writes one status.
        let asked = unsafe { (self.library.async_error)(comm, &raw mut status) };
        let status = if asked == 0 { status } else { asked };
        // In progress is no failure.
        (status != 0 && status != 7)
            .then(|| RankFault::Nccl { call: "a collective", why: self.library.text(status) })
    }

    /// Turns a status into an error that names the call.
    fn check(&self, call: &'static str, status: c_int) -> Result<(), Error> {
        check(self.library, call, status)
    }

    /// Ends the collectives under way, whose kernels then return. Nothing can be issued after.
    pub(super) fn abort(&self) {
        let comm = self.comm.swap(null_mut(), SeqCst);
        if !comm.is_null() {
            // SAFETY: the communicator was alive until now, and nobody finds it any more; the library lets another thread abort it
            // while calls are under way. There is nobody to tell of a failure.
            _ = unsafe { (self.library.comm_abort)(comm) };
        }
    }
}

fn check(library: &Library, call: &'static str, status: c_int) -> Result<(), Error> {
    if status == 0 {
        return Ok(());
    }
    Err(RankFault::Nccl { call, why: library.text(status) }.into())
}

impl Communicator {
    /// Joins the GPUs of all ranks of a world. The context must be current.
    ///
    /// # Errors
    /// The library's absence; a rank that does not come within the world's time limit, or ended.
    pub(super) fn new(world: World, context: &Context) -> Result<Self, Error> {
        let (library, _) = find()?;
        let id = id(library, &world)?;
        let (rank, size) = (world.rank(), world.size());
        let comm = made(library, id, &world, context.handle())?;
        let shared = Arc::new(Shared { library, comm: AtomicPtr::new(comm), world });
        let watch = Watch::new(Arc::clone(&shared), context.handle())?;
        Ok(Self { shared, watch, rank, size })
    }

    /// This rank among all.
    pub(super) fn seat(&self) -> Seat {
        Seat::Rank { rank: self.rank, size: self.size }
    }

    /// Why no collective will be complete any more.
    #[inline]
    pub(super) fn fault(&self) -> Result<(), Error> {
        self.watch.fault().map_or(Ok(()), |fault| Err(fault.clone().into()))
    }

    /// Watches over what was issued to a stream up to now, unless it is captured.
    pub(super) fn issued(&self, stream: &Stream) -> Result<(), Error> {
        self.watch.issued(stream)
    }

    /// Enqueues a collective on a stream.
    pub(super) fn issue(&self, launch: &CollectiveLaunch, stream: &Stream) -> Result<(), Error> {
        self.fault()?;
        let (comm, lib) = (self.shared.comm.load(Acquire), self.shared.library);
        if comm.is_null() {
            return self.fault();
        }
        let CollectiveLaunch { what, dtype, count, from, to } = *launch;
        let (send, receive) = (from.0 as *const c_void, to.0 as *mut c_void);
        let (kind, stream) = (data_type(dtype), stream.handle());
        // SAFETY: communicator and stream live, and the op's operands have as many contiguous elements of this dtype as the
        // collective reads and writes.
        let (call, status) = unsafe {
            match what {
                Collective::AllReduce(by) => (
                    "ncclAllReduce",
                    (lib.all_reduce)(send, receive, count, kind, reduction(by), comm, stream),
                ),
                Collective::ReduceScatter(by) => (
                    "ncclReduceScatter",
                    (lib.reduce_scatter)(send, receive, count, kind, reduction(by), comm, stream),
                ),
                Collective::AllGather => {
                    ("ncclAllGather", (lib.all_gather)(send, receive, count, kind, comm, stream))
                }
                Collective::Broadcast { root } => (
                    "ncclBroadcast",
                    (lib.broadcast)(send, receive, count, kind, root as c_int, comm, stream),
                ),
                Collective::AllToAll => return self.all_to_all(launch, comm, stream),
            }
        };
        self.shared.check(call, status)
    }

    /// Sends block r to rank r and receives one from each, in one group.
    fn all_to_all(&self, launch: &CollectiveLaunch, comm: Comm, stream: sys::CUstream) -> Result<(), Error> {
        let (lib, CollectiveLaunch { dtype, count, from, to, .. }) = (self.shared.library, *launch);
        let (kind, bytes) = (data_type(dtype), count * dtype.size());
        // SAFETY: it takes nothing.
        self.shared.check("ncclGroupStart", unsafe { (lib.group_start)() })?;
        let sent = (0..self.size).try_for_each(|peer| {
            let (send, receive) = (from.offset(peer * bytes), to.offset(peer * bytes));
            // SAFETY: communicator and stream live; either operand has one block of so many elements for each rank.
            self.shared.check("ncclSend", unsafe {
                (lib.send)(send.0 as *const c_void, count, kind, peer as c_int, comm, stream)
            })?;
            // SAFETY: as above.
            self.shared.check("ncclRecv", unsafe {
                (lib.receive)(receive.0 as *mut c_void, count, kind, peer as c_int, comm, stream)
            })
        });
        // SAFETY: ends the group that was begun above, after a failure too.
        let ended = self.shared.check("ncclGroupEnd", unsafe { (lib.group_end)() });
        sent.and(ended)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.watch.end();
        let comm = self.shared.comm.swap(null_mut(), SeqCst);
        if !comm.is_null() {
            // SAFETY: made once, destroyed once; no graph that holds its collectives is left. There is nobody to tell of a failure.
            _ = unsafe { (self.shared.library.comm_destroy)(comm) };
        }
    }
}

/// The id that rank 0 makes, on every rank.
fn id(library: &'static Library, world: &World) -> Result<UniqueId, Error> {
    let mut id = UniqueId([0; 128]);
    let made = if world.rank() == 0 {
        // SAFETY: the library writes as many bytes.
        check(library, "ncclGetUniqueId", unsafe { (library.get_unique_id)(&raw mut id) })
    } else {
        Ok(())
    };
    if let Err(error) = made {
        world.abort(&error.to_string());
        return Err(error);
    }
    let parts = world.exchange("the id of the communicator", &id.0)?;
    let whole = parts.first().and_then(|part| <[u8; 128]>::try_from(&part[..]).ok());
    whole.map(UniqueId).ok_or_else(|| {
        let why = "its id of the communicator is not 128 bytes".to_owned();
        RankFault::Malformed { rank: 0, call: "the id of the communicator".to_owned(), why }.into()
    })
}

/// The communicator, made by a thread of its own: the call waits for all ranks, and knows no time limit.
fn made(
    library: &'static Library,
    id: UniqueId,
    world: &World,
    context: super::driver::Current,
) -> Result<Comm, Error> {
    let (rank, size, began) = (world.rank() as c_int, world.size() as c_int, Instant::now());
    let (ready, result) = channel();
    let make = move || {
        let made = context.enter().and_then(|()| {
            let (mut comm, mut config) = (null_mut(), Config::blocking());
            // SAFETY: the context is current, the id is rank 0's, and the library copies the configuration.
            let status = unsafe { (library.comm_init)(&raw mut comm, size, id, rank, &raw mut config) };
            check(library, "ncclCommInitRankConfig", status).map(|()| Made(comm))
        });
        // Nobody waits for a communicator that came too late.
        let _ = ready.send(made);
    };
    let thread = std::thread::Builder::new().name("communicator".to_owned()).spawn(make);
    thread.map_err(|why| Error::from(RankFault::Nccl { call: "a thread for it", why: why.to_string() }))?;
    loop {
        match result.recv_timeout(LOOK) {
            Ok(made) => {
                return made
                    .map(|Made(comm)| comm)
                    .inspect_err(|error| world.abort(&format!("its GPU cannot join: {error}")));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(fault) = world.fault() {
                    return Err(fault.into());
                }
                let limit = world.limit();
                if began.elapsed() > limit {
                    let fault = RankFault::Stuck { what: "the GPUs of all ranks to join", limit };
                    world.abort(&fault.to_string());
                    return Err(fault.into());
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the thread that makes the communicator ended".to_owned();
                return Err(RankFault::Nccl { call: "ncclCommInitRankConfig", why }.into());
            }
        }
    }
}

/// NCCL's number of a dtype. Truth values travel as bytes.
const fn data_type(dtype: DType) -> c_int {
    match dtype {
        DType::U8 | DType::Bool => 1,
        DType::I32 => 2,
        DType::I64 => 4,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
    }
}

/// NCCL's number of a combination.
const fn reduction(of: Combination) -> c_int {
    match of {
        Combination::Sum => 0,
        Combination::Product => 1,
        Combination::Max => 2,
        Combination::Min => 3,
        Combination::Mean => 4,
    }
}

#[cfg(test)]
mod tests;
