//! `landfall import`: a run of weights that were trained elsewhere; of a Chronos-2, which needs no run, what it is.

use super::note_texts;
use super::train::results::Results;
use crate::args::Import;
use crate::error::CliError;
use crate::output;
use landfall_forecast::run::Settings;
use landfall_forecast::training::{NewRun, Ready};
use landfall_forecast::{ForecastError, chronos};
use landfall_train::data::count;
use serde_json::json;

/// Imports, scores and prints.
pub(crate) fn run(args: &Import) -> Result<(), CliError> {
    if !args.weights.exists() {
        let (flag, value) = ("WEIGHTS", args.weights.display().to_string());
        return Err(CliError::Range { flag, value, rule: "there is no such file or folder; check the path" });
    }
    if chronos::is_chronos(&args.weights) {
        return checked(args);
    }
    let settings = match &args.config {
        Some(file) => args.settings().over(&Settings::read(file)?.for_new_run())?,
        None => args.settings(),
    };
    if settings.data.is_none() {
        return Err(CliError::Needed(
            "--data",
            "the training rows scale the forecasts, and the test rows score them",
        ));
    }
    let ready = Ready::new(NewRun { settings, out: args.out.clone(), ..NewRun::default() })?;
    let summary = ready.summary.as_ref().map_or_else(String::new, |summary| summary.lines().join("\n"));
    output::line(&summary)?;
    note_texts(&ready.notes);
    let network = &ready.resolved.network;
    output::line(&format!(
        "{}: {} parameters, context {}, horizon {}",
        args.weights.display(),
        ready.session.model().parameters().list().iter().map(|p| p.shape.elements()).sum::<usize>(),
        network.context(),
        network.horizon()
    ))?;
    output::line(&ready.device().line(ready.chosen.as_ref()))?;
    let begun = ready.begin()?;
    let path = begun.path().to_owned();
    let finished = begun.import()?;
    Results::of(&finished, &path).print()?;
    if args.json {
        return output::json(&finished.object(&path));
    }
    Ok(())
}

/// Checks the weights of a Chronos and says what they are; copies them where a folder is asked for.
fn checked(args: &Import) -> Result<(), CliError> {
    let other = "a folder of a Chronos".to_owned();
    let why = "it forecasts any series without a run: leave it out, and score it with landfall evaluate --pretrained";
    let config = args.config.is_some().then(|| "--config".to_owned());
    if let Some(flags) = args.of_runs().or(config) {
        return Err(CliError::FlagsOf { flags, other, why });
    }
    if let Some(path) = args.out.as_ref().filter(|path| path.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let weights = chronos::Weights::read(&args.weights).map_err(ForecastError::from)?;
    let network = &weights.network;
    let (name, parameters) = (network.name(), network.parameters().count());
    let (context, pass, levels) = (network.context(), network.pass(), network.levels());
    let (first, last) = (levels.first().copied().unwrap_or(0.5), levels.last().copied().unwrap_or(0.5));
    if let Some(folder) = &args.out {
        weights.write(folder).map_err(ForecastError::from)?;
    }
    let folder = args.out.as_ref().unwrap_or(&args.weights);
    output::line(&format!(
        "{}: a {name} of {parameters} parameters, all finite; it reads {context} rows and forecasts {pass} in one pass, {} from {first} \
         to {last}",
        args.weights.display(),
        count(levels.len(), "quantile")
    ))?;
    if args.out.is_some() {
        output::line(&format!("Copied to {}", folder.display()))?;
    }
    output::line(&format!(
        "Forecast with: landfall forecast --pretrained {} --data F.csv --horizon N",
        folder.display()
    ))?;
    if args.json {
        return output::json(&json!({
            "weights": folder, "network": name, "parameters": parameters, "context": context, "horizon": pass, "levels": levels
        }));
    }
    Ok(())
}
