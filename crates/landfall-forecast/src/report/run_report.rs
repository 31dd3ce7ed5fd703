//! The report of a run: what is computed for it, and in which order it stands.

use super::collect::Collected;
use super::curves::Curves;
use super::page::Page;
use super::sections::{self, Forecasts};
use crate::data::{Segment, Summary, WindowedPanel};
use crate::run::{EvaluationRecord, Forecast, Run, RunError, Units, Weights, measured, run_source};
use crate::train::Session;

/// What a report is about.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// Forecasts of series; the session holds their windows.
    Series {
        /// The series.
        panel: &'a WindowedPanel,
        /// What was read.
        summary: &'a Summary,
    },
    /// Series of which nothing can be tested: their forecasts alone.
    Untested {
        /// The series ([`Run::untested`]).
        panel: &'a WindowedPanel,
        /// Why.
        why: &'a str,
    },
    /// Classes of samples, or labels of windows: errors of a segment and the curves of training, without forecasts.
    Samples {
        /// Names and scales of what is predicted.
        units: &'a Units,
        /// The segment that is scored.
        segment: Segment,
    },
}

/// A run in pictures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// One HTML file that needs no other and asks the network for nothing.
    pub html: String,
    /// The forecast of the test window of median error, of the first series and column, as an SVG file; none for samples.
    pub svg: Option<String>,
}

impl Report {
    /// Evaluates a run and draws it, with intervals of these levels in percent. `session` holds the run's weights and data ([`Run::session`]). The size of the
    /// report and the memory that it takes do not grow with the number of windows.
    ///
    /// # Errors
    /// A device fault; metrics that cannot be read; a value that cannot be scaled.
    pub fn of(
        run: &Run,
        session: &mut Session,
        subject: Subject<'_>,
        (weights, levels): (Weights, &[f64]),
    ) -> Result<Self, RunError> {
        let curves = Curves::read(run.path())?;
        let title = format!("Report of {}", super::svg::shortened(&run.path().display().to_string(), 120));
        let mut page = Page::default();
        page.heading(1, &title);
        let mut svg = None;
        match subject {
            Subject::Series { panel, summary } => {
                let mut record = record(run, session, panel)?;
                let mut intervals = None;
                let made = if levels.is_empty() { None } else { run.intervals(session, panel, levels)? };
                if let Some(made) = made {
                    let mut source = run_source(session, panel, run.forecaster());
                    record.intervals = made.record(&mut source, panel, run.resolved().period)?;
                    intervals = Some(made);
                }
                let period = run.resolved().period;
                let mut sums = measured::sums(panel, Segment::Test, period);
                let collected = Collected::of(run, session, panel, intervals.as_ref(), &mut sums)?;
                measured::put(&mut record, &sums);
                record.quantile_scores.clone_from(&collected.quantiles);
                record.baselines = measured::baselines(panel, Segment::Test, period)?;
                let mut future = future(run, session, panel, &collected)?;
                if !levels.is_empty() {
                    let engine = session.engine.clone();
                    let all = future.iter_mut().flatten();
                    run.intervals_after(&engine, weights, panel, levels, all)?;
                }
                let forecasts =
                    Forecasts { run, panel, collected: &collected, future: &future, intervals: levels };
                svg = forecasts.alone();
                forecasts.ahead(&mut page);
                sections::verdict(&mut page, run, &record);
                forecasts.windows(&mut page);
                let units = run.resolved().units();
                sections::errors(&mut page, panel, &collected, &record, units);
                sections::residuals(&mut page, panel, &collected, units);
                sections::curves(&mut page, run, &curves);
                sections::facts(&mut page, run, summary, &record);
            }
            Subject::Untested { panel, why } => {
                let collected = Collected::new(run, panel);
                let future = future(run, session, panel, &collected)?;
                Forecasts { run, panel, collected: &collected, future: &future, intervals: &[] }
                    .ahead(&mut page);
                page.heading(2, "How good it is");
                page.paragraph("warn", why);
            }
            Subject::Samples { units, segment } => {
                let engine = session.engine.clone();
                let evaluation = engine.enter(|| session.evaluate(segment))?;
                let step = run.resolved().steps(session);
                sections::samples(&mut page, run, &EvaluationRecord::new(step, segment, &evaluation, units));
                sections::curves(&mut page, run, &curves);
            }
        }
        sections::made(&mut page, run);
        Ok(Self { html: page.html(&title), svg })
    }
}

/// Errors on the test windows, as `evaluate` has them.
fn record(run: &Run, session: &mut Session, panel: &WindowedPanel) -> Result<EvaluationRecord, RunError> {
    let step = run.resolved().steps(session);
    let evaluation = run.evaluate(session, panel, Segment::Test)?;
    Ok(EvaluationRecord::new(step, Segment::Test, &evaluation, &Units::of(panel)))
}

/// The forecast beyond the data of each series that is shown, by its place.
fn future(
    run: &Run,
    session: &mut Session,
    panel: &WindowedPanel,
    collected: &Collected,
) -> Result<Vec<Option<Forecast>>, RunError> {
    // Rows whose covariates are not known here cannot be forecast.
    let known = !run.needs_future();
    let shown = |i: usize| known && collected.pairs.iter().any(|p| p.series == i);
    let mut one = |(i, m): (usize, &crate::data::Member)| {
        shown(i).then(|| run.forecast(session, &m.series)).transpose()
    };
    panel.members().iter().enumerate().map(&mut one).collect()
}
