//! Rank 0's end of the connection to another rank: a thread that reads, so that the end of the rank is noticed at once, and one that
//! writes, so that a rank that does not read delays no other.

use super::event::Event;
use super::frame::{Broken, Frame, Kind, is_timeout};
use landfall::Signature;
use std::io::{self, BufReader};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Frames to write, and what is dropped once they are.
struct Outgoing {
    frames: Vec<Frame>,
    written: Option<Sender<()>>,
}

/// Another rank, as rank 0 knows it.
#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    queue: Sender<Outgoing>,
    threads: Vec<JoinHandle<()>>,
}

impl Peer {
    /// The rank at the other end of a connection. What it sends becomes events; a write that makes no progress for `limit` is one too.
    pub(super) fn new(
        rank: usize,
        stream: TcpStream,
        limit: Duration,
        events: &Sender<Event>,
    ) -> io::Result<Self> {
        stream.set_read_timeout(None)?;
        // No timeout of zero exists.
        stream.set_write_timeout(Some(limit.max(Duration::from_millis(1))))?;
        let (reading, writing) = (stream.try_clone()?, stream.try_clone()?);
        let (queue, outgoing) = channel();
        let (here, there) = (events.clone(), events.clone());
        let named = |what: &str| Builder::new().name(format!("rank {rank}, {what}"));
        let threads = vec![
            named("read").spawn(move || read(rank, reading, &here))?,
            named("write").spawn(move || write(rank, writing, &outgoing, &there))?,
        ];
        Ok(Self { stream, queue, threads })
    }

    /// Sends frames, and drops `written` once they are with the system, or never will be.
    pub(super) fn send(&self, frames: Vec<Frame>, written: Option<Sender<()>>) {
        // A writer that ended has said why in an event.
        let _ = self.queue.send(Outgoing { frames, written });
    }

    /// Ends the connection. What the system has of it still reaches the other side.
    pub(super) fn close(self) {
        let Self { stream, queue, threads } = self;
        drop(queue);
        // Wakes both threads; one that is gone already is as well.
        let _ = stream.shutdown(Shutdown::Both);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn read(rank: usize, stream: TcpStream, events: &Sender<Event>) {
    let mut from = BufReader::new(stream);
    loop {
        let (event, last) = match Frame::read(&mut from) {
            Ok(Frame { kind: Kind::Call, number, text, bytes }) => {
                (Event::Call { rank, call: Signature { what: text, number }, part: bytes }, false)
            }
            Ok(Frame { kind: Kind::Abort, text, .. }) => {
                (Event::Abort { rank, why: text, told: None }, false)
            }
            Ok(Frame { kind: kind @ (Kind::Part | Kind::Fault | Kind::Start | Kind::GiveUp), .. }) => {
                let why = format!("a message of kind {kind:?}, which only rank 0 sends");
                (Event::Malformed { rank, why }, true)
            }
            Err(Broken::Malformed(why)) => (Event::Malformed { rank, why }, true),
            Err(Broken::Gone(why)) => (Event::Ended { rank, why }, true),
            // No time limit is set; should the system have one of its own, the rank is as good as gone.
            Err(Broken::Silent) => (Event::Ended { rank, why: "its connection timed out".to_owned() }, true),
        };
        // Without a coordinator nobody needs the rest.
        if events.send(event).is_err() || last {
            return;
        }
    }
}

fn write(rank: usize, mut stream: TcpStream, outgoing: &Receiver<Outgoing>, events: &Sender<Event>) {
    while let Ok(Outgoing { frames, written }) = outgoing.recv() {
        if let Err(reason) = Frame::write(&frames, &mut stream) {
            if is_timeout(&reason) {
                let _ = events.send(Event::Stuck { rank });
            }
            // A part of a frame may be on its way, after which no other makes sense. The reader sees it, and says that the rank ended.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        drop(written);
    }
}
