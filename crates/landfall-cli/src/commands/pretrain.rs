//! `landfall pretrain`: trains the forecaster of unknown series by a recipe.

use crate::args::Pretrain;
use crate::error::CliError;
use crate::output;
use crate::signals::Stop;
use landfall_forecast::run::on_device;
use landfall_forecast::zero_shot::{Point, Pretraining, Recipe, Verdict};
use serde_json::json;
use std::num::NonZero;
use std::time::Duration;

/// Trains and prints; the exit code.
pub(crate) fn run(args: &Pretrain) -> Result<u8, CliError> {
    let stop = Stop::watch();
    let mut recipe = args.recipe.as_deref().map_or_else(Recipe::shipped, Recipe::read)?;
    recipe.steps = args.steps.unwrap_or(recipe.steps);
    recipe.seed = args.seed.unwrap_or(recipe.seed);
    let placed =
        on_device(args.on.device, args.on.threads, |engine| Ok(engine.clone())).map_err(CliError::during)?;
    output::note(&placed.line());
    let all = std::thread::available_parallelism().map_or(1, NonZero::get);
    // One thread is left for that which runs the steps.
    let threads = args.on.threads.unwrap_or_else(|| all.saturating_sub(1).max(1));
    let steps = recipe.steps;
    let mut pretraining = Pretraining::new(&placed.made, recipe, &args.out, threads)?;
    if pretraining.step()? > 0 {
        output::note(&format!("going on after step {}", pretraining.step()?));
    }
    let limit = args.time_limit.map(Duration::from_secs);
    let ends = |taken: Duration| stop.raised() || limit.is_some_and(|limit| taken >= limit);
    let mut last = None;
    let verdict = pretraining.run(ends, |point| {
        output::note(&said(point, steps));
        last = Some(*point);
    })?;
    let complete = verdict == Verdict::Complete;
    if args.json {
        output::json(&json!({"run": args.out, "complete": complete, "last": last}))?;
    } else {
        let how = if complete { "complete" } else { "stopped; the same command goes on with it" };
        output::line(&format!("{}: {how}", args.out.display()))?;
    }
    Ok(if stop.raised() && !complete { stop.code() } else { 0 })
}

/// A point of the curve in a line.
fn said(p: &Point, steps: usize) -> String {
    format!(
        "step {} of {steps}, {:.0} s: loss {:.4}, validation {:.4}; {:.1} steps/s, {:.1} % of the time waiting for data",
        p.step,
        p.seconds,
        p.loss,
        p.validation,
        p.steps_per_second,
        100.0 * p.waited
    )
}
