//! How a rank and rank 0 get to know each other before anything else is sent.
//!
//! ```text
//! rank → rank 0   greeting, 32 random bytes
//! rank 0 → rank   greeting, 32 random bytes
//! rank → rank 0   its claim; proof
//! rank 0 → rank   0 if the proof is wrong; else 1, its own claim and why it refuses the rank, if it does; proof
//! ```
//!
//! A proof is an HMAC-SHA256 with the common key over all that both sides have sent, so that it is worth nothing in another connection.
//! The rank proves first: who only knocks learns nothing that depends on the key. This part stays the same in every version, so that
//! programs of different versions can say so.

use super::frame::is_timeout;
use super::{Deadline, Launch, LaunchError, Refusal};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The number of what is sent after the handshake. Raised with each change.
const PROTOCOL: u32 = 1;
const GREETING: &[u8; 8] = b"LANDFALL";
const RANDOM: usize = 32;
const PROOF: usize = 32;
/// The most bytes of a claim or an answer.
const LONGEST: u32 = 1 << 12;

/// What the one that is asked proves.
const RANK: &[u8] = b"rank";
const FIRST: &[u8] = b"rank 0";

/// What a side says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    protocol: u32,
    version: String,
    size: usize,
    pub(super) rank: usize,
}

impl Claim {
    /// That of this program.
    pub(super) fn of(launch: &Launch) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { protocol: PROTOCOL, version, size: launch.size, rank: launch.rank }
    }

    /// Checks, as that of rank 0, that of another rank.
    pub(super) fn check(&self, other: &Self) -> Result<(), Refusal> {
        let all = [
            ("protocol between ranks", other.protocol.to_string(), self.protocol.to_string()),
            ("version of the program", other.version.clone(), self.version.clone()),
            ("number of ranks", other.size.to_string(), self.size.to_string()),
        ];
        let differs = all.into_iter().find(|(_, value, first)| value != first);
        differs.map_or(Ok(()), |(what, value, first)| {
            Err(Refusal::Differs { what: what.to_owned(), rank: other.rank, value, first })
        })
    }
}

/// What rank 0 says of a claim.
#[derive(Debug, Serialize, Deserialize)]
struct Verdict {
    first: Claim,
    refusal: Option<Refusal>,
}

/// What all ranks of a job know.
#[derive(Clone)]
pub(super) struct Key(Vec<u8>);

impl Key {
    /// The secret if there is one, else the job's name.
    pub(super) fn of(launch: &Launch) -> Self {
        let text = match &launch.secret {
            Some(secret) => format!("secret {}", secret.text()),
            None => format!("job {}", launch.job),
        };
        Self(text.into_bytes())
    }

    fn proof(&self, who: &[u8], said: &[&[u8]]) -> io::Result<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(io::Error::other)?;
        for part in [&[who], said].concat() {
            // With its length, so that no two conversations are the same bytes.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        Ok(mac)
    }
}

/// A connection whose reads and writes end at a deadline, all together.
struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Deadline,
}

impl Timed<'_> {
    fn rest(&self) -> io::Result<Option<std::time::Duration>> {
        self.deadline.rest().map(Some).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A text with its length, as JSON.
    fn text(&mut self) -> io::Result<Vec<u8>> {
        let length = u32::from_le_bytes(self.array()?);
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a text of {length} bytes")));
        }
        let mut bytes = vec![0; length as usize];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.rest()?)?;
        (&mut &*self.stream).read(to)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.rest()?)?;
        (&mut &*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn random() -> io::Result<[u8; RANDOM]> {
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// A text with its length and a proof.
fn proven(text: &[u8], proof: Hmac<Sha256>) -> Vec<u8> {
    let mut all = (text.len() as u32).to_le_bytes().to_vec();
    all.extend(text);
    all.extend(proof.finalize().into_bytes());
    all
}

/// A connection to rank 0 whose other side proved that it knows the key.
#[derive(Debug)]
pub(super) struct Proven {
    stream: TcpStream,
    pub(super) claim: Claim,
    /// What both sides have sent so far.
    said: [Vec<u8>; 3],
}

/// Why a connection to rank 0 is refused before its claim counts.
#[derive(Debug)]
pub(super) enum Knock {
    /// It is not a rank.
    Stranger,
    /// It may be a rank, but does not know the key.
    Secret(Claim),
}

impl From<io::Error> for Knock {
    fn from(_: io::Error) -> Self {
        Self::Stranger
    }
}

/// Rank 0's side, up to the claim of the other.
pub(super) fn receive(stream: TcpStream, key: &Key, deadline: Deadline) -> Result<Proven, Knock> {
    let mut to = Timed { stream: &stream, deadline };
    if to.array()? != *GREETING {
        return Err(Knock::Stranger);
    }
    let (theirs, ours) = (to.array::<RANDOM>()?, random()?);
    to.write_all(&[&GREETING[..], &ours].concat())?;
    let text = to.text()?;
    let proof = to.array::<PROOF>()?;
    let claim: Claim = serde_json::from_slice(&text).map_err(io::Error::from)?;
    if key.proof(RANK, &[&theirs, &ours, &text])?.verify_slice(&proof).is_err() {
        // What it is told does not matter to anybody else.
        let _ = to.write_all(&[0]);
        return Err(Knock::Secret(claim));
    }
    Ok(Proven { claim, said: [theirs.to_vec(), ours.to_vec(), text], stream })
}

impl Proven {
    /// Tells the rank that it is in, or why not, and returns the connection.
    pub(super) fn answer(
        self,
        key: &Key,
        first: &Claim,
        refusal: Option<Refusal>,
        deadline: Deadline,
    ) -> io::Result<TcpStream> {
        let text = serde_json::to_vec(&Verdict { first: first.clone(), refusal })?;
        let [theirs, ours, claim] = &self.said;
        let proof = key.proof(FIRST, &[theirs, ours, claim, &text])?;
        let mut to = Timed { stream: &self.stream, deadline };
        to.write_all(&[&[1], &proven(&text, proof)[..]].concat())?;
        Ok(self.stream)
    }
}

/// Why a rank is not in.
#[derive(Debug)]
pub(super) enum Failed {
    /// Nothing was promised yet; another attempt may do better.
    Again(String),
    /// Another attempt would fail too.
    For(LaunchError),
}

/// A rank's side.
pub(super) fn send(stream: &TcpStream, launch: &Launch, at: &str, deadline: Deadline) -> Result<(), Failed> {
    let key = Key::of(launch);
    let mut to = Timed { stream, deadline };
    let (ours, theirs) = greet(&mut to).map_err(|e| {
        // Bytes of another kind come from another program; silence may come from a rank 0 that is busy.
        if e.kind() == io::ErrorKind::InvalidData {
            Failed::For(LaunchError::Stranger { at: at.to_owned(), reason: e.to_string() })
        } else {
            Failed::Again(format!("the connection was made, then {}", heard(&e)))
        }
    })?;
    introduce(&mut to, launch, &key, [&ours, &theirs]).map_err(|e| {
        Failed::For(match e {
            Introduced::Secret => LaunchError::Secret { at: at.to_owned(), job: launch.job.clone() },
            Introduced::Refused(refusal) => refusal.into(),
            Introduced::Broken(e) => LaunchError::Ended { at: at.to_owned(), why: heard(&e) },
        })
    })
}

/// What was heard of the other side instead of what it should say.
fn heard(reason: &io::Error) -> String {
    if is_timeout(reason) {
        "it said nothing".to_owned()
    } else if reason.kind() == io::ErrorKind::UnexpectedEof {
        "it closed the connection".to_owned()
    } else {
        reason.to_string()
    }
}

fn greet(to: &mut Timed<'_>) -> io::Result<([u8; RANDOM], [u8; RANDOM])> {
    let ours = random()?;
    to.write_all(&[&GREETING[..], &ours].concat())?;
    if to.array()? != *GREETING {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak this protocol"));
    }
    Ok((ours, to.array()?))
}

enum Introduced {
    Secret,
    Refused(Refusal),
    Broken(io::Error),
}

impl From<io::Error> for Introduced {
    fn from(reason: io::Error) -> Self {
        Self::Broken(reason)
    }
}

fn introduce(
    to: &mut Timed<'_>,
    launch: &Launch,
    key: &Key,
    [ours, theirs]: [&[u8]; 2],
) -> Result<(), Introduced> {
    let claim = Claim::of(launch);
    let text = serde_json::to_vec(&claim).map_err(io::Error::from)?;
    to.write_all(&proven(&text, key.proof(RANK, &[ours, theirs, &text])?))?;
    if to.array::<1>()? != [1] {
        return Err(Introduced::Secret);
    }
    let answer = to.text()?;
    let proof = to.array::<PROOF>()?;
    if key.proof(FIRST, &[ours, theirs, &text, &answer])?.verify_slice(&proof).is_err() {
        return Err(Introduced::Secret);
    }
    let answer: Verdict = serde_json::from_slice(&answer).map_err(io::Error::from)?;
    if let Some(refusal) = answer.refusal {
        return Err(Introduced::Refused(refusal));
    }
    // Rank 0 has checked; should its version check less, this one does not.
    answer.first.check(&claim).map_err(Introduced::Refused)
}

#[cfg(test)]
mod tests {
    use super::{Claim, Failed, Key, Knock, Proven, receive, send};
    use crate::ranks::{Deadline, Launch, LaunchError, Refusal, Secret};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    fn launch(rank: usize, secret: &str) -> Launch {
        let secret = Some(Secret::from(secret.to_owned()));
        let (address, job) = ("localhost".to_owned(), String::new());
        Launch { rank, local_rank: rank, size: 3, address, port: 1, job, secret }
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (listener.accept().expect("a connection").0, there)
    }

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(5))
    }

    /// Both sides of a handshake: what rank 0 finds, and what rank 2 does, where rank 0 answers as `answer` says.
    fn handshake(
        (first, other): (&str, &str),
        answer: impl Fn(Proven) + Sync,
    ) -> (Option<Knock>, Result<(), Failed>) {
        let (here, there) = pair();
        let key = Key::of(&launch(0, first));
        std::thread::scope(|s| {
            let knock = s.spawn(|| receive(here, &key, soon()).map(&answer).err());
            let failed = send(&there, &launch(2, other), "there", soon());
            (knock.join().expect("rank 0"), failed)
        })
    }

    #[test]
    fn who_knows_the_key_is_in() {
        let (knock, sent) = handshake(("a", "a"), |proven| {
            assert_eq!(proven.claim.rank, 2);
            let (key, claim) = (Key::of(&launch(0, "a")), Claim::of(&launch(0, "a")));
            assert_eq!(claim.check(&proven.claim), Ok(()));
            proven.answer(&key, &claim, None, soon()).expect("an answer");
        });
        assert!(knock.is_none() && sent.is_ok(), "{knock:?} {sent:?}");
    }

    #[test]
    fn who_does_not_is_not() {
        let (knock, sent) = handshake(("a", "b"), |_| panic!("proven"));
        assert!(matches!(knock, Some(Knock::Secret(Claim { rank: 2, .. }))), "{knock:?}");
        assert!(matches!(sent, Err(Failed::For(LaunchError::Secret { .. }))), "{sent:?}");
    }

    #[test]
    fn rank_0_proves_the_key_too() {
        let (_, sent) = handshake(("a", "a"), |proven| {
            let claim = Claim::of(&launch(0, "a"));
            proven.answer(&Key::of(&launch(0, "b")), &claim, None, soon()).expect("an answer");
        });
        assert!(matches!(sent, Err(Failed::For(LaunchError::Secret { .. }))), "{sent:?}");
    }

    #[test]
    fn a_job_is_no_secret_of_the_same_text() {
        let named = Launch { job: "a".to_owned(), secret: None, ..launch(0, "") };
        assert_ne!(Key::of(&named).0, Key::of(&launch(0, "a")).0);
    }

    #[test]
    fn what_differs_is_named_on_both_sides() {
        let claim = Claim::of(&launch(0, "a"));
        for (first, text) in [
            (
                Claim { version: "9.9.9".to_owned(), ..claim.clone() },
                format!(
                    "the version of the program differs: rank 2 has {}, rank 0 has 9.9.9",
                    env!("CARGO_PKG_VERSION")
                ),
            ),
            (
                Claim { protocol: 7, ..claim.clone() },
                "the protocol between ranks differs: rank 2 has 1, rank 0 has 7".to_owned(),
            ),
            (
                Claim { size: 5, ..claim.clone() },
                "the number of ranks differs: rank 2 has 3, rank 0 has 5".to_owned(),
            ),
        ] {
            let (_, sent) = handshake(("a", "a"), |proven| {
                let refusal = first.check(&proven.claim).expect_err("a refusal");
                assert!(refusal.to_string().starts_with(&text), "{refusal}");
                proven.answer(&Key::of(&launch(0, "a")), &first, Some(refusal), soon()).expect("an answer");
            });
            let Err(Failed::For(LaunchError::Refused(refusal @ Refusal::Differs { .. }))) = sent else {
                panic!("{sent:?}");
            };
            assert!(refusal.to_string().starts_with(&text), "{refusal}");
        }
    }

    #[test]
    fn strangers_are_told_apart() {
        let long = [&b"LANDFALL"[..], &[0; 32], &[0xff; 4], &[0; 99]].concat();
        for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"", b"LANDFALL", &long] {
            let (here, mut there) = pair();
            there.write_all(said).expect("a few bytes");
            there.shutdown(std::net::Shutdown::Write).expect("a connection");
            let knock = receive(here, &Key::of(&launch(0, "a")), soon());
            assert!(matches!(knock, Err(Knock::Stranger)), "{knock:?}");
        }
    }

    #[test]
    fn the_time_limit_is_that_of_the_whole() {
        let (here, mut there) = pair();
        let (began, limit) = (Instant::now(), Duration::from_millis(150));
        let deadline = Deadline::after(limit);
        std::thread::scope(|s| {
            let slow =
                s.spawn(|| (receive(here, &Key::of(&launch(0, "a")), deadline).err(), began.elapsed()));
            // Each byte comes in time, all of them do not.
            for byte in [&b"LANDFALL"[..], &[0; 32]].concat() {
                if there.write_all(&[byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(25));
            }
            let (knock, time) = slow.join().expect("rank 0");
            assert!(matches!(knock, Some(Knock::Stranger)), "{knock:?}");
            assert!(time < Duration::from_millis(700), "{time:?}");
        });
    }

    #[test]
    fn another_program_in_the_place_of_rank_0() {
        let (mut here, there) = pair();
        here.write_all(&[b'x'; 40]).expect("a few bytes");
        let sent = send(&there, &launch(1, "a"), "there", soon());
        assert!(matches!(sent, Err(Failed::For(LaunchError::Stranger { .. }))), "{sent:?}");
        // One that ends the connection may be rank 0 of a run before.
        let (mut here, there) = pair();
        let sent = std::thread::scope(|s| {
            let sent = s.spawn(|| send(&there, &launch(1, "a"), "there", soon()));
            here.read_exact(&mut [0; 40]).expect("a greeting");
            here.shutdown(std::net::Shutdown::Both).expect("a connection");
            sent.join().expect("rank 1")
        });
        assert!(matches!(sent, Err(Failed::Again(_))), "{sent:?}");
    }
}
