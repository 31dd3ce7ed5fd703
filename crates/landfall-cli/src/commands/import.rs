//! `landfall import`: a run of weights that were trained elsewhere.

use super::note_texts;
use super::train::results::Results;
use crate::args::Import;
use crate::error::CliError;
use crate::output;
use landfall_forecast::run::Settings;
use landfall_forecast::training::{NewRun, Ready};

/// Imports, scores and prints.
pub(crate) fn run(args: &Import) -> Result<(), CliError> {
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
