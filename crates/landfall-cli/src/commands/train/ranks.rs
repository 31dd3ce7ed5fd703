//! `landfall train` in several processes that train one run together, started by torchrun or Slurm.

use super::one_run::{Ended, fresh, go_on, new_settings, only_resumes};
use crate::args::Train;
use crate::error::CliError;
use crate::output;
use crate::signals::Stop;
use landfall::World;
use landfall_forecast::run::{Run, RunError, Settings};
use landfall_train::ranks::Launch;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Where the lock of a run directory lies; its copies are nobody else's.
const LOCK: &str = "lock";

/// This process among those that train together.
pub(super) struct Place {
    world: World,
    /// Where a rank but the first keeps its run: it needs one to go back to its best weights, and the first one's is the run.
    own: Option<TempDir>,
}

/// The place that the environment gives this process; `None` where it trains alone.
pub(super) fn launched(args: &Train) -> Result<Option<Place>, CliError> {
    let Some(launch) = Launch::from_environment()? else { return Ok(None) };
    if launch.size == 1 && (args.seeds.is_some() || args.tuned) {
        // One process is not bound by what several are.
        return Ok(None);
    }
    if args.seeds.is_some() {
        let why = "several processes train one run; start one launch for each seed";
        return Err(CliError::Flags { flag: "--seeds", other: "several ranks".to_owned(), why });
    }
    if args.tuned {
        let why = "ranks would tune to different kernels; tune with landfall tune and name them in the configuration";
        return Err(CliError::Flags { flag: "--tuned", other: "several ranks".to_owned(), why });
    }
    let world = launch.join(Duration::from_secs(u64::from(args.together.rank_timeout)))?;
    let own = if world.rank() == 0 { None } else { Some(temporary()?) };
    Ok(Some(Place { world, own }))
}

fn temporary() -> Result<TempDir, CliError> {
    TempDir::new().map_err(|why| CliError::Write { path: std::env::temp_dir(), why })
}

impl Place {
    /// Trains; the exit code. The first rank prints and writes the run directory; of the others only errors and notes are seen.
    pub(super) fn train(self, args: &Train, stop: Stop) -> Result<u8, CliError> {
        let rank = self.world.rank();
        if rank == 0 {
            if !self.world.is_single() {
                output::line(&format!("{} ranks train together", self.world.size()))?;
            }
            return self.told(self.run(args, stop));
        }
        output::silence();
        let shown = args.resume.as_ref().or(args.out.as_ref()).map(|path| path.display().to_string());
        let shown = shown.unwrap_or_else(|| "the run directory of rank 0".to_owned());
        output::prefixed(&format!("rank {rank}: "), || self.told(self.of_run(self.run(args, stop), &shown)))
    }

    /// An error in which this rank's own directory, which goes with its process, is called what the run is called.
    fn of_run(&self, done: Result<Ended, CliError>, shown: &str) -> Result<Ended, CliError> {
        let Some(own) = &self.own else { return done };
        let own = own.path().join("run").display().to_string();
        done.map_err(|error| {
            let text = error.to_string();
            if text.contains(&own) {
                CliError::OfRun { text: text.replace(&own, shown), code: error.code() }
            } else {
                error
            }
        })
    }

    /// Tells the other ranks of an error, so that none waits.
    fn told(&self, done: Result<Ended, CliError>) -> Result<u8, CliError> {
        if let Err(error) = &done {
            self.world.abort(&error.to_string());
        }
        done.map(|ended| ended.code)
    }

    fn run(&self, args: &Train, stop: Stop) -> Result<Ended, CliError> {
        let own = self.own.as_ref().map(|own| own.path().join("run"));
        let Some(path) = &args.resume else {
            let out = own.as_deref().or(args.out.as_deref());
            return fresh((false, args.json), new_settings(args)?, out, &self.world, stop);
        };
        only_resumes(args)?;
        let flags = args.settings();
        flags.changes_nothing_else()?;
        if let Some(own) = &own {
            copied(path, own)?;
        }
        // The first rank writes the directory from here on.
        self.world
            .exchange("a copy of the run directory", &[])
            .map_err(landfall::Error::from)
            .map_err(RunError::from)?;
        go_on(&flags, own.as_deref().unwrap_or(path), args.json, &self.world, stop)
    }
}

/// Copies a run directory; its configuration names the same data from the new place.
fn copied(run: &Path, to: &Path) -> Result<(), CliError> {
    let settings: Settings = Run::open(run)?.resolved().settings.clone();
    let failed = |path: &Path| {
        let path: PathBuf = path.to_owned();
        move |why| CliError::Write { path, why }
    };
    std::fs::create_dir(to).map_err(failed(to))?;
    for entry in std::fs::read_dir(run).map_err(failed(run))? {
        let from = entry.map_err(failed(run))?.path();
        if let Some(name) = from.file_name().filter(|name| from.is_file() && *name != LOCK) {
            std::fs::copy(&from, to.join(name)).map_err(failed(&from))?;
        }
    }
    let config = to.join("config.toml");
    let text = settings.to_toml_in(to).map_err(RunError::from)?;
    std::fs::write(&config, text).map_err(failed(&config))
}
