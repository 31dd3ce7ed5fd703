//! `cargo xtask campaign`: what a run survives, tried at random: ends of the process at any moment, two processes, a full
//! disk, damaged files. docs/campaigns.md says what must hold.

mod disk;
mod fuzz;
mod judge;
mod kill;
mod options;
mod race;
mod random;
mod runs;
mod serve;
mod signal;
mod tally;

use options::Options;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tally::Tally;

const USAGE: &str = "usage: cargo xtask campaign NAME [--count N] [--seed S] [--program PATH]
  kill              ends training runs by SIGKILL at random moments, and resumes them [default: 200]
  signal            the same with SIGTERM, SIGHUP and SIGINT [default: 50]
  race              resumes a run by two processes at once [default: 50]
  disk              trains into a full disk, and resumes once there is space [default: 20]
  fuzz [TARGET]...  random inputs for csv, config, checkpoint and tune-cache [default: 100000]; --case N makes one again
  serve             sends hostile requests to a server [default: 10000]
  judge [PART]      calls of every op on views drawn in guarded memory, against the reference (guarded), or random programs against
                    PyTorch (programs: a Python, PYTHON, with torch and the package landfall) [default: 10000]
  short             each of them with small counts
  --program PATH    the program, instead of the one that is built here";

/// A campaign's function.
type Campaign = fn(&[String], &Options) -> Result<Tally, String>;

/// Each campaign with its counts: by hand, and in `short`.
const CAMPAIGNS: [(&str, usize, usize, Campaign); 7] = [
    ("kill", 200, 12, |_, o| kill::run(o)),
    ("signal", 50, 6, |_, o| signal::run(o)),
    ("race", 50, 4, |_, o| race::run(o)),
    ("disk", 20, 4, |_, o| disk::run(o)),
    ("fuzz", 100_000, 8000, fuzz::run),
    ("serve", 10_000, 600, |_, o| serve::run(o)),
    ("judge", 10_000, 300, judge::run),
];

/// Runs the campaign that the arguments name.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let done = match arguments {
        [name, rest @ ..] if name == "fuzz-worker" => fuzz::work(rest),
        _ => campaign(arguments).map(u8::from),
    };
    done.map_or_else(
        |why| {
            eprintln!("{why}");
            ExitCode::from(2)
        },
        ExitCode::from,
    )
}

/// Runs it; whether anything was found.
fn campaign(arguments: &[String]) -> Result<bool, String> {
    let (names, options) = parse(arguments)?;
    let (name, rest) = names.split_first().ok_or(USAGE)?;
    let short = name == "short";
    let mut found = false;
    for (own, long, few, run) in CAMPAIGNS.iter().filter(|c| short || c.0 == name) {
        let start = Instant::now();
        let count = options.count.unwrap_or(if short { *few } else { *long });
        let options =
            Options { count, seed: options.seed, case: options.case, program: options.program.clone() };
        let tally = run(rest, &options)?;
        for note in &tally.notes {
            println!("  {note}");
        }
        println!(
            "{own}: {} cases, {} findings, {:.1} s, seed {}",
            tally.count,
            tally.findings.len(),
            start.elapsed().as_secs_f64(),
            options.seed
        );
        found |= !tally.findings.is_empty();
    }
    if short || CAMPAIGNS.iter().any(|c| c.0 == name) { Ok(found) } else { Err(USAGE.to_owned()) }
}

/// The flags as they were given.
struct Given {
    count: Option<usize>,
    seed: u64,
    case: Option<u64>,
    program: Option<PathBuf>,
}

fn parse(arguments: &[String]) -> Result<(Vec<String>, Given), String> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
    let mut given = Given { count: None, seed, case: None, program: None };
    let (mut names, mut rest) = (Vec::new(), arguments.iter());
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        let number = |text: &String| text.parse::<u64>().map_err(|e| format!("{argument} {text}: {e}"));
        match argument.as_str() {
            "--count" => given.count = Some(number(value()?)? as usize),
            "--seed" => given.seed = number(value()?)?,
            "--case" => given.case = Some(number(value()?)?),
            "--program" => given.program = Some(value()?.into()),
            flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}\n{USAGE}")),
            name => names.push(name.to_owned()),
        }
    }
    Ok((names, given))
}
