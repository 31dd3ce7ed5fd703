//! `cargo xtask campaign`: what a run survives, tried at random: ends of the process at any moment, two processes, a full
//! disk, damaged files. docs/campaigns.md says what must hold.

mod disk;
mod fuzz;
mod hostile;
mod judge;
mod kill;
mod options;
mod race;
mod random;
mod runs;
mod serve;
mod server;
mod signal;
mod tally;

use options::Options;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tally::Tally;

/// Arguments of `cargo xtask campaign`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    choice: Choice,
    /// How many cases to run [default: the campaign's count in docs/campaigns.md]
    #[arg(long, value_name = "N", global = true)]
    count: Option<usize>,
    /// Equal seeds give equal cases [default: the time]
    #[arg(long, value_name = "S", global = true)]
    seed: Option<u64>,
    /// The program to test [default: the one that is built here]
    #[arg(long, value_name = "PATH", global = true)]
    program: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Choice {
    #[command(flatten)]
    One(Campaign),
    /// Run all but `judge programs`, with small counts
    Short,
    /// The process that makes and runs the cases of `fuzz`
    #[command(hide = true)]
    FuzzWorker(fuzz::Worker),
}

#[derive(clap::Subcommand)]
enum Campaign {
    /// End training runs by SIGKILL at random moments, and resume them
    Kill,
    /// The same with SIGTERM, SIGHUP and SIGINT
    Signal,
    /// Resume a run by two processes at once
    Race,
    /// Train into a full disk, and resume once there is space
    Disk,
    /// Give random inputs to what reads files
    Fuzz {
        /// What reads them [default: all]
        #[arg(value_name = "TARGET")]
        targets: Vec<fuzz::Target>,
        /// Run one case again
        #[arg(long, value_name = "N")]
        case: Option<u64>,
    },
    /// Send hostile requests to a server of a run, and to one without
    Serve,
    /// Compare ops with their references, or programs with PyTorch
    Judge {
        #[arg(value_name = "PART", value_enum, default_value_t = judge::Part::Guarded)]
        part: judge::Part,
        /// Run one case of `guarded` again
        #[arg(long, value_name = "N")]
        case: Option<u64>,
    },
}

/// How many cases a campaign has, if nobody says otherwise.
struct Counts {
    alone: usize,
    short: usize,
}

impl Campaign {
    /// Those of `short`.
    const fn all() -> [Self; 7] {
        [
            Self::Kill,
            Self::Signal,
            Self::Race,
            Self::Disk,
            Self::Fuzz { targets: Vec::new(), case: None },
            Self::Serve,
            Self::Judge { part: judge::Part::Guarded, case: None },
        ]
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Signal => "signal",
            Self::Race => "race",
            Self::Disk => "disk",
            Self::Fuzz { .. } => "fuzz",
            Self::Serve => "serve",
            Self::Judge { .. } => "judge",
        }
    }

    const fn counts(&self) -> Counts {
        match self {
            Self::Kill => Counts { alone: 200, short: 12 },
            Self::Signal => Counts { alone: 50, short: 6 },
            Self::Race => Counts { alone: 50, short: 4 },
            Self::Disk => Counts { alone: 20, short: 4 },
            Self::Fuzz { .. } => Counts { alone: 100_000, short: 8000 },
            Self::Serve => Counts { alone: 10_000, short: 600 },
            Self::Judge { .. } => Counts { alone: 10_000, short: 300 },
        }
    }

    const fn case(&self) -> Option<u64> {
        match self {
            Self::Fuzz { case, .. } | Self::Judge { case, .. } => *case,
            Self::Kill | Self::Signal | Self::Race | Self::Disk | Self::Serve => None,
        }
    }

    fn run(&self, options: &Options) -> Result<Tally, String> {
        match self {
            Self::Kill => kill::run(options),
            Self::Signal => signal::run(options),
            Self::Race => race::run(options),
            Self::Disk => disk::run(options),
            Self::Fuzz { targets, .. } => fuzz::run(targets, options),
            Self::Serve => serve::run(options),
            Self::Judge { part, .. } => judge::run(*part, options),
        }
    }
}

/// Runs the campaign that the arguments name: 1 where it found anything, 2 where it could not run.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let seed = arguments
        .seed
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs()));
    let found = match &arguments.choice {
        Choice::One(one) => campaign(one, arguments, one.counts().alone, seed),
        Choice::Short => Campaign::all()
            .iter()
            .try_fold(false, |found, one| Ok(campaign(one, arguments, one.counts().short, seed)? || found)),
        Choice::FuzzWorker(worker) => worker.run(seed),
    };
    found.map_or_else(
        |why| {
            eprintln!("{why}");
            ExitCode::from(2)
        },
        |found| ExitCode::from(u8::from(found)),
    )
}

/// Runs one; whether anything was found.
fn campaign(one: &Campaign, arguments: &Arguments, count: usize, seed: u64) -> Result<bool, String> {
    let start = Instant::now();
    let count = arguments.count.unwrap_or(count);
    let options = Options { count, seed, case: one.case(), program: arguments.program.clone() };
    let tally = one.run(&options)?;
    for note in &tally.notes {
        println!("  {note}");
    }
    println!(
        "{}: {} cases, {} findings, {:.1} s, seed {seed}",
        one.name(),
        tally.count,
        tally.findings.len(),
        start.elapsed().as_secs_f64(),
    );
    Ok(!tally.findings.is_empty())
}
