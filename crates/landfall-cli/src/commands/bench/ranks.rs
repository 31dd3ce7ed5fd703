//! `landfall bench` by the ranks of a launch: steps that all of them compute together, beside the same step of each alone.

use super::Samples;
use super::ours::Ours;
use super::rows::{Row, Way};
use crate::args::Bench;
use crate::device::{of_rank, on};
use crate::error::CliError;
use crate::output::{self, table};
use landfall::{Engine, Error, World};
use landfall_train::ranks::Launch;
use landfall_train::run::SettingsError;
use serde_json::json;
use std::time::Duration;

/// How long ranks wait for each other: compiling a large step's kernels takes some of them longer.
const LIMIT: Duration = Duration::from_secs(300);

/// What was measured of a row.
struct Measured {
    row: String,
    dtype: &'static str,
    /// Windows or samples of all ranks' step.
    samples: usize,
    together: Samples,
    alone: Samples,
}

impl Measured {
    fn per_second(&self) -> f64 {
        self.samples as f64 / self.together.median() * 1e6
    }

    /// Times as many samples a second as one rank alone.
    fn scaling(&self, ranks: usize) -> f64 {
        ranks as f64 * self.alone.median() / self.together.median()
    }
}

/// Measures; the exit code. The first rank prints.
pub(super) fn run(args: &Bench, launch: &Launch) -> Result<u8, CliError> {
    let world = launch.join(LIMIT)?;
    let done = if world.rank() == 0 {
        measure(args, &world)
    } else {
        output::silence();
        output::prefixed(&format!("rank {}: ", world.rank()), || measure(args, &world))
    };
    if let Err(error) = &done {
        world.abort(&error.to_string());
    }
    done
}

fn measure(args: &Bench, world: &World) -> Result<u8, CliError> {
    let known = |(value, known)| SettingsError::Unknown { key: "row", value, known };
    let device = of_rank(args.device, world);
    let engine = || on(device, args.threads, |engine| Ok(engine.clone()));
    let (together, alone) = (engine()?, engine()?.made);
    output::note(&together.line());
    let together = together.made;
    together.join(world.clone())?;
    let mut measured = Vec::new();
    for row in Row::select(&args.rows, true).map_err(known)? {
        let Row::Step(step, Way::Captured) = row else {
            let rule = "ranks compute training steps together: seed, etth1, wide, deep, cross-asset";
            return Err(SettingsError::Range { key: "--rows", value: row.name(), rule }.into());
        };
        for dtype in row.precisions(&args.dtypes) {
            let mut sides = [
                Ours::of_ranks(&together, step, dtype, args.seconds)?,
                Ours::new(&alone, row, dtype, args.seconds)?,
            ];
            let mut us = [Vec::new(), Vec::new()];
            for _ in 0..args.samples {
                for (side, us) in sides.iter_mut().zip(&mut us) {
                    us.push(slowest(&together, side.of_all(&together)?)?);
                }
            }
            let [together, alone] = us.map(|us| Samples { name: String::new(), us });
            let samples = step.batch * world.size();
            measured.push(Measured { row: row.name(), dtype: dtype.name(), samples, together, alone });
        }
    }
    print(args, world.size(), &measured).map(|()| 0)
}

/// The largest of what the ranks took.
fn slowest(engine: &Engine, us: f64) -> Result<f64, Error> {
    let parts = engine.world().exchange("the time of a sample", &us.to_le_bytes())?;
    let times = parts.iter().filter_map(|part| <[u8; 8]>::try_from(&part[..]).ok());
    Ok(times.map(f64::from_le_bytes).fold(0.0, f64::max))
}

fn print(args: &Bench, ranks: usize, measured: &[Measured]) -> Result<(), CliError> {
    if args.json {
        let object = |m: &Measured| {
            json!({
                "row": m.row,
                "dtype": m.dtype,
                "ranks": ranks,
                "together": m.together.json(),
                "alone": m.alone.json(),
                "samples_per_s": m.per_second(),
                "scaling": m.scaling(ranks),
            })
        };
        return output::json(&json!({"rows": measured.iter().map(object).collect::<Vec<_>>()}));
    }
    let head = ["row", "dtype", "ranks", "us a step", "alone", "samples/s", "scaling"].map(str::to_owned);
    let line = |m: &Measured| {
        vec![
            m.row.clone(),
            m.dtype.to_owned(),
            ranks.to_string(),
            format!("{:.1}", m.together.median()),
            format!("{:.1}", m.alone.median()),
            format!("{:.0}", m.per_second()),
            format!("{:.2}", m.scaling(ranks)),
        ]
    };
    let lines: Vec<Vec<String>> = std::iter::once(head.to_vec()).chain(measured.iter().map(line)).collect();
    output::line(&table(&lines))
}
