//! A full disk at any size: one clear error, the checkpoint before is intact, nothing is left over, and the run goes on
//! once there is space.

use super::options::Options;
use super::random::Random;
use super::runs::{Bench, Ended};
use super::tally::Tally;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn run(options: &Options) -> Result<Tally, String> {
    let bench = Bench::new(options.program()?)?;
    let mut tally = Tally::default();
    let mut counts = [0; 3];
    let small = Mounted::new(&bench.path("small"));
    if small.is_none() {
        tally.note("the small file system is skipped: mounting one is not permitted here".to_owned());
    }
    for case in 0..options.count {
        let mut random = Random::of(options.seed, case as u64);
        let (recipe, time) = bench.moment(&mut random);
        let on = small.as_ref().filter(|_| case % 2 == 1);
        let name = if on.is_some() { "small/run" } else { "run" };
        let judged = one(&bench, recipe, name, on, random.below(2) == 0, &mut random, time);
        match judged {
            Ok(failed) => counts[if failed { usize::from(on.is_some()) } else { 2 }] += 1,
            Err(why) => {
                let kept = bench.keep(name, &format!("disk-{}-{case}", options.seed));
                tally.finding(format!("disk case {case}, recipe {recipe}: {why}{kept}"));
            }
        }
        bench.remove(name);
        tally.count += 1;
    }
    let [limited, mounted, enough] = counts;
    tally.note(format!(
        "{limited} failed by the limit of file sizes, {mounted} by a full file system, {enough} had enough"
    ));
    Ok(tally)
}

/// One run into a full disk; whether it failed there.
fn one(
    bench: &Bench,
    recipe: usize,
    name: &str,
    on: Option<&Mounted>,
    begun: bool,
    random: &mut Random,
    time: std::time::Duration,
) -> Result<bool, String> {
    if let Some(m) = on {
        m.size(64 << 10)?;
    }
    if begun {
        let mut running = bench.start(&bench.command(recipe, name))?;
        bench.wait(&mut running, time)?;
        running.kill()?;
    }
    let before = bench.sound(name)?;
    let largest = bench.largest(recipe);
    let kib = 1 + random.below(largest / 1024 + largest / 4096);
    let ended = match on {
        Some(m) => {
            m.size((m.used()? + kib).max(8))?;
            bench.end(bench.start(&bench.command(recipe, name))?)?
        }
        None => {
            bench.end(bench.start_under(&format!("ulimit -f {}", 2 * kib), &bench.command(recipe, name))?)?
        }
    };
    let failed = ended.code != Some(0) && !ended.was_complete();
    if failed {
        said(&ended)?;
    }
    let after = bench.sound(name)?;
    if after < before {
        return Err(format!("the checkpoint was of step {before:?} and is of {after:?}"));
    }
    if failed && let Some(left) = left_over(&bench.path(name)) {
        return Err(format!("{left} is left over"));
    }
    if let Some(m) = on {
        m.size(64 << 10)?;
    }
    bench.finish(recipe, name)?;
    Ok(failed)
}

/// A failure is one line and no signal.
fn said(ended: &Ended) -> Result<(), String> {
    match ended.code {
        Some(1 | 2) => ended.error().map(|_| ()),
        other => Err(format!("it ends with {other:?}: {:?}", ended.err.trim())),
    }
}

/// A temporary file in a run directory.
fn left_over(path: &Path) -> Option<String> {
    let names =
        fs::read_dir(path).ok()?.filter_map(Result::ok).map(|e| e.file_name().to_string_lossy().into_owned());
    names.into_iter().find(|n| n.contains(".tmp") || n.contains(".part"))
}

/// A file system of a size that can be changed.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(path: &Path) -> Option<Self> {
        fs::create_dir(path).ok()?;
        let mut mount = Command::new("mount");
        done(mount.args(["-t", "tmpfs", "-o", "size=64M", "tmpfs"]).arg(path))
            .ok()
            .map(|()| Self(path.to_owned()))
    }

    /// Gives it another size in KiB.
    fn size(&self, kib: usize) -> Result<(), String> {
        done(Command::new("mount").args(["-o", &format!("remount,size={kib}k")]).arg(&self.0))
    }

    /// KiB in use.
    fn used(&self) -> Result<usize, String> {
        let out = Command::new("df")
            .args(["-k", "--output=used"])
            .arg(&self.0)
            .output()
            .map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.lines().last().and_then(|l| l.trim().parse().ok()).ok_or_else(|| format!("df says {text:?}"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Nothing else can be done about one that stays.
        let _ = done(Command::new("umount").arg(&self.0));
    }
}

fn done(command: &mut Command) -> Result<(), String> {
    match command.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(s) if s.success() => Ok(()),
        other => Err(format!("{command:?}: {other:?}")),
    }
}
