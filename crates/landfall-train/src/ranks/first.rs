//! The world as rank 0 sees it.

use super::coordinator::{Answer, Coordinator};
use super::event::Event;
use super::frame::excess;
use super::peer::Peer;
use super::verdict::Verdict;
use landfall::{Parts, RankFault, Signature, Transport};
use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Rank 0's way to the coordinator, which is in the same process.
#[derive(Debug)]
pub(super) struct First {
    limit: Duration,
    events: Sender<Event>,
    answers: Mutex<Answers>,
    coordinator: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Answers {
    from: Receiver<Answer>,
    fault: Option<RankFault>,
}

impl First {
    /// Rank 0 of the ranks at the other ends of these connections, from rank 1.
    pub(super) fn new(streams: Vec<TcpStream>, limit: Duration) -> io::Result<Self> {
        let (events, happened) = channel();
        let (own, from) = channel();
        let peer = |(stream, rank)| Peer::new(rank, stream, limit, &events);
        let peers = streams.into_iter().zip(1..).map(peer).collect::<io::Result<Vec<_>>>()?;
        let coordinator = Coordinator::new(limit, happened, own, peers);
        let coordinator = Builder::new().name("ranks".to_owned()).spawn(move || coordinator.run())?;
        let answers = Mutex::new(Answers { from, fault: None });
        Ok(Self { limit, events, answers, coordinator: Some(coordinator) })
    }
}

impl Transport for First {
    fn exchange(&self, call: &Signature, part: &[u8]) -> Result<Parts, RankFault> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = &answers.fault {
            return Err(fault.clone());
        }
        if let Some(why) = excess(call, part) {
            self.abort(&why);
        } else {
            // If the coordinator does not take it, it has given its answer before.
            let _ = self.events.send(Event::Call { rank: 0, call: call.clone(), part: part.into() });
        }
        let answer = answers.from.recv().unwrap_or_else(|_| {
            let why = "the thread that connects the ranks ended".to_owned();
            Err(Verdict::Ended { rank: 0, call: call.to_string(), why })
        });
        answer.map_err(|verdict| answers.fault.insert(verdict.into()).clone())
    }

    fn abort(&self, why: &str) {
        let (told, all) = channel();
        if self.events.send(Event::Abort { rank: 0, why: why.to_owned(), told: Some(told) }).is_ok() {
            // Ends when the coordinator drops its end. A process often ends after this, so the others are told first.
            let _ = all.recv();
        }
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn fault(&self) -> Option<RankFault> {
        // A call under way returns it itself.
        let mut answers = self.answers.try_lock().ok()?;
        if answers.fault.is_none()
            && let Ok(Err(verdict)) = answers.from.try_recv()
        {
            answers.fault = Some(verdict.into());
        }
        answers.fault.clone()
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Leave);
        if let Some(coordinator) = self.coordinator.take() {
            let _ = coordinator.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::First;
    use crate::ranks::frame::{Frame, Kind};
    use crate::ranks::other::Other;
    use landfall::{RankFault, Signature, Transport};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_secs(5);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (listener.accept().expect("a connection").0, there)
    }

    fn call(number: u64) -> Signature {
        Signature { what: "sum".to_owned(), number }
    }

    /// Rank 0, rank 1 and a connection that plays rank 2.
    fn three(limit: Duration) -> (First, Other, TcpStream) {
        let ((a, b), (c, d)) = (pair(), pair());
        let first = First::new(vec![a, c], limit).expect("threads");
        (first, Other::new(1, 3, b, limit).expect("a connection"), d)
    }

    /// What ranks 0 and 1 get for a call.
    fn both(first: &First, other: &Other) -> [RankFault; 2] {
        std::thread::scope(|s| {
            let there = s.spawn(|| other.exchange(&call(1), &[1]).expect_err("a fault"));
            [first.exchange(&call(1), &[0]).expect_err("a fault"), there.join().expect("rank 1")]
        })
    }

    #[test]
    fn what_cannot_be_read_is_a_fault_of_its_rank() {
        let second = {
            let frame = Frame { number: 1, ..Frame::text(Kind::Call, "sum") };
            let mut bytes = Vec::new();
            Frame::write(&[frame.clone(), frame], &mut bytes).expect("memory");
            bytes
        };
        let mut start = Vec::new();
        Frame::write(&[Frame::text(Kind::Start, "")], &mut start).expect("memory");
        for (bytes, expected) in [
            (vec![0xee; 25], "a message of unknown kind 238"),
            (start, "a message of kind Start, which only rank 0 sends"),
            (second, "a second part, before it had those of all"),
        ] {
            let (first, other, mut stranger) = three(LIMIT);
            stranger.write_all(&bytes).expect("a few bytes");
            // So that the faulty rank comes before the others complete a call.
            std::thread::sleep(Duration::from_millis(50));
            let [here, there] = both(&first, &other);
            assert_eq!(here, there);
            assert!(matches!(&here, RankFault::Malformed { rank: 2, why, .. } if why == expected), "{here}");
        }
    }

    #[test]
    fn a_message_that_ends_early_is_an_end() {
        let (first, other, mut stranger) = three(LIMIT);
        let mut bytes = Vec::new();
        Frame::write(&[Frame { bytes: [0; 9].into(), ..Frame::text(Kind::Call, "sum") }], &mut bytes)
            .expect("memory");
        stranger.write_all(&bytes[..bytes.len() - 1]).expect("a few bytes");
        drop(stranger);
        let [here, there] = both(&first, &other);
        assert_eq!(here, there);
        let why = "its connection closed in the middle of a message";
        assert!(matches!(&here, RankFault::Ended { rank: 2, why: found, .. } if found == why), "{here}");
    }

    #[test]
    fn a_rank_that_reads_nothing_delays_no_end() {
        let (here, mut there) = pair();
        let first = First::new(vec![here], Duration::from_millis(300)).expect("threads");
        Frame::write(&[Frame { number: 1, ..Frame::text(Kind::Call, "sum") }], &mut there).expect("a frame");
        // More than the system takes for a rank that does not read.
        first.exchange(&call(1), &vec![0; 64 << 20]).expect("the parts are there");
        let fault = first.exchange(&call(2), &[]).expect_err("nothing comes any more");
        assert!(matches!(&fault, RankFault::Late { missing, .. } if *missing == [1]), "{fault}");
        let began = Instant::now();
        drop(first);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[test]
    fn the_longest_text_of_an_abort_is_cut() {
        let (first, other, _third) = three(LIMIT);
        other.abort(&"\u{e9}".repeat(1 << 20));
        let fault = first.exchange(&call(1), &[]).expect_err("an end");
        assert!(
            matches!(&fault, RankFault::Ended { rank: 1, why, .. } if why.len() == 1 << 20),
            "{fault:.99}"
        );
    }
}
