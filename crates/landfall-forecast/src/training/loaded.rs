//! The data of a run, and a session over it.

use super::comparison::{Classes, Comparison};
use crate::choice::Plan;
use crate::data::{Panel, Summary, few};
use crate::error::ForecastError;
use crate::models::ModelKind;
use crate::pretrained::{Pretrained, SHIPPED};
use crate::run::{Data, Device, OnDevice, Resolved, RunError, Settings, Text, on_device};
use crate::train::{Dataset, Session};
use landfall::World;
use std::sync::Arc;

/// A session on the device that was asked for, with its data.
pub struct Loaded {
    /// The session, and where it is.
    pub placed: OnDevice<Session>,
    /// The data of its steps.
    pub dataset: Dataset,
    pub(super) comparison: Comparison,
    /// How a forecaster will be chosen, by the default recipe.
    pub(super) plan: Option<Plan>,
    /// What was read of series.
    pub(super) summary: Option<Summary>,
    /// What a person has to know.
    pub notes: Vec<Text>,
}

/// Settings with those that follow from the weights that they start from, the weights, and what a person has to know of
/// them.
///
/// # Errors
/// Weights that cannot be read, or that contradict the settings.
pub fn start_of(mut settings: Settings) -> Result<(Settings, Option<Pretrained>, Vec<Text>), ForecastError> {
    if settings.init.is_none() && settings.names(ModelKind::ZeroShot) {
        settings.init = Some(SHIPPED.into());
    }
    let Some(path) = &settings.init else { return Ok((settings, None, Vec::new())) };
    let weights = Pretrained::read(path)?;
    let (settings, notes) = settings.with_weights(&weights)?;
    Ok((settings, Some(weights), notes))
}

/// Reads the data, unless it is series that are read already, and makes a session of it, on an engine that joins a world.
///
/// # Errors
/// Data that cannot be read or is too short, a device that is not there.
pub fn load(resolved: &mut Resolved, panel: Option<Panel>, world: &World) -> Result<Loaded, ForecastError> {
    let (mut plan, mut summary) = (None, None);
    let (dataset, comparison, notes) =
        match panel.map_or_else(|| resolved.load(), |panel| Ok(Data::Series(panel)))? {
            Data::Series(panel) => {
                summary = Some(panel.summary());
                *resolved = resolved.clone().sized(&panel)?;
                let (mut dataset, panel) = resolved.forecast(panel)?;
                // From here on covariates are read from the dataset; before it is divided, which takes its size again.
                let panel = panel.without_covariates()?;
                let notes =
                    few(panel.left_out()).into_iter().map(Text::from).chain(resolved.notes.clone()).collect();
                if resolved.is_default_recipe() {
                    let (folds, planned) = resolved.planned(&dataset, &panel);
                    resolved.check_alone(&panel, &folds).map_err(RunError::from)?;
                    (plan, dataset) = (Some(folds), planned);
                }
                (dataset, Comparison::Series(Arc::new(panel)), notes)
            }
            Data::Tokens(data) => {
                let (dataset, data) = resolved.classify(data)?;
                (dataset, Comparison::Classes(Classes::of(&data, resolved.split)?), Vec::new())
            }
            Data::Walk(walk) => (Dataset::regression(&walk), Comparison::Labels(walk), Vec::new()),
        };
    // Before a GPU joins the others, which takes them seconds.
    alike(world, &resolved.settings, &dataset)?;
    let asked = resolved.settings.device.unwrap_or(Device::Auto).of_rank(world);
    let placed = on_device(asked, resolved.settings.threads, |engine| {
        if !world.is_alone() {
            engine.join(world.clone())?;
        }
        resolved.session(engine, &dataset)
    })?;
    Ok(Loaded { placed, dataset, comparison, plan, summary, notes })
}

/// Checks that all ranks train the same: settings and data.
fn alike(world: &World, settings: &Settings, dataset: &Dataset) -> Result<(), ForecastError> {
    if world.is_single() {
        return Ok(());
    }
    let values = dataset.digest();
    let text = format!(
        "landfall = \"{}\"\n{}rows = {}\nvalues = \"{values}\"\n",
        env!("CARGO_PKG_VERSION"),
        // Where files lie is a rank's own.
        Settings { data: None, pretrained: None, threads: None, ..settings.clone() }.to_toml()?,
        dataset.rows,
    );
    world.agree("configurations", &text).map_err(|fault| RunError::from(landfall::Error::from(fault)).into())
}
