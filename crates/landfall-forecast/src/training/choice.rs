//! The end of a run of the default recipe: what it forecasts with, and how good that is on the test windows.

use crate::choice::Plan;
use crate::data::{Segment, WindowedPanel};
use crate::error::ForecastError;
use crate::run::{
    Choice, Compared, EvaluationRecord, IntervalRecord, Resolved, Run, RunError, RunFolder, TestErrors,
    TestScoring, Units, Weights, choose, enough, run_source, without_intervals,
};
use crate::train::{Dataset, Session};
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;

/// What was chosen, with its errors on the test windows.
pub struct Chosen {
    /// The choice.
    pub choice: Choice,
    /// Why the run has no intervals, though they were asked for.
    pub without_intervals: Option<String>,
    /// Its errors; none where there is no window that tests.
    pub tested: Option<Tested>,
}

/// Errors on the test windows.
pub struct Tested {
    /// Those of what the run forecasts with.
    pub forecast: EvaluationRecord,
    /// Those of its network on its own.
    pub network: EvaluationRecord,
}

/// Chooses by validation, writes the choice into the run's folder, and scores it; none when it was stopped.
pub(super) fn chosen(
    resolved: &mut Resolved,
    session: &mut Session,
    panel: &Arc<WindowedPanel>,
    (plan, dataset): &(Plan, Dataset),
    folder: &mut RunFolder,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Chosen>, ForecastError> {
    let made = choose(resolved, session, panel, (plan, dataset), folder, stop);
    let Some(choice) = made.map_err(ForecastError::During)? else { return Ok(None) };
    resolved.settings.forecaster = Some(choice.forecaster.clone());
    if resolved.settings.time_limit.take().is_some() {
        // What finished is named, so that the settings make the same run however fast the machine is.
        resolved.settings.ensemble = Some(choice.members);
        resolved.settings = resolved.settings.clone().without_network_unless(Some(choice.members));
        if resolved.settings.model.is_none() && resolved.has_networks() {
            resolved.settings.candidates = Some(choice.networks.clone());
        }
    }
    folder.write("choice.json", &format!("{}\n", json!(choice))).map_err(ForecastError::During)?;
    let refused = match resolved.settings.interval.take_if(|_| !choice.forecaster.ensemble) {
        None => None,
        Some(levels) => match enough_for(&levels, panel, Some(plan)) {
            Err(why @ RunError::TooFewErrors { .. }) => Some(why.to_string()),
            found => {
                found?;
                resolved.settings.interval = Some(levels);
                None
            }
        },
    };
    let configuration = resolved.settings.to_toml_in(folder.path())?;
    folder.write("config.toml", &configuration).map_err(ForecastError::During)?;
    let mut compared = resolved.settings.compared.map(|_| Compared::of(resolved, &choice, panel, plan));
    if !panel.is_tested() {
        if let Some(compared) = &compared {
            compared.write(folder).map_err(ForecastError::During)?;
        }
        return Ok(Some(Chosen { choice, without_intervals: refused, tested: None }));
    }
    let run = Run::open(folder.path())?;
    run.compute_on(&session.engine);
    let mut own;
    let session = if choice.forecaster.ridge.is_some() {
        own = run.session(&session.engine, dataset, Weights::Best)?;
        &mut own
    } else {
        session
    };
    let units = Units::of(panel);
    let step = if choice.forecaster.ridge.is_some() { 0 } else { resolved.steps(session) };
    let record = |e: &_| EvaluationRecord::new(step, Segment::Test, e, &units);
    let forecast = run.evaluate(session, panel, Segment::Test).map_err(ForecastError::During)?;
    let mut forecast = record(&forecast);
    forecast.forecaster = Some(choice.winner.name.clone());
    let test = TestScoring { panel: Arc::clone(panel), period: resolved.period, segment: Segment::Test };
    let mut errors = TestErrors::new(panel, resolved.period, choice.metric);
    test.add_and_see(&mut forecast, session, run.forecaster(), |window| errors.add(window))
        .map_err(ForecastError::During)?;
    if let Some(levels) = &resolved.settings.interval {
        forecast.intervals = interval_records(&run, session, panel, levels)?;
    }
    let engine = session.engine.clone();
    let network = engine.enter(|| session.evaluate(Segment::Test))?;
    let mut network = record(&network);
    test.add_to(&mut network, session, None).map_err(ForecastError::During)?;
    if let Some(compared) = &mut compared {
        compared.tested(&errors, &forecast);
        compared.write(folder).map_err(ForecastError::During)?;
    }
    folder.log(&forecast).map_err(ForecastError::During)?;
    Ok(Some(Chosen { choice, without_intervals: refused, tested: Some(Tested { forecast, network }) }))
}

/// The scores of a run's intervals on the test windows.
fn interval_records(
    run: &Run,
    session: &mut Session,
    panel: &WindowedPanel,
    levels: &[f64],
) -> Result<Vec<IntervalRecord>, ForecastError> {
    let made = run.intervals(session, panel, levels).map_err(ForecastError::During)?;
    let Some(made) = made else { return Ok(Vec::new()) };
    let mut source = run_source(session, panel, run.forecaster());
    made.record(&mut source, panel, run.resolved().period).map_err(ForecastError::During)
}

/// Refuses intervals for which too few windows of all series are held out of training: validation's, or those of rolling
/// origins; says which series have too few. Of a run that tests nothing no interval is made.
pub(super) fn enough_for(
    levels: &[f64],
    panel: &WindowedPanel,
    plan: Option<&Plan>,
) -> Result<Option<String>, RunError> {
    if !panel.is_tested() {
        return Ok((!levels.is_empty()).then(|| "without windows to test there are no intervals".to_owned()));
    }
    let found = panel.members().iter().enumerate().map(|(i, member)| {
        let scored = |plan: &Plan| {
            plan.folds.iter().filter_map(|fold| fold.score.get(i)).map(Range::len).sum::<usize>()
        };
        let windows = plan.map_or(member.segments.windows(Segment::Validation).count(), scored);
        (member.series.name(), windows)
    });
    Ok(without_intervals(&enough(found, levels)?, levels))
}
