//! Training runs of the program that a campaign disturbs, and what must hold of their run directories.

use super::random::Random;
use super::tally::findings;
use landfall_train::checkpoint::File;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Steps between checkpoints.
pub(super) const INTERVAL: usize = 7;
/// No run takes so long.
const LONGEST: Duration = Duration::from_secs(120);

/// Flags of the runs: a fixed number of steps, epochs with the best weights kept, and the default recipe.
const RECIPES: [&str; 3] = [
    "--preset patchtst-42 --context 32 --horizon 8 --batch 16 --max-steps 60",
    "--preset patchtst-42 --context 32 --horizon 8 --batch 16 --epochs 4",
    "--model nlinear --horizon 8 --max-steps 60",
];

/// A run that nothing disturbed.
pub(super) struct Straight {
    flags: &'static str,
    /// Its files.
    files: BTreeMap<String, Vec<u8>>,
    /// What its last line of output says of errors.
    result: serde_json::Value,
    /// How long it took.
    pub(super) time: Duration,
}

/// The program, data, and the undisturbed runs.
pub(super) struct Bench {
    program: PathBuf,
    folder: tempfile::TempDir,
    pub(super) straight: Vec<Straight>,
}

/// How a process ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl Ended {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Whether the run had nothing left to do.
    pub(super) fn was_complete(&self) -> bool {
        // A run of linear networks alone has no checkpoint to resume from: it is through, or starts over.
        self.code == Some(2) && (self.err.contains("is complete") || self.err.contains("already exists"))
    }

    /// Its error, if that is one line.
    pub(super) fn error(&self) -> Result<&str, String> {
        let mut lines = self.err.lines().filter(|l| l.starts_with("error: "));
        match (
            lines.next(),
            lines.next(),
            self.err.contains("panicked") || self.err.contains("internal error"),
        ) {
            (Some(line), None, false) => Ok(line),
            _ => Err(format!("no error of one line: {:?}", self.err)),
        }
    }
}

impl Bench {
    /// Makes data and runs each recipe once, undisturbed.
    ///
    /// # Errors
    /// A run that fails.
    pub(super) fn new(program: PathBuf) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        fs::write(folder.path().join("d.csv"), data()).map_err(|e| e.to_string())?;
        let mut bench = Self { program, folder, straight: Vec::new() };
        for flags in RECIPES {
            let start = Instant::now();
            let name = format!("straight{}", bench.straight.len());
            let ended = bench.end(bench.start(&bench.train(flags, &name))?)?;
            let time = start.elapsed();
            if ended.code != Some(0) {
                return Err(format!("the undisturbed run ends with {:?}: {}", ended.code, ended.err));
            }
            let files = files(&bench.path(&name))?;
            let result = result(&ended.out).ok_or("the undisturbed run prints no result")?;
            bench.straight.push(Straight { flags, files, result, time });
        }
        Ok(bench)
    }

    /// The run directory of this name.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn train(&self, flags: &str, name: &str) -> String {
        format!(
            "train --data d.csv {flags} --checkpoint-every {INTERVAL} --threads 1 --log-every 1 --json --out {name}"
        )
    }

    /// What starts the run of a recipe, or goes on with it once it has a checkpoint.
    pub(super) fn command(&self, recipe: usize, name: &str) -> String {
        if self.path(name).join("checkpoint.safetensors").exists() {
            format!("train --resume {name} --threads 1 --log-every 1 --json")
        } else {
            self.train(self.straight[recipe].flags, name)
        }
    }

    /// Starts the program; its output is kept in files, so that it never waits for a reader.
    pub(super) fn start(&self, words: &str) -> Result<Running, String> {
        self.start_under("", words)
    }

    /// The same after a line of the shell, such as a limit.
    pub(super) fn start_under(&self, line: &str, words: &str) -> Result<Running, String> {
        let file = || tempfile::NamedTempFile::new().map_err(|e| e.to_string());
        let (out, err) = (file()?, file()?);
        let open = |f: &tempfile::NamedTempFile| f.reopen().map(Stdio::from).map_err(|e| e.to_string());
        let mut command = match line {
            "" => Command::new(&self.program),
            line => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("{line}; exec \"$0\" \"$@\"")).arg(&self.program);
                shell
            }
        };
        command.current_dir(self.folder.path()).args(words.split(' ')).stdin(Stdio::null());
        command.stdout(open(&out)?).stderr(open(&err)?);
        let child = command.spawn().map_err(|e| format!("{} does not start: {e}", self.program.display()))?;
        Ok(Running { child, out, err })
    }

    /// Waits for the end of a process.
    pub(super) fn end(&self, mut running: Running) -> Result<Ended, String> {
        let start = Instant::now();
        while running.child.try_wait().map_err(|e| e.to_string())?.is_none() {
            if start.elapsed() > LONGEST {
                running.kill()?;
                return Err(format!("a run took more than {} s", LONGEST.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        running.ended()
    }

    /// Waits until a run has ended or the time is over.
    pub(super) fn wait(&self, running: &mut Running, time: Duration) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < time && running.child.try_wait().map_err(|e| e.to_string())?.is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Goes on with a run, or starts it over, until it is finished, and compares it with the undisturbed one.
    pub(super) fn finish(&self, recipe: usize, name: &str) -> Result<(), String> {
        let ended = self.end(self.start(&self.command(recipe, name))?)?;
        match ended.code {
            Some(0) => {
                let (was, is) = (&self.straight[recipe].result, result(&ended.out));
                if is.as_ref() != Some(was) {
                    return Err(format!("its result is {is:?}, undisturbed {was}"));
                }
            }
            _ if ended.was_complete() => {}
            code => return Err(format!("going on ends with {code:?}: {}", ended.err.trim())),
        }
        self.same(recipe, name)
    }

    /// Whether a run that is through left the files of the undisturbed one: nothing torn, doubled, missing or besides.
    pub(super) fn same(&self, recipe: usize, name: &str) -> Result<(), String> {
        let (was, is) = (&self.straight[recipe].files, files(&self.path(name))?);
        if !was.keys().eq(is.keys()) {
            return Err(format!("it holds {:?}, undisturbed {:?}", is.keys(), was.keys()));
        }
        for (file, was) in was {
            let is = &is[file];
            if was == is {
                continue;
            }
            if file == "metrics.jsonl" {
                let (was, is) = (String::from_utf8_lossy(was), String::from_utf8_lossy(is));
                let at = was.lines().zip(is.lines()).take_while(|(a, b)| a == b).count();
                return Err(format!(
                    "metrics.jsonl has {} lines, undisturbed {}; line {} is {:?}, undisturbed {:?}",
                    is.lines().count(),
                    was.lines().count(),
                    at + 1,
                    is.lines().nth(at),
                    was.lines().nth(at)
                ));
            }
            return Err(format!("{file} has other bytes than undisturbed"));
        }
        Ok(())
    }

    /// What must hold of a run directory whenever its process has ended: every checkpoint is whole, and no step is lost
    /// but those since the last one.
    pub(super) fn sound(&self, name: &str) -> Result<Option<usize>, String> {
        let path = self.path(name);
        let Ok(entries) = fs::read_dir(&path) else { return Ok(None) };
        for entry in entries.filter_map(Result::ok) {
            if entry.path().extension().is_some_and(|e| e == "safetensors") {
                File::read(&entry.path()).map_err(|e| format!("torn: {e}"))?;
            }
        }
        let checkpoint = path.join("checkpoint.safetensors");
        if !checkpoint.exists() {
            let logged = logged(&path);
            return if logged > 0 { Err(format!("{logged} steps and no checkpoint")) } else { Ok(None) };
        }
        let file = File::read(&checkpoint).map_err(|e| e.to_string())?;
        let step = file.metadata.get("step").and_then(|s| s.parse::<usize>().ok());
        let step = step.ok_or("its checkpoint names no step")?;
        let logged = logged(&path);
        if logged > step + INTERVAL {
            return Err(format!("{logged} steps were done, and the checkpoint holds {step}"));
        }
        Ok(Some(step))
    }

    /// Keeps the run directory of a finding.
    pub(super) fn keep(&self, name: &str, label: &str) -> String {
        let to = findings().join(label);
        let copied = fs::create_dir_all(&to).is_ok()
            && fs::read_dir(self.path(name)).is_ok_and(|files| {
                files.filter_map(Result::ok).all(|f| fs::copy(f.path(), to.join(f.file_name())).is_ok())
            });
        if copied { format!("; kept in {}", to.display()) } else { String::new() }
    }

    /// Bytes of the largest file of an undisturbed run.
    pub(super) fn largest(&self, recipe: usize) -> usize {
        self.straight[recipe].files.values().map(Vec::len).max().unwrap_or(0)
    }

    /// Takes a run directory away.
    pub(super) fn remove(&self, name: &str) {
        // A run that was ended before its first file has none.
        let _ = fs::remove_dir_all(self.path(name));
    }

    /// A recipe, and a moment of its run.
    pub(super) fn moment(&self, random: &mut Random) -> (usize, Duration) {
        let recipe = random.below(self.straight.len());
        (recipe, self.straight[recipe].time.mul_f64(1.1 * random.share()))
    }
}

/// A process of the program.
pub(super) struct Running {
    child: Child,
    out: tempfile::NamedTempFile,
    err: tempfile::NamedTempFile,
}

impl Running {
    /// Ends it at once (SIGKILL).
    pub(super) fn kill(&mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(|_| ()).map_err(|e| e.to_string())
    }

    /// Sends a signal by its name; nothing happens to a process that has ended.
    pub(super) fn signal(&self, name: &str) -> Result<(), String> {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .stderr(Stdio::null())
            .status();
        sent.map(|_| ()).map_err(|e| format!("kill does not start: {e}"))
    }

    fn ended(mut self) -> Result<Ended, String> {
        let status = self.child.wait().map_err(|e| e.to_string())?;
        let read = |f: &tempfile::NamedTempFile| fs::read(f.path()).map_err(|e| e.to_string());
        Ok(Ended::of(&Output { status, stdout: read(&self.out)?, stderr: read(&self.err)? }))
    }
}

/// The last step in the metrics.
fn logged(run: &Path) -> usize {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    let step = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["step"].as_u64();
    text.lines().filter_map(step).max().unwrap_or(0) as usize
}

/// The files of a run directory; those of TensorBoard, whose names and contents hold the time, count as one without content.
fn files(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))?.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("events.out.tfevents") {
            all.insert("events.out.tfevents".to_owned(), Vec::new());
            continue;
        }
        all.insert(name, fs::read(entry.path()).map_err(|e| e.to_string())?);
    }
    Ok(all)
}

/// The object that a run prints last, without what names its run directory or its time.
fn result(out: &str) -> Option<serde_json::Value> {
    let mut object: serde_json::Value = serde_json::from_str(out.lines().last()?).ok()?;
    for key in ["run", "seconds"] {
        object.as_object_mut()?.remove(key);
    }
    Some(object)
}

/// Two hourly columns: a day with noise, and a slow wave.
fn data() -> String {
    let mut text = "date,load,wind\n".to_owned();
    for i in 0..300 {
        let (day, hour) = (i / 24, i % 24);
        let noise = f64::from((i * 7919 + 13) % 101) / 101.0;
        let load = 50.0 + 10.0 * (std::f64::consts::TAU * f64::from(hour) / 24.0).sin() + noise;
        let wind = 3.0 + (f64::from(i) / 40.0).cos() + 0.2 * noise;
        text += &format!("2021-01-{:02} {hour:02}:00:00,{load:.4},{wind:.4}\n", day + 1);
    }
    text
}
