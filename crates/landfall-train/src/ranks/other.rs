//! The world as a rank other than 0 sees it: through one connection to rank 0.

use super::GRACE;
use super::frame::{Broken, Frame, Kind, excess, is_timeout};
use super::verdict::Verdict;
use landfall::{Parts, RankFault, Signature, Transport};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A rank's connection to rank 0.
#[derive(Debug)]
pub(super) struct Other {
    rank: usize,
    size: usize,
    limit: Duration,
    stream: TcpStream,
    /// Held while a frame is written, so that an abort is no part of it.
    writing: Mutex<()>,
    /// Held during a call; why there are no more.
    fault: Mutex<Option<RankFault>>,
}

impl Other {
    /// Rank `rank` of `size`, with its connection to rank 0.
    pub(super) fn new(rank: usize, size: usize, stream: TcpStream, limit: Duration) -> io::Result<Self> {
        // Rank 0 says who is late after the limit. If it does not even say that, it is rank 0.
        let patience = Some(limit.saturating_add(GRACE));
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        Ok(Self { rank, size, limit, stream, writing: Mutex::default(), fault: Mutex::default() })
    }

    fn write(&self, frame: Frame) -> io::Result<()> {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        Frame::write(&[frame], &mut &self.stream)
    }

    /// A call, whose fault is the last.
    fn call(&self, call: &Signature, part: &[u8]) -> Result<Parts, RankFault> {
        let own: Arc<[u8]> = part.into();
        if let Some(why) = excess(call, part) {
            self.abort(&why);
        } else {
            let text = call.what.clone();
            let sent =
                self.write(Frame { kind: Kind::Call, number: call.number, text, bytes: Arc::clone(&own) });
            if sent.as_ref().is_err_and(is_timeout) {
                return Err(self.late(call));
            }
            // Another error means that rank 0 closed the connection. It may have said why before, which is read now.
        }
        let mut parts = Parts::with_capacity(self.size);
        for rank in 0..self.size {
            parts.push(if rank == self.rank { Arc::clone(&own) } else { self.part(call, rank)? });
        }
        Ok(parts)
    }

    /// Whether there is something to read.
    fn is_told(&self) -> bool {
        let patience = self.stream.read_timeout();
        // The shortest that there is.
        let asked = self
            .stream
            .set_read_timeout(Some(Duration::from_micros(1)))
            .and_then(|()| self.stream.peek(&mut [0]));
        let again = patience.and_then(|patience| self.stream.set_read_timeout(patience));
        // The end of the connection is told too.
        again.is_ok() && !asked.is_err_and(|e| is_timeout(&e))
    }

    /// The part of a rank, as rank 0 sends it.
    fn part(&self, call: &Signature, rank: usize) -> Result<Arc<[u8]>, RankFault> {
        let malformed = |why: String| RankFault::Malformed { rank: 0, call: call.to_string(), why };
        match Frame::read(&mut &self.stream) {
            Ok(Frame { kind: Kind::Part, number, bytes, .. }) if number == rank as u64 => Ok(bytes),
            Ok(Frame { kind: Kind::Part, number, .. }) => {
                Err(malformed(format!("the part of rank {number} in the place of that of rank {rank}")))
            }
            Ok(Frame { kind: Kind::Fault, bytes, .. }) => Err(serde_json::from_slice::<Verdict>(&bytes)
                .map_or_else(|e| malformed(format!("a fault that cannot be read ({e})")), RankFault::from)),
            Ok(Frame { kind: kind @ (Kind::Call | Kind::Abort | Kind::Start | Kind::GiveUp), .. }) => {
                Err(malformed(format!("a message of kind {kind:?} in the place of a part")))
            }
            Err(Broken::Malformed(why)) => Err(malformed(why)),
            Err(Broken::Gone(why)) => Err(RankFault::Ended { rank: 0, call: call.to_string(), why }),
            Err(Broken::Silent) => Err(self.late(call)),
        }
    }

    /// Rank 0 neither answers nor says who is late.
    fn late(&self, call: &Signature) -> RankFault {
        RankFault::Late { missing: vec![0], call: call.to_string(), limit: self.limit }
    }
}

impl Transport for Other {
    fn exchange(&self, call: &Signature, part: &[u8]) -> Result<Parts, RankFault> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = &*fault {
            return Err(fault.clone());
        }
        self.call(call, part).inspect_err(|found| {
            *fault = Some(found.clone());
            // If rank 0 does not know yet, it does now.
            let _ = self.stream.shutdown(Shutdown::Both);
        })
    }

    fn abort(&self, why: &str) {
        // Without a connection there is nobody to tell.
        let _ = self.write(Frame::text(Kind::Abort, why));
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn fault(&self) -> Option<RankFault> {
        // A call under way returns it itself.
        let mut fault = self.fault.try_lock().ok()?;
        if fault.is_none() && self.is_told() {
            // Outside of a call rank 0 sends nothing but the fault.
            let call = Signature { what: "the next call".to_owned(), number: 0 };
            *fault = self.part(&call, 0).err();
        }
        fault.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::Other;
    use crate::ranks::frame::{Frame, Kind};
    use landfall::{RankFault, Signature, Transport};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    fn call() -> Signature {
        Signature { what: "sum".to_owned(), number: 1 }
    }

    /// Rank 1 of 2, and a connection that plays rank 0.
    fn rank(limit: Duration) -> (Other, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (Other::new(1, 2, here, limit).expect("a connection"), listener.accept().expect("a connection").0)
    }

    #[test]
    fn a_silent_rank_0_is_late_itself() {
        let (limit, began) = (Duration::from_millis(100), Instant::now());
        let (rank, _silent) = rank(limit);
        let fault = rank.exchange(&call(), &[1]).expect_err("nothing comes");
        assert_eq!(fault, RankFault::Late { missing: vec![0], call: call().to_string(), limit });
        assert!((limit..Duration::from_secs(4)).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(rank.exchange(&call(), &[1]).expect_err("the same"), fault);
    }

    #[test]
    fn what_rank_0_cannot_say_is_malformed() {
        let part = |number| Frame { number, ..Frame::text(Kind::Part, "") };
        let fault = Frame { bytes: [1, 2].into(), ..Frame::text(Kind::Fault, "") };
        for (frame, expected) in [
            (part(1), "the part of rank 1 in the place of that of rank 0"),
            (Frame::text(Kind::Call, ""), "a message of kind Call in the place of a part"),
            (fault, "a fault that cannot be read"),
        ] {
            let (rank, mut first) = rank(Duration::from_secs(5));
            Frame::write(&[frame], &mut first).expect("a frame");
            let fault = rank.exchange(&call(), &[]).expect_err("a fault");
            let RankFault::Malformed { rank: 0, why, .. } = &fault else { panic!("{fault}") };
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[test]
    fn a_fault_before_the_end_is_read() {
        let (rank, mut first) = rank(Duration::from_secs(5));
        let verdict =
            super::Verdict::Ended { rank: 7, call: "sum (call 1)".to_owned(), why: "no disk".to_owned() };
        let bytes = serde_json::to_vec(&verdict).expect("text").into();
        Frame::write(&[Frame { bytes, ..Frame::text(Kind::Fault, "") }], &mut first).expect("a frame");
        drop(first);
        assert_eq!(rank.exchange(&call(), &[0; 9]).expect_err("a fault"), verdict.into());
    }
}
