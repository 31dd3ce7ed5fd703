//! How long a run of the default recipe may take, and what of it fits in.
//!
//! Baselines and NLinear always compete: they take a second or two. The network that is trained by steps may take a share of the time,
//! the ensemble and DLinear shares of what is left then. The work of the first two is measured on a few steps and series. What does not
//! fit is left out before it begins, so the candidates that remain are those that finish, and the run's settings name them.

use super::RunError;
use super::network_options::NetworkOptions;
use super::resolve::Resolved;
use super::settings::Settings;
use super::words::Text;
use crate::choice::Plan;
use crate::choice::linear::Linear;
use crate::data::Segment;
use crate::models::ModelKind;
use crate::train::{Dataset, Loss, Session};
use landfall::Engine;
use std::time::{Duration, Instant};

/// The share of the time that is left which one candidate may take: others, the test and files need the rest.
const SHARE: f64 = 0.6;
/// Fewer steps than these teach a network of the default recipe little.
const FEWEST_STEPS: usize = 100;
/// How long steps are timed.
const TIMED: Duration = Duration::from_millis(700);
/// Passes over the test windows at the end of a run: errors, and what is compared with them, of forecaster and network.
const TEST_PASSES: f64 = 4.0;
/// The cost of a forecast beside that of a step on as many windows: no gradients.
const FORWARD: f64 = 1.0 / 3.0;
/// Products and sums a second that the normal equations of a linear network reach at least.
const RATE: f64 = 5e9;

/// Seconds that a step takes, and a pass over the windows of a segment.
struct Pace {
    step: f64,
    validation: f64,
    test: f64,
}

impl Resolved {
    /// Has the run end at about this moment.
    #[must_use]
    pub fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The seconds that are left, of a run with a limit.
    pub(super) fn left(&self) -> Option<f64> {
        self.deadline.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    /// Takes fewer steps where the time does not suffice for all, or leaves the network out that is trained by steps, and has a session
    /// made of what remains. The steps of `session` are timed, so that it is of no more use.
    ///
    /// # Errors
    /// A device fault.
    pub fn shortened(
        &mut self,
        mut session: Session,
        dataset: &Dataset,
        plan: &Plan,
    ) -> Result<Session, RunError> {
        if !self.trains() || self.deadline.is_none() {
            return Ok(session);
        }
        let engine = session.engine.clone();
        let wanted = self.steps(&session);
        let pace = Pace::of(&engine, &mut session, (wanted, dataset.channels))?;
        let validations = self.validate_every(plan).map_or(0, |every| wanted.div_ceil(every.max(1)));
        let passes = TEST_PASSES * pace.test + validations as f64 * pace.validation;
        // A network is trained for each origin, and once more.
        let step = pace.step * if plan.rolling { 1.0 + plan.folds.len() as f64 } else { 1.0 };
        let (left, seconds) = (self.left().unwrap_or(0.0), wanted as f64 * step + passes);
        let fit = ((SHARE * left - passes).max(0.0) / step) as usize;
        let kind = self.trained_kind();
        let asked = self.settings.model.is_some() || self.training.loss != Loss::Mse;
        if fit < wanted && (fit >= FEWEST_STEPS || asked) {
            let steps = fit.max(1);
            (self.settings.max_steps, self.settings.epochs) = (Some(steps), None);
            self.training.max_steps = Some(steps);
            self.notes.push(Text::plain(format!(
                "{} takes {steps} steps: {wanted} would take about {seconds:.0} s, and {left:.0} s are left",
                kind.name(),
            )));
        } else if fit < wanted {
            self.dropped.push(format!(
                "{}, whose {wanted} steps would take about {seconds:.0} s, where {left:.0} s are left",
                kind.name(),
            ));
            self.leave_out_trained()?;
        }
        self.session(&engine, dataset)
    }

    /// Has the linear networks alone compete.
    fn leave_out_trained(&mut self) -> Result<(), RunError> {
        let named = self.settings.candidates.as_deref();
        let mut candidates = vec![ModelKind::Nlinear, ModelKind::Dlinear];
        candidates.retain(|kind| named.is_none_or(|named| named.contains(kind)));
        if candidates.is_empty() {
            candidates.push(ModelKind::Nlinear);
        }
        let columns = self.settings.network.as_ref().and_then(|network| network.columns);
        let settings = Settings {
            candidates: Some(candidates),
            ensemble: Some(self.members()),
            dropout: None,
            network: columns.map(|columns| NetworkOptions::of_columns(Some(columns))),
            ..self.settings.clone()
        };
        let remaining = settings.resolve()?;
        *self = Self {
            given: self.given.clone(),
            untested: self.untested,
            deadline: self.deadline,
            dropped: std::mem::take(&mut self.dropped),
            notes: std::mem::take(&mut self.notes),
            ..remaining
        };
        Ok(())
    }

    /// The linear networks that there is time for: NLinear always, so that there is a forecast.
    pub(super) fn linear_in_time(
        &self,
        plan: &Plan,
        columns: usize,
        dropped: &mut Vec<String>,
    ) -> Vec<(ModelKind, Linear)> {
        let mut all = self.linear(plan.rolling);
        let Some(left) = self.left() else { return all };
        let windows: usize = plan.all.iter().map(ExactSizeIterator::len).sum();
        let fits = (1 + plan.folds.len()) as f64;
        let mut sum = 0.0;
        all.retain(|(kind, linear)| {
            sum += fits * linear.operations(windows * columns) / RATE;
            let fits = *kind == ModelKind::Nlinear || sum < 0.5 * left;
            if !fits {
                dropped.push(format!(
                    "{}, which would take about {sum:.0} s, where {left:.0} s are left",
                    kind.name()
                ));
            }
            fits
        });
        all
    }
}

impl Pace {
    /// Times at most so many steps of a session over data of so many columns.
    fn of(engine: &Engine, session: &mut Session, (most, columns): (usize, usize)) -> Result<Self, RunError> {
        let step = engine.enter(|| -> Result<f64, RunError> {
            // The first one prepares what the others find.
            session.step()?;
            session.position()?;
            let (begun, mut steps) = (Instant::now(), 0);
            while steps + 1 < most && begun.elapsed() < TIMED {
                session.step()?;
                // What a GPU has queued is not done.
                session.position()?;
                steps += 1;
            }
            Ok(begun.elapsed().as_secs_f64() / steps.max(1) as f64)
        })?;
        let columns = if session.is_by_column() { columns } else { 1 };
        let batch = session.options().batch.max(1);
        let pass = |segment| FORWARD * step * (session.windows(segment) * columns).div_ceil(batch) as f64;
        Ok(Self { step, validation: pass(Segment::Validation), test: pass(Segment::Test) })
    }
}
