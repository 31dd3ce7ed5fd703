//! `cargo xtask campaign fuzz`: random inputs for what reads files.
//!
//! A worker process makes the cases and gives them to the entry functions; this process watches it, so that a case that
//! never ends, overflows the stack or fills the memory is a finding like any other. A case follows from seed and number.

mod entry;
mod mutate;
mod seeds;

use super::options::Options;
use super::random::Random;
use super::tally::{Tally, findings};
use clap::ValueEnum;
use entry::Entry;
pub(super) use entry::Target;
use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a case may take.
const LONGEST: Duration = Duration::from_secs(5);
/// Address space of a worker, in KiB.
const MEMORY: u64 = 8 << 20;
/// Inputs that are tried to make a finding smaller.
const TRIES: usize = 2000;
/// Findings after which a target is left.
const ENOUGH: usize = 20;

/// Runs the cases of the targets that are named, or of all.
pub(super) fn run(targets: &[Target], options: &Options) -> Result<Tally, String> {
    let targets = if targets.is_empty() { Target::value_variants() } else { targets };
    let mut tally = Tally::default();
    for target in targets {
        let count = options.count.div_ceil(targets.len());
        let range = options.case.map_or(0..count as u64, |case| case..case + 1);
        watch(*target, range, options, &mut tally)?;
    }
    Ok(tally)
}

/// Runs workers until all cases are through, a new one after each that died.
fn watch(
    target: Target,
    mut cases: std::ops::Range<u64>,
    options: &Options,
    tally: &mut Tally,
) -> Result<(), String> {
    let start = Instant::now();
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (progress, accepted) = (folder.path().join("progress"), folder.path().join("accepted"));
    let (mut findings, first) = (0, cases.start);
    while !cases.is_empty() && findings < ENOUGH {
        fs::write(&progress, cases.start.to_le_bytes()).map_err(|e| e.to_string())?;
        let mut worker = worker(target, &cases, options.seed, folder.path())?;
        let ended = wait(&mut worker, &progress)?;
        let at = read(&progress).unwrap_or(cases.start);
        match ended {
            Ended::Through => {
                cases.start = cases.end;
                break;
            }
            Ended::Found => {}
            Ended::Died(how) => tally.finding(format!(
                "{} case {at}: {how}; its input: {}",
                target.name(),
                keep(target, options.seed, at, &input(target, options.seed, at, folder.path())?)?.display()
            )),
        }
        findings += 1;
        cases.start = at + 1;
    }
    let found = fs::read_to_string(folder.path().join("findings")).unwrap_or_default();
    found.lines().for_each(|line| tally.finding(line.to_owned()));
    let done = cases.start - first;
    tally.count += done as usize;
    let seconds = start.elapsed().as_secs_f64();
    tally.note(format!(
        "{}: {} accepted, {:.0} inputs a second",
        target.name(),
        read(&accepted).unwrap_or(0),
        done as f64 / seconds
    ));
    Ok(())
}

enum Ended {
    Through,
    /// The worker wrote a finding and stopped.
    Found,
    Died(String),
}

fn worker(target: Target, cases: &std::ops::Range<u64>, seed: u64, folder: &Path) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"")])
        .arg(own)
        .args(["campaign", "fuzz-worker", target.name()])
        .args([cases.start.to_string(), cases.end.to_string()])
        .arg(folder)
        .args(["--seed", &seed.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("no worker: {e}"))
}

/// Waits for a worker; one that stays at a case for too long is ended.
fn wait(worker: &mut Child, progress: &Path) -> Result<Ended, String> {
    let (mut last, mut since) = (None, Instant::now());
    loop {
        if let Some(status) = worker.try_wait().map_err(|e| e.to_string())? {
            return Ok(match status.code() {
                Some(0) => Ended::Through,
                Some(1) => Ended::Found,
                _ => Ended::Died(format!("the process ended with {status}")),
            });
        }
        let now = read(progress);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > LONGEST {
            worker.kill().and_then(|()| worker.wait()).map_err(|e| e.to_string())?;
            return Ok(Ended::Died(format!("it took more than {} s", LONGEST.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn read(path: &Path) -> Option<u64> {
    fs::read(path).ok()?.try_into().ok().map(u64::from_le_bytes)
}

/// Arguments of the process that runs cases.
#[derive(clap::Args)]
pub(super) struct Worker {
    target: Target,
    /// The first case
    first: u64,
    /// The first case that is not run
    end: u64,
    /// Where progress and findings are written
    folder: PathBuf,
}

impl Worker {
    /// Runs cases until one is a finding; whether one was.
    pub(super) fn run(&self, seed: u64) -> Result<bool, String> {
        let Self { target, folder, .. } = self;
        let open =
            |name| fs::OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(name));
        let (progress, accepted) =
            (open("progress").map_err(|e| e.to_string())?, open("accepted").map_err(|e| e.to_string())?);
        let mut taken: u64 = read(&folder.join("accepted")).unwrap_or(0);
        let mut maker = Maker::new(*target, folder)?;
        for case in self.first..self.end {
            progress.write_all_at(&case.to_le_bytes(), 0).map_err(|e| e.to_string())?;
            let input = maker.input(seed, case);
            match verdict(&mut maker.entry, &input) {
                Ok(ok) => taken += u64::from(ok),
                Err(why) => {
                    let small = smaller(&mut maker.entry, input);
                    let kept = keep(*target, seed, case, &small)?;
                    let line = format!(
                        "{} case {case}: {}; {} bytes in {}\n",
                        target.name(),
                        why.replace('\n', " "),
                        small.len(),
                        kept.display()
                    );
                    let file = folder.join("findings");
                    let before = fs::read_to_string(&file).unwrap_or_default();
                    fs::write(file, before + &line).map_err(|e| e.to_string())?;
                    accepted.write_all_at(&taken.to_le_bytes(), 0).map_err(|e| e.to_string())?;
                    return Ok(true);
                }
            }
        }
        accepted.write_all_at(&taken.to_le_bytes(), 0).map_err(|e| e.to_string())?;
        Ok(false)
    }
}

/// Makes the inputs of a target's cases.
struct Maker {
    target: Target,
    entry: Entry,
    seeds: Vec<Vec<u8>>,
    folder: PathBuf,
}

impl Maker {
    fn new(target: Target, folder: &Path) -> Result<Self, String> {
        let entry = Entry::new(target, folder)?;
        let mut seeds = seeds::texts(target);
        seeds.extend(entry.sound()?);
        Ok(Self { target, entry, seeds, folder: folder.to_owned() })
    }

    fn input(&self, seed: u64, case: u64) -> Vec<u8> {
        let mut random = Random::of(seed, case);
        let sound = random.pick(&self.seeds);
        let other = random.pick(&self.seeds);
        if random.below(2) == 0
            && let Some(input) = seeds::structured(self.target, sound, &self.folder, &mut random)
        {
            return input;
        }
        let mut input = sound.clone();
        mutate::mutate(&mut input, other, &mut random);
        input
    }
}

fn input(target: Target, seed: u64, case: u64, folder: &Path) -> Result<Vec<u8>, String> {
    Ok(Maker::new(target, folder)?.input(seed, case))
}

/// What the entry function says of an input; a panic is a finding.
fn verdict(entry: &mut Entry, input: &[u8]) -> entry::Verdict {
    catch_unwind(AssertUnwindSafe(|| entry.call(input))).unwrap_or_else(|payload| {
        let said = payload.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("a panic: {said}"))
    })
}

/// The smallest input found that is a finding too: parts are left out, half of what was tried before at a time.
fn smaller(entry: &mut Entry, mut input: Vec<u8>) -> Vec<u8> {
    let (mut part, mut tries, start) = (input.len().div_ceil(2), 0, Instant::now());
    while part > 0 && tries < TRIES && start.elapsed() < LONGEST / 2 {
        let (mut at, mut shrank) = (0, false);
        while at < input.len() && tries < TRIES {
            let mut without = input[..at].to_vec();
            without.extend_from_slice(&input[(at + part).min(input.len())..]);
            tries += 1;
            if verdict(entry, &without).is_err() {
                (input, shrank) = (without, true);
            } else {
                at += part;
            }
        }
        if !shrank || part > 1 {
            part /= 2;
        }
    }
    input
}

/// Writes an input where a person finds it.
fn keep(target: Target, seed: u64, case: u64, input: &[u8]) -> Result<PathBuf, String> {
    let folder = findings();
    let path = folder.join(format!("fuzz-{}-{seed}-{case}", target.name()));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)).map_err(|e| e.to_string())?;
    Ok(path)
}
