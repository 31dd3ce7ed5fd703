//! A peer: a program in another library that times the same rows when it is asked to, and is idle otherwise.
//!
//! `bench/peers/protocol.py` describes the lines that are exchanged.

use crate::stop::Stop;
use landfall::DeviceKind;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A process that compiles its rows keeps about so many threads busy.
const THREADS_TO_WARM: usize = 2;

/// What a peer is asked at its start.
pub(crate) struct Request<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) device: DeviceKind,
    /// Names of dtypes, with commas.
    pub(crate) dtypes: &'a str,
    pub(crate) threads: usize,
    pub(crate) seconds: f64,
    /// The rows of each process.
    pub(crate) processes: &'a [Vec<String>],
    /// How long one answer may take.
    pub(crate) limit: Duration,
    /// Set when the person has had enough.
    pub(crate) stop: &'a Stop,
}

/// A row in one mode that a peer is ready to time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct PeerRow {
    pub(crate) row: String,
    pub(crate) dtype: String,
    pub(crate) mode: String,
    /// Of step rows: the number of trainable parameters, and two losses.
    pub(crate) parameters: Option<usize>,
    pub(crate) first_loss: Option<f64>,
    pub(crate) last_loss: Option<f64>,
}

/// Why a peer is left out.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("python3 cannot be started: {0}")]
    Start(String),
    #[error("it said nothing for {0} s (--peer-limit)")]
    Hung(u64),
    #[error("it ended: {0}")]
    Ended(String),
    #[error("it said `{0}`, which is not of the protocol")]
    Garbled(String),
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}

/// One line of a peer.
#[derive(Debug, PartialEq)]
enum Message {
    Modes(Vec<String>),
    Warm(PeerRow),
    Failed { what: String, error: String },
    Done { version: String },
    Sample { row: String, mode: String, us: f64 },
}

#[derive(Deserialize)]
struct Line {
    row: Option<String>,
    dtype: Option<String>,
    mode: Option<String>,
    parameters: Option<usize>,
    first_loss: Option<f64>,
    last_loss: Option<f64>,
    warm_s: Option<f64>,
    us: Option<f64>,
    error: Option<String>,
    version: Option<String>,
    modes: Option<Vec<String>>,
    #[serde(default)]
    ready: bool,
}

fn parse(text: &str) -> Result<Message, Fault> {
    let garbled = || Fault::Garbled(text.chars().take(200).collect());
    let line: Line = serde_json::from_str(text).map_err(|_| garbled())?;
    let message = match line {
        Line { error: Some(error), row, mode, .. } => {
            let what = [row, mode].into_iter().flatten().collect::<Vec<_>>().join(" ");
            Some(Message::Failed { what, error })
        }
        Line { modes: Some(modes), .. } => Some(Message::Modes(modes)),
        Line { ready: true, version: Some(version), .. } => Some(Message::Done { version }),
        Line { us: Some(us), row: Some(row), mode: Some(mode), .. } if us.is_finite() && us > 0.0 => {
            Some(Message::Sample { row, mode, us })
        }
        Line { warm_s: Some(_), row: Some(row), dtype: Some(dtype), mode: Some(mode), us: None, .. } => {
            let Line { parameters, first_loss, last_loss, .. } = line;
            Some(Message::Warm(PeerRow { row, dtype, mode, parameters, first_loss, last_loss }))
        }
        Line { .. } => None,
    };
    message.ok_or_else(garbled)
}

/// A process of a peer, and what it times.
struct Worker {
    mode: String,
    rows: Vec<String>,
    process: Process,
}

/// A running peer, processes for each of its modes; they end when this drops.
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) ready: Vec<PeerRow>,
    /// Rows that it could not build, modes that did not start, and why.
    pub(crate) failures: Vec<String>,
    workers: Vec<Worker>,
}

impl Peer {
    /// Starts `python3 <folder>/<name>_peer.py` for each of its modes and each group of rows, as many at once as there are
    /// threads for, and waits until every row is warm. A process that does not get that far is left out.
    ///
    /// # Errors
    /// Why the peer has to be left out: none did. Its processes are gone then.
    pub(crate) fn start(name: &str, request: &Request<'_>) -> Result<Self, Fault> {
        let mut peer = Self {
            name: name.to_owned(),
            version: String::new(),
            ready: Vec::new(),
            failures: Vec::new(),
            workers: Vec::new(),
        };
        let modes = Self::modes(name, request)?;
        let wanted: Vec<(&String, &Vec<String>)> =
            modes.iter().flat_map(|mode| request.processes.iter().map(move |rows| (mode, rows))).collect();
        let mut first = None;
        for together in wanted.chunks((request.threads / THREADS_TO_WARM).max(1)) {
            let started: Vec<_> =
                together.iter().map(|(mode, rows)| peer.spawn(mode, rows, request)).collect();
            for (&(mode, rows), process) in together.iter().zip(started) {
                match process.and_then(|process| peer.warm(process, request)) {
                    Ok(process) => {
                        peer.workers.push(Worker { mode: mode.clone(), rows: rows.clone(), process });
                    }
                    Err(Fault::Interrupted) => return Err(Fault::Interrupted),
                    Err(fault) => {
                        let row = rows.first().map_or("", String::as_str);
                        let more = if rows.len() > 1 { " and others" } else { "" };
                        peer.failures.push(format!("{row}{more} {mode}: {fault}"));
                        first.get_or_insert(fault);
                    }
                }
            }
        }
        match first {
            Some(fault) if peer.workers.is_empty() => Err(fault),
            Some(_) | None => Ok(peer),
        }
    }

    fn command(name: &str, request: &Request<'_>) -> Command {
        let mut command = Command::new("python3");
        command.arg(request.folder.join(format!("{name}_peer.py")));
        let device = match request.device {
            DeviceKind::Cpu | DeviceKind::Null => "cpu",
            DeviceKind::Cuda(ordinal) => {
                // A peer computes on the first GPU that it sees.
                if ordinal > 0 {
                    command.env("CUDA_VISIBLE_DEVICES", ordinal.to_string());
                }
                "cuda"
            }
        };
        command.args(["--device", device]);
        command
    }

    fn modes(name: &str, request: &Request<'_>) -> Result<Vec<String>, Fault> {
        let mut command = Self::command(name, request);
        command.arg("--list-modes");
        match Process::start(command)?.next(request)? {
            Message::Modes(modes) => Ok(modes),
            other @ (Message::Warm(_)
            | Message::Failed { .. }
            | Message::Done { .. }
            | Message::Sample { .. }) => Err(Fault::Garbled(format!("{other:?}"))),
        }
    }

    fn spawn(&self, mode: &str, rows: &[String], request: &Request<'_>) -> Result<Process, Fault> {
        let mut command = Self::command(&self.name, request);
        command.args(["--dtypes", request.dtypes, "--modes", mode]);
        command.args(["--threads", &request.threads.to_string()]);
        command.args(["--seconds", &request.seconds.to_string()]).args(rows);
        Process::start(command)
    }

    /// Waits until a process is ready to time its rows.
    fn warm(&mut self, mut process: Process, request: &Request<'_>) -> Result<Process, Fault> {
        let mut ready = Vec::new();
        loop {
            match process.next(request)? {
                Message::Warm(row) => ready.push(row),
                Message::Failed { what, error } => self.failures.push(format!("{what}: {error}")),
                Message::Done { version } => {
                    self.version = version;
                    self.ready.append(&mut ready);
                    return Ok(process);
                }
                other @ (Message::Modes(_) | Message::Sample { .. }) => {
                    return Err(Fault::Garbled(format!("{other:?}")));
                }
            }
        }
    }

    /// The modes in which it times a row in a dtype.
    pub(crate) fn of<'a>(&'a self, row: &'a str, dtype: &'a str) -> impl Iterator<Item = &'a PeerRow> {
        self.ready.iter().filter(move |r| r.row == row && r.dtype == dtype)
    }

    /// Whether it still has the process that times this.
    pub(crate) fn has(&self, of: &PeerRow) -> bool {
        self.workers.iter().any(|w| w.times(of))
    }

    /// Asks for one sample: microseconds of one step.
    ///
    /// # Errors
    /// Why what its process times is left out from here on.
    pub(crate) fn sample(&mut self, of: &PeerRow, request: &Request<'_>) -> Result<f64, Fault> {
        let sampled = self.ask(of, request);
        if sampled.is_err()
            && let Some(at) = self.workers.iter().position(|w| w.times(of))
        {
            let ended = self.workers.swap_remove(at);
            self.ready.retain(|r| !ended.times(r));
        }
        sampled
    }

    fn ask(&mut self, of: &PeerRow, request: &Request<'_>) -> Result<f64, Fault> {
        let Some(Worker { process, .. }) = self.workers.iter_mut().find(|w| w.times(of)) else {
            return Err(Fault::Failed(format!("{} {} does not run", of.row, of.mode)));
        };
        let asked = writeln!(process.stdin, "run {} {} {}", of.row, of.dtype, of.mode);
        asked.and_then(|()| process.stdin.flush()).map_err(|_| process.ended())?;
        match process.next(request)? {
            Message::Sample { row, mode, us } if row == of.row && mode == of.mode => Ok(us),
            Message::Failed { what, error } => Err(Fault::Failed(format!("{what}: {error}"))),
            other
            @ (Message::Modes(_) | Message::Warm(_) | Message::Done { .. } | Message::Sample { .. }) => {
                Err(Fault::Garbled(format!("{other:?}")))
            }
        }
    }
}

impl Worker {
    fn times(&self, of: &PeerRow) -> bool {
        self.mode == of.mode && self.rows.contains(&of.row)
    }
}

/// A child process, its lines, and the end of what it said on standard error.
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Process {
    fn start(mut command: Command) -> Result<Self, Fault> {
        let failed = |e: std::io::Error| Fault::Start(e.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three were asked for");
        };
        let (send, lines) = channel();
        // A blocked read cannot be waited for with a limit, so each stream has a thread, which ends with the stream.
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.filter(|l| !l.trim().is_empty()).try_for_each(|l| send.send(l))
        });
        let errors = std::thread::spawn(move || last_line(stderr));
        Ok(Self { child, stdin, lines, errors: Some(errors) })
    }

    /// Its next line.
    fn next(&mut self, request: &Request<'_>) -> Result<Message, Fault> {
        let deadline = Instant::now() + request.limit;
        loop {
            if request.stop.raised() {
                return Err(Fault::Interrupted);
            }
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => return parse(&line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    return Err(Fault::Hung(request.limit.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Why it ended, in its own words.
    fn ended(&mut self) -> Fault {
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
        let said = self.errors.take().and_then(|t| t.join().ok()).unwrap_or_default();
        Fault::Ended(if said.is_empty() { status } else { said })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; either way it is gone afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last line that is not blank: where Python says what was raised.
fn last_line(stream: impl Read) -> String {
    let mut last = String::new();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if !line.trim().is_empty() {
            last = line.trim().to_owned();
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_protocol() {
        let warm = r#"{"row": "seed", "dtype": "f32", "mode": "jit", "warm_s": 1.5, "parameters": 9, "first_loss": 0.5, "last_loss": 0.25}"#;
        let ready = PeerRow {
            row: "seed".to_owned(),
            dtype: "f32".to_owned(),
            mode: "jit".to_owned(),
            parameters: Some(9),
            first_loss: Some(0.5),
            last_loss: Some(0.25),
        };
        assert_eq!(parse(warm), Ok(Message::Warm(ready)));
        let modes = vec!["eager".to_owned(), "graph".to_owned()];
        assert_eq!(parse(r#"{"modes": ["eager", "graph"]}"#), Ok(Message::Modes(modes)));
        let done = r#"{"ready": true, "peer": "jax", "version": "0.1"}"#;
        assert_eq!(parse(done), Ok(Message::Done { version: "0.1".to_owned() }));
        let sample = r#"{"row": "seed", "dtype": "f32", "mode": "jit", "us": 12.5}"#;
        let (row, mode) = ("seed".to_owned(), "jit".to_owned());
        assert_eq!(parse(sample), Ok(Message::Sample { row, mode, us: 12.5 }));
        let failed = r#"{"row": "seed", "dtype": "f32", "mode": "jit", "error": "E: x"}"#;
        let (what, error) = ("seed jit".to_owned(), "E: x".to_owned());
        assert_eq!(parse(failed), Ok(Message::Failed { what, error }));
    }

    #[test]
    fn other_lines_are_faults() {
        for text in [
            "hello",
            "[]",
            "{}",
            r#"{"ready": true}"#,
            r#"{"row": "seed", "dtype": "f32", "mode": "jit"}"#,
            r#"{"row": "seed", "dtype": "f32", "mode": "jit", "us": 0}"#,
            r#"{"row": "seed", "dtype": "f32", "mode": "jit", "us": "soon"}"#,
        ] {
            assert_eq!(parse(text), Err(Fault::Garbled(text.to_owned())), "{text}");
        }
    }
}
