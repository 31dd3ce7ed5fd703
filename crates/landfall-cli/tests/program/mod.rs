//! Runs the built program in a folder of its own.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod chronos;
pub(crate) mod known;
pub(crate) mod onnx;
#[cfg(unix)]
pub(crate) mod server;

use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) struct Folder(tempfile::TempDir);

#[derive(Debug)]
pub(crate) struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// What went to stderr after the line that names the device.
    pub(crate) fn notes(&self) -> &str {
        self.err
            .split_once('\n')
            .filter(|(line, _)| line.starts_with("device "))
            .map_or(&self.err, |(_, rest)| rest)
    }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect(name)
    }

    /// What this system says of a file that cannot be made or opened, as one in a folder that is not there.
    pub(crate) fn why_not(&self, name: &str) -> std::io::Error {
        let path = self.path().join(name);
        let opened = std::fs::OpenOptions::new().append(true).open(path);
        opened.expect_err("a file that is not there")
    }

    /// Names in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        Self::names_in(self.path())
    }

    /// Names in any folder, sorted.
    pub(crate) fn names_in(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).expect("listed");
        let mut names: Vec<_> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The command with these words as its arguments.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
        command.current_dir(self.path()).args(words.split_whitespace());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &str) -> Ran {
        let Output { status, stdout, stderr } = self.command(words).output().expect("it starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Ran { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// Runs, and expects success.
    pub(crate) fn runs(&self, words: &str) -> Ran {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "{words}\n{}\n{}", ran.out, ran.err);
        ran
    }

    /// Runs, and expects exit code 2, nothing on standard output, one line on standard error, and no new file. That
    /// line, without its `error: `.
    pub(crate) fn refused(&self, words: &str) -> String {
        let before = self.names();
        let ran = self.run(words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words}\n{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{words}\n{}", ran.err);
        assert_eq!(self.names(), before, "{words} left something behind");
        ran.err.trim_end().strip_prefix("error: ").expect("an error").to_owned()
    }
}

impl Ran {
    /// The last line of standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.out.lines().last().expect("a line")).expect("JSON")
    }
}

/// A path as this system writes it.
pub(crate) fn native(path: &str) -> String {
    path.replace('/', std::path::MAIN_SEPARATOR_STR)
}

/// An hourly CSV of this many rows with two columns: a day with noise, and a slow wave.
pub(crate) fn csv(rows: usize) -> String {
    let mut text = "date,load,wind\n".to_owned();
    for i in 0..rows {
        let (day, hour) = (i / 24, i % 24);
        let (month, day) = (1 + day / 28, 1 + day % 28);
        assert!(month <= 12, "at most a year of rows");
        let noise = ((i * 7919 + 13) % 101) as f64 / 101.0;
        let load = 50.0 + 10.0 * (std::f64::consts::TAU * hour as f64 / 24.0).sin() + noise;
        let wind = 3.0 + (i as f64 / 40.0).cos() + 0.2 * noise;
        text += &format!("2021-{month:02}-{day:02} {hour:02}:00:00,{load:.4},{wind:.4}\n");
    }
    text
}

/// Flags of a run small enough for tests.
pub(crate) const SMALL: &str =
    "train --preset patchtst-42 --data d.csv --context 32 --horizon 8 --batch 16 --log-every 1 --threads 2";

/// The lines of `metrics.jsonl` that are about steps, as text.
pub(crate) fn steps(metrics: &str) -> Vec<&str> {
    metrics.lines().filter(|l| l.contains("\"loss\"")).collect()
}
