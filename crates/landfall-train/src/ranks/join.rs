//! How ranks come together: rank 0 listens, the others connect.

use super::first::First;
use super::frame::{Broken, Frame, Kind};
use super::handshake::{self, Claim, Failed, Key, Knock, Proven};
use super::other::Other;
use super::{Deadline, GRACE, Launch, LaunchError, Refusal};
use landfall::World;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// How long one attempt to connect, and one handshake, may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The pauses between a rank's attempts to reach rank 0, from the first to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How often rank 0 looks for a new connection.
const LOOK: Duration = Duration::from_millis(5);
/// Handshakes at once, beyond one for each rank. Further connections wait until one is over.
const STRANGERS: usize = 256;
/// Connections without the key that an error names.
const NAMED: usize = 5;

impl Launch {
    /// Brings all ranks together. Returns as soon as every rank has come, with the same world for all.
    ///
    /// Nobody waits longer than `limit` for another rank, here and in each call of the world. It must be longer than any difference
    /// between ranks: rank 0 may still read data, or write a checkpoint, while the others wait.
    ///
    /// Rank 0 listens at the port of the launch, on all network interfaces unless the address is of this machine alone (`127.0.0.1`,
    /// `localhost`). Each other rank proves that it knows the secret, or the job's name, and rank 0 proves it too. What is sent
    /// afterwards is neither encrypted nor signed.
    ///
    /// # Errors
    /// On rank 0 [`LaunchError::Listen`] and [`LaunchError::Absent`], on the others [`LaunchError::Unreachable`],
    /// [`LaunchError::Stranger`], [`LaunchError::Secret`], [`LaunchError::GaveUp`] and [`LaunchError::Ended`]; on both
    /// [`LaunchError::Refused`] where a rank differs, and [`LaunchError::Variable`] for a launch that cannot be.
    pub fn join(&self, limit: Duration) -> Result<World, LaunchError> {
        self.check()?;
        if self.size == 1 {
            return Ok(World::of_one());
        }
        let system = |what| move |reason| LaunchError::System { what, reason };
        let world = if self.rank == 0 {
            let streams = self.gather(limit)?;
            let first = First::new(streams, limit).map_err(system("cannot start to talk to the ranks"))?;
            World::new(0, self.size, Arc::new(first))
        } else {
            let stream = self.reach(limit)?;
            let other = Other::new(self.rank, self.size, stream, limit)
                .map_err(system("cannot start to talk to rank 0"))?;
            World::new(self.rank, self.size, Arc::new(other))
        };
        Ok(world.on_machine(self.local_rank))
    }

    /// The address and port of rank 0, for messages.
    fn at(&self) -> String {
        let address = self.address.trim();
        if address.contains(':') {
            format!("[{address}]:{}", self.port)
        } else {
            format!("{address}:{}", self.port)
        }
    }

    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.address.trim(), self.port).to_socket_addrs()?.collect())
    }

    /// Rank 0: the connections to all others, from rank 1.
    fn gather(&self, limit: Duration) -> Result<Vec<TcpStream>, LaunchError> {
        let deadline = Deadline::after(limit);
        let listener = self.listen().map_err(|reason| LaunchError::Listen { at: self.at(), reason })?;
        let mut joined: Vec<Option<TcpStream>> = (1..self.size).map(|_| None).collect();
        let result = self.admit(&listener, &mut joined, (deadline, limit));
        let frame = match &result {
            Ok(()) => Frame::text(Kind::Start, ""),
            Err(e) => Frame::text(Kind::GiveUp, &e.to_string()),
        };
        for mut stream in joined.iter().flatten() {
            // Who is no longer there is missed in the first call.
            let _ = Frame::write(std::slice::from_ref(&frame), &mut stream);
        }
        result.map(|()| joined.into_iter().flatten().collect())
    }

    fn listen(&self) -> io::Result<TcpListener> {
        let found = self.addresses().unwrap_or_default();
        // A machine may know its own name as a loopback address, which the others do not, so only these two mean it.
        let literal = self.address.trim().parse::<IpAddr>().is_ok_and(|a| a.is_loopback());
        let own = found.first().filter(|_| literal || self.address.trim() == "localhost").map(SocketAddr::ip);
        let any = match found.iter().any(SocketAddr::is_ipv4) || found.is_empty() {
            true => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            false => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let listener = TcpListener::bind((own.unwrap_or(any), self.port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Lets ranks in until all are there. A rank that cannot be in ends it; a stranger does not.
    fn admit(
        &self,
        listener: &TcpListener,
        joined: &mut [Option<TcpStream>],
        (deadline, limit): (Deadline, Duration),
    ) -> Result<(), LaunchError> {
        let (key, claim) = (Key::of(self), Claim::of(self));
        let (results, done): (Sender<Result<Proven, _>>, Receiver<_>) = channel();
        let (mut strangers, mut nameless, mut running) = (Vec::new(), 0, 0);
        while joined.iter().any(Option::is_none) {
            if deadline.rest().is_none() {
                let missing = joined.iter().zip(1..).filter(|(j, _)| j.is_none()).map(|(_, r)| r).collect();
                match nameless {
                    0 => {}
                    1 => strangers.push("a connection of another program".to_owned()),
                    _ => strangers.push(format!("{nameless} connections of other programs")),
                }
                return Err(LaunchError::Absent { missing, at: self.at(), limit, refused: strangers });
            }
            let accepted = if running < self.size + STRANGERS { listener.accept().ok() } else { None };
            let pause = if accepted.is_some() { Duration::ZERO } else { LOOK };
            // Without a thread for it the connection closes, and the rank tries again.
            if accepted.is_some_and(|(stream, from)| shake(stream, from, &key, &results).is_ok()) {
                running += 1;
            }
            match done.recv_timeout(pause) {
                Ok(Ok(proven)) => {
                    running -= 1;
                    self.let_in(proven, (&key, &claim), joined)?;
                }
                Ok(Err((from, knock))) => {
                    running -= 1;
                    match knock {
                        Knock::Secret(claim) if strangers.len() < NAMED => strangers.push(format!(
                            "{from}, which says that it is rank {}, has another LANDFALL_SECRET, or is of another job",
                            claim.rank
                        )),
                        Knock::Secret(_) | Knock::Stranger => nameless += 1,
                    }
                }
                // The time is over for now; this function keeps an end of the channel.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Gives a rank its place, or refuses it.
    fn let_in(
        &self,
        proven: Proven,
        (key, first): (&Key, &Claim),
        joined: &mut [Option<TcpStream>],
    ) -> Result<(), LaunchError> {
        let rank = proven.claim.rank;
        let place = rank.checked_sub(1).and_then(|at| joined.get_mut(at)).filter(|place| place.is_none());
        let refusal = match (first.check(&proven.claim), &place) {
            (Err(refusal), _) => Some(refusal),
            (Ok(()), None) => Some(Refusal::Twice { rank, size: self.size }),
            (Ok(()), Some(_)) => None,
        };
        // A few bytes, for which a new connection has room.
        let stream = proven.answer(key, first, refusal.clone(), Deadline::after(ATTEMPT));
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        // A rank that went away meanwhile has not come.
        if let (Some(place), Ok(stream)) = (place, stream) {
            *place = Some(stream);
        }
        Ok(())
    }

    /// Another rank: its connection to rank 0, once all have come.
    fn reach(&self, limit: Duration) -> Result<TcpStream, LaunchError> {
        let stream = self.connect(limit)?;
        let ended = |why: String| LaunchError::Ended { at: self.at(), why };
        stream.set_read_timeout(Some(limit.saturating_add(GRACE))).map_err(|e| ended(e.to_string()))?;
        match Frame::read(&mut &stream) {
            Ok(Frame { kind: Kind::Start, .. }) => Ok(stream),
            Ok(Frame { kind: Kind::GiveUp, text, .. }) => Err(LaunchError::GaveUp { why: text }),
            Ok(Frame { kind: kind @ (Kind::Call | Kind::Part | Kind::Fault | Kind::Abort), .. }) => {
                Err(ended(format!("it sent a message of kind {kind:?} instead of a start")))
            }
            Err(Broken::Silent) => Err(ended("it said nothing".to_owned())),
            Err(Broken::Gone(why) | Broken::Malformed(why)) => Err(ended(why)),
        }
    }

    /// A connection that rank 0 has let in.
    fn connect(&self, limit: Duration) -> Result<TcpStream, LaunchError> {
        let (deadline, (mut pause, longest)) = (Deadline::after(limit), PAUSES);
        loop {
            let reason = match self.attempt(deadline) {
                Ok(stream) => return Ok(stream),
                Err(Failed::For(error)) => return Err(error),
                Err(Failed::Again(reason)) => reason,
            };
            let Some(rest) = deadline.rest() else {
                return Err(LaunchError::Unreachable { at: self.at(), limit, reason });
            };
            std::thread::sleep(pause.min(rest));
            pause = (pause * 2).min(longest);
        }
    }

    fn attempt(&self, deadline: Deadline) -> Result<TcpStream, Failed> {
        let again = |e: io::Error| Failed::Again(e.to_string());
        let mut failed = Failed::Again("the name has no address".to_owned());
        // Anew in each attempt: the machine of rank 0 may get its name later.
        for address in self.addresses().map_err(again)? {
            let time = deadline.rest().map_or(Duration::from_millis(1), |rest| rest.min(ATTEMPT));
            let stream = match TcpStream::connect_timeout(&address, time) {
                Ok(stream) => stream,
                Err(e) => {
                    failed = again(e);
                    continue;
                }
            };
            // While nobody listens, a connection from a machine to itself may get this very port for its own end, and reach itself.
            if stream.local_addr().ok() == stream.peer_addr().ok() {
                failed = Failed::Again("nobody listens".to_owned());
                continue;
            }
            stream.set_nodelay(true).map_err(again)?;
            return handshake::send(&stream, self, &self.at(), Deadline::after(time)).map(|()| stream);
        }
        Err(failed)
    }
}

/// Starts rank 0's side of a handshake, in a thread of its own.
fn shake(
    stream: TcpStream,
    from: SocketAddr,
    key: &Key,
    results: &Sender<Result<Proven, (SocketAddr, Knock)>>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let (key, results) = (key.clone(), results.clone());
    let run = move || {
        let result = handshake::receive(stream, &key, Deadline::after(ATTEMPT));
        // Once all ranks are there, nobody asks any more.
        let _ = results.send(result.map_err(|knock| (from, knock)));
    };
    Builder::new().name("handshake".to_owned()).spawn(run).map(drop)
}
