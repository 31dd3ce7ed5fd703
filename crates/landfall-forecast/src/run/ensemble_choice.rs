//! The ensemble among the candidates of a choice.

use super::RunError;
use super::ensembles::{Rows, Scaled, ahead, fit, scaled};
use super::forecaster::Forecaster;
use super::resolve::Resolved;
use crate::choice::{BLOCKS, Fold, Origin, Plan};
use crate::data::{Member, Segment, Series, WindowedPanel};
use crate::ensemble::{Ensemble, Members, PretrainedMember, Reach};
use landfall::Engine;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Work of forecasting all validation and test windows, in tokens of the pretrained network, beyond which the ensemble takes no
/// part: about two minutes of a core.
pub(super) const MOST_WORK: usize = 1_000_000;
/// Work of scoring it beside the other candidates: more windows than that are sampled evenly.
const SCORED_WORK: usize = 250_000;

/// The share of the time that is left which it may take.
const SHARE: f64 = 0.7;
/// Series that are timed, about.
const TIMED: usize = 16;

/// The ensemble as a candidate.
#[derive(Debug)]
pub(super) struct EnsembleChoice {
    members: Members,
    season: usize,
    /// Target columns and rows of a forecast.
    sizes: (usize, usize),
    threads: Option<usize>,
    /// Its pretrained network, and how far that reaches.
    network: Arc<PretrainedMember>,
    reach: Reach,
    takes_part: bool,
    /// The work of forecasting all windows that it forecasts in any case.
    work: usize,
    /// Its models of the rows before each fold, of the series that were scored there so far.
    before: RefCell<HashMap<usize, Ensemble>>,
    /// Why it takes no part, where it could.
    pub(super) left_out: Option<String>,
}

impl EnsembleChoice {
    /// The ensemble of these settings ([`Resolved::members`]), unless the panel has too many windows for it.
    pub(super) fn of(resolved: &Resolved, panel: &WindowedPanel, plan: &Plan) -> Self {
        Self::of_members(resolved, resolved.members(), panel, plan)
    }

    /// The same on the device of a run, with a time limit of the members that there is time for.
    pub(super) fn in_time(
        resolved: &Resolved,
        engine: &Engine,
        panel: &WindowedPanel,
        plan: &Plan,
    ) -> Result<Self, RunError> {
        let mut made = Self::of(resolved, panel, plan);
        made.network.compute_on(engine);
        let Some(left) = resolved.left().filter(|_| made.takes_part && resolved.has_networks()) else {
            return Ok(made);
        };
        let needed = made.seconds(panel, plan)?;
        if needed < SHARE * left {
            return Ok(made);
        }
        let (all, mut alone) = (made.members, None);
        if all == Members::All && resolved.given.ensemble.is_none() {
            made = Self::of_members(resolved, Members::Statistical, panel, plan);
            let statistical = made.seconds(panel, plan)?;
            alone = (statistical < SHARE * resolved.left().unwrap_or(0.0)).then_some(statistical);
        }
        let took = format!("would take about {needed:.0} s, where {left:.0} s are left");
        made.left_out = Some(match alone {
            Some(_) => format!("the pretrained network in the ensemble, with which that {took}"),
            None => format!("the ensemble, which {took}"),
        });
        made.takes_part = alone.is_some();
        if alone.is_none() {
            made.members = Members::None;
        }
        Ok(made)
    }

    fn of_members(resolved: &Resolved, members: Members, panel: &WindowedPanel, plan: &Plan) -> Self {
        let sizes = (panel.targets(), resolved.network.horizon());
        let windows = |segment| {
            let of = move |m: &Member| {
                let windows = m.segments.windows(segment);
                windows.starts().map(move |start| windows.target(start).start)
            };
            panel.members().iter().flat_map(of)
        };
        // With rolling origins no window is forecast because it validates.
        let segments = [Segment::Test, Segment::Validation];
        let segments = &segments[..if plan.rolling { 1 } else { 2 }];
        let mut made = Self {
            members,
            season: resolved.period,
            sizes,
            threads: resolved.settings.threads,
            network: Arc::new(PretrainedMember::new(resolved.settings.named_network())),
            reach: resolved.settings.reach(),
            takes_part: members != Members::None,
            work: 0,
            before: RefCell::default(),
            left_out: None,
        };
        made.work = made.work(segments.iter().flat_map(|segment| windows(*segment)));
        if made.takes_part && made.work > MOST_WORK {
            let name = members.name_with(resolved.settings.network_name());
            let what = if members.alone().is_some() { name } else { format!("the {name}") };
            made.left_out = Some(format!(
                "{what}: forecasts of all windows that validate and test would take it minutes"
            ));
            made.takes_part = false;
        }
        made
    }

    /// The work of forecasting windows of so many rows before them, of all columns.
    fn work(&self, rows: impl Iterator<Item = usize>) -> usize {
        let (targets, horizon) = self.sizes;
        rows.map(|rows| targets * Ensemble::work(self.members, self.reach, rows, horizon)).sum()
    }

    /// Its models of the first rows of series.
    fn fitted<'a>(&self, series: impl Iterator<Item = (&'a Series, usize)>) -> Result<Ensemble, RunError> {
        fit((self.members, &self.network), (self.season, self.sizes.0), series, self.threads)
    }

    /// About how many seconds it takes, from the fit and the forecasts of a few series.
    fn seconds(&self, panel: &WindowedPanel, plan: &Plan) -> Result<f64, RunError> {
        let members = panel.members();
        let before_test =
            |m: &Member| m.segments.rows(Segment::Test).start + m.segments.windows(Segment::Test).context();
        let some: Vec<&Member> = members.iter().step_by(members.len().div_ceil(TIMED)).collect();
        let begun = Instant::now();
        let fitted = self.fitted(some.iter().map(|m| (&m.series, before_test(m))))?;
        let fits = begun.elapsed().as_secs_f64() / some.len() as f64 * members.len() as f64;
        let rows = |m: &&'_ Member, less: usize| -> usize { before_test(m).saturating_sub(less).max(1) };
        let (mut timed, mut done) = (0.0, 0);
        // The first forecasts prepare what the others find.
        for less in 0..3 {
            let of = |m: &&'_ Member| (m.series.clone(), m.scaler.clone(), rows(m, less));
            let owned: Vec<_> = some.iter().map(of).collect();
            let rows: Vec<Rows<'_>> =
                owned.iter().map(|(series, scaler, known)| Rows { series, scaler, known: *known }).collect();
            let begun = Instant::now();
            ahead(&fitted, &rows, self.sizes, false)?;
            if less > 0 {
                timed += begun.elapsed().as_secs_f64();
                done += self.work(rows.iter().map(|r| r.known));
            }
        }
        let scored: usize = plan
            .folds
            .iter()
            .map(|fold| self.work(Fold::origins(panel, &fold.score).map(|o| o.at - o.begin)))
            .sum();
        let forecasts = self.work + scored.min(SCORED_WORK);
        Ok(fits * (1 + plan.folds.len()) as f64 + timed * forecasts as f64 / done.max(1) as f64)
    }

    /// The members: those that there is time for.
    pub(super) fn members(&self) -> Members {
        self.members
    }

    /// Whether it is a candidate.
    pub(super) fn takes_part(&self) -> bool {
        self.takes_part
    }

    /// From one window that is scored to the next: more than 1 where all of them would be too much work.
    pub(super) fn stride(&self, panel: &WindowedPanel, plan: &Plan) -> usize {
        let rows =
            |fold: &'_ Fold| Fold::origins(panel, &fold.score).map(|o| o.at - o.begin).collect::<Vec<_>>();
        match self.takes_part {
            true => self.work(plan.folds.iter().flat_map(rows)).div_ceil(SCORED_WORK).max(1),
            false => 1,
        }
    }

    /// Windows of each series and fold whose errors intervals are made of at most, so that they are no more work than
    /// [`MOST_WORK`] in all.
    pub(super) fn most_errors(&self, panel: &WindowedPanel) -> usize {
        let rows = panel.members().iter().map(|m| m.series.rows());
        match self.takes_part {
            true => MOST_WORK / (BLOCKS * self.work(rows)).max(1),
            false => usize::MAX,
        }
    }

    /// What it forecasts of windows of a fold, by models of the rows before the fold's first
    /// window; nothing where it takes no part.
    pub(super) fn ahead_before(
        &self,
        panel: &WindowedPanel,
        (number, fold): (usize, &Fold),
        origins: &[Origin],
    ) -> Result<Scaled, RunError> {
        if !self.takes_part {
            return Ok(Scaled::default());
        }
        let mut scored = vec![false; panel.members().len()];
        origins.iter().for_each(|o| scored[o.series] = true);
        let mut before = self.before.borrow_mut();
        let has = |fitted: &&Ensemble| {
            let all = panel.members().iter().zip(&scored);
            let fit =
                |m: &Member| fitted.place(m.series.name(), false).is_some_and(|at| fitted.rows(at).1 > 0);
            all.filter(|(_, scored)| **scored).all(|(m, _)| fit(m))
        };
        if before.get(&number).filter(has).is_none() {
            let of = |(i, m): (usize, &'_ Member)| if scored[i] { first_scored(m, fold, i) } else { 0 };
            let known = panel.members().iter().enumerate().map(of).collect::<Vec<usize>>();
            let series = panel.members().iter().zip(known).map(|(m, known)| (&m.series, known));
            before.insert(number, self.fitted(series)?);
        }
        let Some(ensemble) = before.get(&number) else { return Ok(Scaled::default()) };
        let rows = |o: &Origin| {
            let m = &panel.members()[o.series];
            Rows { series: &m.series, scaler: &m.scaler, known: o.at - o.begin }
        };
        let rows: Vec<Rows<'_>> = origins.iter().map(rows).collect();
        Ok(scaled(&ahead(ensemble, &rows, self.sizes, false)?, &rows, self.sizes.0))
    }

    /// The models that the run keeps: of its series, where the ensemble takes part in what was chosen, and of those that are
    /// too short for windows. Weights that know no validation row are beside models that do not either.
    pub(super) fn fit(
        &self,
        panel: &WindowedPanel,
        plan: &Plan,
        forecaster: &Forecaster,
    ) -> Result<Option<Arc<Ensemble>>, RunError> {
        let before_test =
            |m: &Member| m.segments.rows(Segment::Test).start + m.segments.windows(Segment::Test).context();
        let known = |(i, m): (usize, &'_ Member)| match plan.folds.as_slice() {
            [fold] if !forecaster.refit && !fold.score[i].is_empty() => first_scored(m, fold, i),
            _ => before_test(m),
        };
        let members = panel.members().iter().enumerate().filter(|_| forecaster.ensemble);
        let members = members.map(|(i, m)| (&m.series, known((i, m))));
        let short = panel.short().iter().map(|s| (&s.series, s.series.rows()));
        let short = short.filter(|_| self.members != Members::None);
        let all: Vec<_> = members.chain(short).collect();
        if all.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(self.fitted(all.into_iter())?)))
    }
}

/// Rows of a series before the first predicted row of a fold.
fn first_scored(m: &Member, fold: &Fold, series: usize) -> usize {
    fold.score[series].start + m.segments.windows(Segment::Train).context()
}
