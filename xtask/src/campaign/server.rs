//! A server to attack: what it serves, its process and its memory.

use crate::command::must;
use crate::http;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The token that servers ask for.
pub(super) const TOKEN: &str = "of-the-campaign";

/// What a server forecasts with.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    OfRun,
    WithoutRun,
}

impl Kind {
    /// What findings call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OfRun => "of a run",
            Self::WithoutRun => "without a run",
        }
    }

    /// Where a forecast is asked for.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::OfRun => "/forecast",
            Self::WithoutRun => "/forecast?horizon=12",
        }
    }

    /// Seconds that it gives a request. The pretrained network takes one for a large batch, and more where the machine is busy.
    const fn limit(self) -> u64 {
        match self {
            Self::OfRun => 2,
            Self::WithoutRun => 5,
        }
    }

    /// MiB that it may have at any moment: what docs/serving.md says of `--max-body 1`, and what it has at rest; without a run 0.3 GiB
    /// more for the programs of the pretrained network.
    pub(super) const fn ceiling(self) -> f64 {
        match self {
            Self::OfRun => 256.0,
            Self::WithoutRun => 564.0,
        }
    }

    /// Of the codes that are right for a server of a run and for one without, its own.
    pub(super) const fn codes(self, of_run: &'static [u16], without_run: &'static [u16]) -> &'static [u16] {
        match self {
            Self::OfRun => of_run,
            Self::WithoutRun => without_run,
        }
    }
}

/// A server of its own.
pub(super) struct Server {
    process: Child,
    pub(super) address: String,
    said: std::thread::JoinHandle<String>,
}

impl Server {
    pub(super) fn start(program: &Path, folder: &Path, kind: Kind) -> Result<Self, String> {
        let (run, limit) = (if kind == Kind::OfRun { " run" } else { "" }, kind.limit());
        let line = format!("serve{run} --port 0 --device cpu --max-body 1 --timeout {limit} --token {TOKEN}");
        let mut process = Command::new(program)
            .current_dir(folder)
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let (out, err) = (process.stdout.take(), process.stderr.take());
        let (Some(out), Some(mut err)) = (out, err) else { return Err("no output".to_owned()) };
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let mut first = String::new();
        BufReader::new(out).read_line(&mut first).map_err(|e| e.to_string())?;
        let address =
            first.trim().rsplit_once("http://").ok_or_else(|| format!("it says {first:?}"))?.1.to_owned();
        Ok(Self { process, address, said })
    }

    /// The answer of a good request.
    pub(super) fn ask(&self, request: &[u8]) -> Result<Vec<u8>, String> {
        let mut stream = TcpStream::connect(&self.address).map_err(|e| e.to_string())?;
        stream.write_all(request).map_err(|e| e.to_string())?;
        match http::read(&mut BufReader::new(stream))? {
            Some(answer) if answer.code == 200 => Ok(answer.body),
            Some(answer) => Err(format!("a good request: {}", String::from_utf8_lossy(&answer.body))),
            None => Err("a good request has no answer".to_owned()),
        }
    }

    /// A line of the process's status.
    fn status(&self, key: &str) -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        text.lines().find_map(|l| l.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
    }

    /// The most resident memory that it has had, in MiB.
    pub(super) fn peak(&self) -> Option<f64> {
        Some(self.status("VmHWM:")? / 1024.0)
    }

    /// Resident memory in MiB.
    pub(super) fn memory(&self) -> Option<f64> {
        Some(self.status("VmRSS:")? / 1024.0)
    }

    pub(super) fn threads(&self) -> Option<f64> {
        self.status("Threads:")
    }

    /// Asks it to end: its exit code, and what it said.
    pub(super) fn stop(self) -> Result<(Option<i32>, String), String> {
        let Self { mut process, said, .. } = self;
        must(Command::new("kill").arg("-TERM").arg(process.id().to_string()))?;
        let ended = process.wait().map_err(|e| e.to_string())?;
        Ok((ended.code(), said.join().unwrap_or_default()))
    }
}
