//! Checkpoints for the official PatchTST and for transformers.

use crate::commands::note_all;
use crate::error::CliError;
use crate::output;
use landfall_forecast::pretrained::{PretrainedError, hugging_face, official};
use landfall_forecast::run::{Run, Weights};
use landfall_train::checkpoint::File;
use landfall_train::models::{DropoutMasks, PatchTstConfig};
use std::path::Path;

/// The PatchTST of a run: its configuration and weights.
fn patchtst(run: &Run, weights: Weights, form: &'static str) -> Result<(PatchTstConfig, File), CliError> {
    let kept = run.kept_network().patchtst();
    let config = kept.ok_or_else(|| {
        let network = run.forecaster().map_or(run.resolved().settings.model, |f| Some(f.network));
        let network = network.map_or("another network", |kind| kind.name());
        let why = format!("only a patchtst can be written so, and {} keeps {network}", run.path().display());
        PretrainedError::Unexpressed { form, option: format!("a {network}"), why }
    })?;
    Ok((config, run.weights(weights)?.1))
}

/// What the network alone does unlike the run.
fn notes(run: &Run) -> Vec<String> {
    let mut notes = vec![
        "the network reads columns scaled by mean and std of [[scaler]] in config.toml, and predicts them so"
            .to_owned(),
    ];
    if let Some(f) = run.forecaster() {
        if f.share != 1.0 {
            notes.push(format!("the run forecasts with {}; its patchtst alone is written", f.name()));
        }
        if !f.non_negative.is_empty() {
            let columns = f.non_negative.join(", ");
            notes.push(format!("the run forecasts no negative values of {columns}; the network alone may"));
        }
    }
    notes
}

/// Writes the official form.
pub(super) fn official(run: &Run, weights: Weights, path: &Path) -> Result<(), CliError> {
    let (config, file) = patchtst(run, weights, "the official PatchTST")?;
    official::write(path, &config, &file)?;
    note_all(&notes(run));
    output::line(&format!("{}: the official PatchTST, with {}", path.display(), official::flags(&config)))
}

/// Writes a directory of transformers.
pub(super) fn hugging_face(run: &Run, weights: Weights, path: &Path) -> Result<(), CliError> {
    let (config, file) = patchtst(run, weights, "Hugging Face's PatchTST")?;
    hugging_face::write(path, &config, run.columns().len(), &file)?;
    note_all(&notes(run));
    if config.dropout > 0.0 && config.dropout_masks == DropoutMasks::Official {
        let note = "in training, dropout stands twice in series behind attention, and once in the model that was written";
        note_all(&[note.to_owned()]);
    }
    let path = path.display();
    output::line(&format!("{path}: PatchTSTForPrediction.from_pretrained(\"{path}\") reads it"))
}
