//! Ranks of a launch: steps that all of them compute together, beside the same step of each alone.

use crate::args::Args;
use crate::error::BenchError;
use crate::experts::{self, Experts};
use crate::ours::OurSide;
use crate::output;
use crate::rows::{LaunchMode, Row};
use crate::samples::Samples;
use landfall::{Engine, Error, World};
use landfall_forecast::report::table;
use landfall_forecast::run::{Precision, on_device};
use landfall_train::ranks::Launch;
use serde_json::json;
use std::time::Duration;

/// How long ranks wait for each other: compiling a large step's kernels takes some of them longer.
const LIMIT: Duration = Duration::from_secs(300);

/// What was measured of a row.
struct RankRow {
    row: String,
    dtype: &'static str,
    /// Windows or samples of all ranks' step.
    samples: usize,
    together: Samples,
    alone: Samples,
    /// What the row says beside its times.
    more: Option<String>,
}

impl RankRow {
    fn per_second(&self) -> f64 {
        self.samples as f64 / self.together.median() * 1e6
    }

    /// Times as many samples a second as one rank alone.
    fn scaling(&self, ranks: usize) -> f64 {
        ranks as f64 * self.alone.median() / self.together.median()
    }
}

/// Measures; the first rank prints.
pub(crate) fn run(args: &Args, launch: &Launch) -> Result<(), BenchError> {
    let world = launch.join(LIMIT)?;
    if world.rank() > 0 {
        output::as_rank(world.rank());
    }
    let done = measure(args, &world);
    if let Err(error) = &done {
        world.abort(&error.to_string());
    }
    done
}

fn measure(args: &Args, world: &World) -> Result<(), BenchError> {
    let device = args.device.of_rank(world);
    let engine = || on_device(device, args.threads, |engine| Ok(engine.clone()));
    let (together, alone) = (engine()?, engine()?.made);
    output::note(&together.line());
    let together = together.made;
    together.join(world.clone())?;
    let mut measured = Vec::new();
    let (of_experts, rows): (Vec<String>, Vec<String>) =
        args.rows.iter().cloned().partition(|row| row == experts::NAME);
    if !of_experts.is_empty() {
        for &dtype in &args.dtypes {
            measured.push(shared_experts(args, world, &together, &alone, dtype)?);
        }
    }
    let steps = if rows.is_empty() { Vec::new() } else { Row::select(&rows, true)? };
    for row in steps {
        let Row::Step(step, LaunchMode::Captured) = row else {
            let rule =
                "ranks compute together a training step, such as deep (steps is all of them), or experts";
            return Err(BenchError::Range { flag: "--rows", value: row.name(), rule });
        };
        for dtype in row.precisions(&args.dtypes) {
            let mut sides = [
                OurSide::of_ranks(&together, step, dtype, args.seconds)?,
                OurSide::new(&alone, row, dtype, args.seconds)?,
            ];
            let [together, alone] = in_turn(args, &together, &mut sides, OurSide::sample)?;
            let samples = step.batch * world.size();
            let row = row.name();
            measured.push(RankRow { row, dtype: dtype.name(), samples, together, alone, more: None });
        }
    }
    print(args, world.size(), &measured)
}

/// A layer whose experts are shared out among the ranks, beside that of which each rank has all.
fn shared_experts(
    args: &Args,
    world: &World,
    together: &Engine,
    alone: &Engine,
    dtype: Precision,
) -> Result<RankRow, BenchError> {
    let mut sides = [
        Experts::new(together, world.rank(), Some(world), dtype)?,
        Experts::new(alone, world.rank(), None, dtype)?,
    ];
    let off = sides[0].differs(&sides[1])?;
    let dropped = sides[0].dropped()?;
    let least = slowest(together, sides[1].sample()?)?;
    for side in &mut sides {
        side.repeat((args.seconds * 1e6 / least).ceil() as usize);
    }
    let [together, alone] = in_turn(args, together, &mut sides, Experts::sample)?;
    let more = format!(
        "shared experts against those of one rank, on rank 0: results differ by {:.1e} of the largest, gradients by the tokens by \
         {:.1e}; {dropped} pairs dropped",
        off.result, off.gradient
    );
    let (row, samples) = (experts::NAME.to_owned(), experts::TOKENS * world.size());
    Ok(RankRow { row, dtype: dtype.name(), samples, together, alone, more: Some(more) })
}

/// Samples of two sides, in turn. Each begins when all ranks are here, and is that of the slowest rank.
fn in_turn<S>(
    args: &Args,
    together: &Engine,
    sides: &mut [S; 2],
    sample: impl Fn(&mut S) -> Result<f64, BenchError>,
) -> Result<[Samples; 2], BenchError> {
    let mut us = [Vec::new(), Vec::new()];
    for _ in 0..args.samples {
        for (side, us) in sides.iter_mut().zip(&mut us) {
            together.synchronize()?;
            together.world().exchange("the beginning of a sample", &[]).map_err(Error::from)?;
            us.push(slowest(together, sample(side)?)?);
        }
    }
    Ok(us.map(|us| Samples { name: String::new(), us }))
}

/// The largest of what the ranks took.
fn slowest(engine: &Engine, us: f64) -> Result<f64, Error> {
    let parts = engine.world().exchange("the time of a sample", &us.to_le_bytes())?;
    let times = parts.iter().filter_map(|part| <[u8; 8]>::try_from(&part[..]).ok());
    Ok(times.map(f64::from_le_bytes).fold(0.0, f64::max))
}

fn print(args: &Args, ranks: usize, measured: &[RankRow]) -> Result<(), BenchError> {
    if args.json {
        let object = |m: &RankRow| {
            json!({
                "row": m.row,
                "dtype": m.dtype,
                "ranks": ranks,
                "together": m.together.json(),
                "alone": m.alone.json(),
                "samples_per_s": m.per_second(),
                "scaling": m.scaling(ranks),
                "more": m.more,
            })
        };
        return output::json(&json!({"rows": measured.iter().map(object).collect::<Vec<_>>()}));
    }
    let head = ["row", "dtype", "ranks", "us a step", "alone", "samples/s", "scaling"].map(str::to_owned);
    let line = |m: &RankRow| {
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
    output::line(&table(&lines))?;
    measured.iter().filter_map(|m| m.more.as_deref()).try_for_each(output::line)
}
