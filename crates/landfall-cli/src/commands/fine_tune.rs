//! `landfall fine-tune`: pretrained weights, trained further on a file.

use super::{evaluate, note_all};
use crate::args::FineTune as Args;
use crate::error::CliError;
use crate::output::{self, Watch, digits};
use crate::signals::Stop;
use landfall::Error;
use landfall_forecast::ForecastError;
use landfall_forecast::chronos::{ChronosError, Point, Verdict};
use landfall_forecast::run::{BaselineRecord, Observer as _, RunError, SCALED, interval_levels};
use landfall_forecast::without_run::{Tested, Tuning};
use landfall_train::data::Segment;
use serde_json::json;
use std::cell::{Cell, RefCell};

/// Trains, writes the weights, scores them and prints; the exit code.
pub(crate) fn run(args: &Args) -> Result<u8, CliError> {
    let stop = Stop::watch();
    let settings = &args.given.settings;
    let example = "as in: landfall fine-tune --pretrained chronos-2 --data F.csv --target y --horizon 12 --out chronos-2-y";
    if settings.data.is_none() {
        return Err(CliError::Needed("--data", example));
    }
    let Some(horizon) = settings.horizon else { return Err(CliError::Needed("--horizon", example)) };
    if !args.pretrained.is_dir() {
        let (flag, value) = ("--pretrained", args.pretrained.display().to_string());
        let rule = "there is no such folder; give one of Chronos-2 (landfall train --init trains Landfall's own weights further)";
        return Err(CliError::Range { flag, value, rule });
    }
    let levels = args.intervals();
    interval_levels(&levels).map_err(RunError::from)?;
    let mut tuning = Tuning::new(args.asked(horizon))?;
    tuning.summary().iter().try_for_each(|line| output::line(line))?;
    note_all(tuning.notes());
    output::line(&format!("{}: {}", args.pretrained.display(), tuning.training()))?;
    output::line(tuning.device())?;
    let (out, done) = (args.out.display(), tuning.training().points().last().map_or(0, |point| point.step));
    match done {
        0 => output::line(&format!("folder {out}"))?,
        _ => output::line(&format!("folder {out}: going on after step {done}"))?,
    }
    let total = args.steps;
    let (watch, asked) = (RefCell::new(Watch::new(done, total, stop.clone())), Cell::new(done));
    let mut best = tuning.training().chosen().map(|(_, loss)| loss);
    let verdict = tuning.run(
        || {
            // It is asked once before each step.
            watch.borrow_mut().progress(asked.replace(asked.get() + 1), total);
            stop.raised()
        },
        |point| {
            asked.set(point.step);
            watch.borrow().say(&said(point, total, &mut best));
        },
    );
    watch.borrow().finish();
    let verdict = verdict.map_err(|why| late(&why))?;
    let step = tuning.training().points().last().map_or(0, |point| point.step);
    if verdict == Verdict::Stopped {
        output::note(&format!(
            "interrupted after step {step}; checkpoint saved; the same command goes on with it"
        ));
        if args.json {
            output::json(&json!({"run": args.out, "steps": step, "interrupted": true}))?;
        }
        return Ok(stop.code());
    }
    let adapter = tuning.write().map_err(|why| late(&why))?;
    if let Some((step, loss)) = tuning.training().chosen() {
        let first = tuning.training().points().first().and_then(|point| point.validation);
        let before =
            first.map_or_else(String::new, |loss| format!(", {} before the first step", digits(loss)));
        output::line(&format!(
            "Chosen: the weights after step {step}, validation loss {}{before}",
            digits(loss)
        ))?;
    }
    output::line(&format!("Weights written to {out}"))?;
    if let Some(folder) = &adapter {
        output::line(&format!("Adapter written to {}", folder.display()))?;
    }
    let tested = if args.no_test { None } else { scores(args, &tuning, &levels, &stop)? };
    output::line(&format!(
        "Forecast with: landfall forecast --pretrained {out} --data F.csv --horizon {horizon}"
    ))?;
    if args.json {
        let chosen = tuning.training().chosen().map(|(step, loss)| json!({"step": step, "loss": loss}));
        let (test, given) = tested.map(|tested| (tested.chosen, tested.given)).unzip();
        output::json(&json!({
            "run": args.out, "steps": step, "chosen": chosen, "points": tuning.training().points(),
            "adapter": adapter, "test": test, "test_before": given
        }))?;
    }
    Ok(if stop.raised() { stop.code() } else { 0 })
}

/// Why a training that had begun does not end well.
fn late(why: &ForecastError) -> CliError {
    let not_finite = matches!(why, ForecastError::Chronos(ChronosError::Engine(Error::NonFinite { .. })));
    let advice =
        if not_finite { "; the training diverged: give a smaller --lr, and another --out" } else { "" };
    CliError::OfRun { text: format!("{why}{advice}"), code: 1 }
}

/// A point of the curve in a line.
fn said(p: &Point, total: usize, best: &mut Option<f64>) -> String {
    let step = p.step;
    let validation = p.validation.map(|loss| {
        let better = best.is_none_or(|best| loss < best);
        if better {
            *best = Some(loss);
        }
        format!("validation loss {}{}", digits(loss), if better { ", best so far" } else { "" })
    });
    let mean = p.losses.iter().sum::<f64>() / p.losses.len() as f64;
    let loss = (!p.losses.is_empty()).then(|| format!("loss {}  lr {:.1e}", digits(mean), p.lr));
    let parts: Vec<String> = loss.into_iter().chain(validation).collect();
    format!("step {step}/{total}  {}", parts.join("  "))
}

/// Scores the test windows and prints; nothing where that was stopped.
fn scores(args: &Args, tuning: &Tuning, levels: &[f64], stop: &Stop) -> Result<Option<Tested>, CliError> {
    let windows: usize = tuning.panel().parts(Segment::Test).iter().map(|part| part.windows.count()).sum();
    output::note(&format!("scoring {windows} test windows by the new weights and those before"));
    let Some(tested) = tuning.test(levels, || stop.raised()).map_err(|why| late(&why))? else {
        output::note("interrupted: the test windows are not scored; the weights are written");
        return Ok(None);
    };
    let mut record = tested.chosen.clone();
    let Tested { given, .. } = &tested;
    if let Some(metrics) = given.metrics {
        let before = BaselineRecord {
            name: "before the training".to_owned(),
            mse: given.mse,
            mae: given.mae,
            metrics,
        };
        record.baselines.insert(0, before);
    }
    output::line("")?;
    evaluate::print((&args.out.display().to_string(), false), &record, SCALED, false)?;
    output::line("")?;
    Ok(Some(tested))
}
