//! The choice of what a run forecasts with, by validation or by rolling origins.

use super::ensemble_choice::EnsembleChoice;
use super::ensembles::{ENSEMBLE, Scaled};
use super::forecaster::{Forecaster, non_negative, priors};
use super::intervals;
use super::past_windows::{self, Errors, PastWindow};
use super::pooled::Pooled;
use super::resolve::Resolved;
use super::{RunError, RunFolder};
use crate::checkpoint::{load_weights, write_weights};
use crate::choice::linear::{Linear, origins};
use crate::choice::{
    Candidate, Fit, Fold, MANY, Metric, Origin, Partner, Plan, STRENGTHS, Tally, Unit, Winner,
};
use crate::data::{Baseline, Member, Prior, Segment, WindowedPanel, seasonal_scale};
use crate::ensemble::Members;
use crate::models::ModelKind;
use crate::pretrained::Pretrained;
use crate::train::{Dataset, Session};
use landfall::Engine;
use serde::Serialize;
use std::ops::Range;

/// Validation and rolling origins score at most about so many values of a target column: more are sampled evenly.
const VALUES: usize = 2_000_000;

/// Why a candidate of a smaller error is not chosen.
pub const ENSEMBLE_STAYS: &str =
    "the ensemble takes part, alone unless its mean with a network is better by more than chance";

/// A candidate by name, with its error.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// Such as `mean of nlinear and last value`.
    pub name: String,
    /// Strength of the ridge regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ridge: Option<f64>,
    /// Mean squared error, scaled.
    pub mse: f64,
    /// Mean absolute error in that of the seasonal naive forecast in the training rows.
    pub mase: f64,
    /// Root of the mean squared error in that of the seasonal naive forecast in the training rows.
    pub rmsse: f64,
}

impl Scored {
    fn error(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Rmsse => self.rmsse,
            Metric::Mase => self.mase,
            Metric::Mse => self.mse,
        }
    }
}

/// What was chosen, and from what: the run directory's `choice.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// What the run forecasts with.
    pub forecaster: Forecaster,
    /// The error that it was chosen by.
    pub metric: Metric,
    /// What it is called.
    pub winner: Scored,
    /// The best network on its own.
    pub network: Option<Scored>,
    /// The better baseline.
    pub baseline: Scored,
    /// The ensemble, where it was scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ensemble: Option<Scored>,
    /// Candidates that were left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The best candidate of each network and baseline, the smallest error first.
    pub candidates: Vec<Scored>,
    /// The networks that competed.
    #[serde(skip)]
    pub networks: Vec<ModelKind>,
    /// The members of the ensemble that competed.
    #[serde(skip)]
    pub members: Members,
    /// Whether rolling origins took validation's place.
    pub rolling: bool,
    /// Validation windows of the longest series.
    pub validation_windows: usize,
    /// Windows that candidates were scored on.
    pub windows: usize,
}

impl Choice {
    /// The error of a candidate that the choice is by.
    #[must_use]
    pub fn error(&self, of: &Scored) -> f64 {
        of.error(self.metric)
    }
}

/// Networks of a choice: which, and with which strength.
struct Network {
    kind: ModelKind,
    linear: Option<(Linear, f64)>,
}

/// Scores all candidates and chooses; writes the weights of a linear network that was chosen into the folder.
///
/// `session` holds the trained network's best weights. With rolling origins the network is trained again for each of
/// them, on the windows before it, for as many steps. `stop` is asked between steps.
///
/// # Errors
/// A device fault; weights that cannot be written. `Ok(None)` when it was stopped.
pub fn choose(
    resolved: &Resolved,
    session: &mut Session,
    panel: &WindowedPanel,
    (plan, dataset): (&Plan, &Dataset),
    folder: &RunFolder,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Choice>, RunError> {
    let cpu = Engine::cpu()?;
    let horizon = resolved.network.horizon();
    let mut networks: Vec<Network> = Vec::new();
    if resolved.trains() {
        networks.push(Network { kind: resolved.trained_kind(), linear: None });
    }
    let mut left_out = resolved.dropped.clone();
    let linears = resolved.linear_in_time(plan, panel.targets(), &mut left_out);
    for &(kind, linear) in &linears {
        networks.extend(STRENGTHS.map(|strength| Network { kind, linear: Some((linear, strength)) }));
    }
    let non_negative = non_negative(panel);
    let priors = priors(panel, &non_negative);
    let seasonal = Baseline::SeasonalNaive { period: resolved.period };
    let baselines = [Baseline::LastValue, seasonal];
    let baselines = &baselines[..if resolved.period > 1 && plan.seasonal { 2 } else { 1 }];
    let sizes = (resolved.network.context(), horizon);
    let ensemble = EnsembleChoice::in_time(resolved, &session.engine, panel, plan)?;
    left_out.extend(ensemble.left_out.clone());
    let most_errors = ensemble.most_errors(panel).min(intervals::limit(panel, &[]));
    let metric = resolved.metric(priors.len());
    let units = units(panel, resolved.period);
    let mut tally = Tally::new(dataset, sizes, (baselines, ensemble.takes_part()), (&priors, &units), metric);
    let every = resolved.settings.compared.map_or(1, |same| same.every);
    let every = every.max((plan.scored() * horizon).div_ceil(VALUES)).max(ensemble.stride(panel, plan));
    // The windows of one of many series are few: errors of all of them make the intervals, of the windows that are scored anyway.
    let pools = ensemble.takes_part() && priors.len() >= MANY;
    // Windows and their predictions by networks that were not fit on them, and the number of their fold.
    let mut out_of_sample = Vec::new();
    for (number, fold) in plan.folds.iter().enumerate() {
        let all = origins(panel, &fold.score);
        let some: Vec<Origin> = all.iter().copied().step_by(every).collect();
        tally.score_partners(&some, &ensemble.ahead_before(panel, (number, fold), &some)?.values);
        if !fold.fits() {
            let last = if pools { some } else { last_origins(panel, &fold.score, most_errors) };
            let none = vec![0.0; last.len() * dataset.targets() * horizon];
            out_of_sample.push((number, last, none));
            continue;
        }
        let fit_on = origins(panel, &fold.fit);
        for &(kind, linear) in linears.iter().filter(|_| resolved.has_networks()) {
            let fits = linear.fit(&cpu, dataset, (&fit_on, &priors), &STRENGTHS)?;
            for (n, network) in networks.iter().enumerate() {
                let Some((_, strength)) = network.linear.filter(|_| network.kind == kind) else { continue };
                if let Some(fit) = fits.iter().find(|f| f.strength == strength) {
                    tally.score_network(n, &some, &linear.predict(&cpu, dataset, &some, fit)?);
                }
            }
        }
        if !resolved.trains() {
            continue;
        }
        let (mut kept, which) = (Vec::new(), (dataset.targets(), every));
        if plan.rolling {
            let Some(mut session) = trained_on(resolved, session, fold, dataset, panel, stop)? else {
                return Ok(None);
            };
            score_trained(&mut session, resolved, &mut tally, &some, which, Some(&mut kept))?;
        } else {
            score_trained(session, resolved, &mut tally, &some, which, pools.then_some(&mut kept))?;
        }
        if plan.rolling || pools {
            out_of_sample.push((number, some, kept));
        }
    }
    let mut winner = tally.winner().unwrap_or_else(|| untested(panel, seasonal, ensemble.takes_part()));
    if !resolved.has_networks() {
        winner.chosen = alone(&tally, &winner);
    }
    if !resolved.training.loss.levels().is_empty() {
        // A baseline has no quantiles: it is a network, though none could be scored.
        let trained =
            Candidate { network: Some(0), partner: None, mse: f64::NAN, mase: f64::NAN, rmsse: f64::NAN };
        winner.chosen = winner.network.unwrap_or(trained);
    }
    let kept = winner.chosen.network.or_else(|| winner.network.and_then(|n| n.network));
    // Of networks that no window could choose among, the one that is the nearest to the last value.
    let unscored = !plan.fits() || !resolved.has_networks();
    let kept = kept.or_else(|| networks.iter().rposition(|n| n.linear.is_some()).filter(|_| unscored));
    let (kind, linear) =
        kept.map_or((resolved.trained_kind(), None), |n| (networks[n].kind, networks[n].linear));
    let mut forecaster =
        Forecaster::new(&winner.chosen, kind, linear.map(|(_, strength)| strength), non_negative)
            .of_members(resolved.members(), resolved.settings.network_name());
    forecaster.refit = plan.rolling || linear.is_some();
    if let Some((linear, strength)) = linear {
        if plan.fits() {
            out_of_sample.clear();
        }
        for (number, fold) in plan.folds.iter().enumerate().filter(|(_, fold)| fold.fits()) {
            let fits = linear.fit(&cpu, dataset, (&origins(panel, &fold.fit), &priors), &[strength])?;
            let Some(fit) = fits.first() else { continue };
            let last = if pools {
                origins(panel, &fold.score).into_iter().step_by(every).collect()
            } else {
                last_origins(panel, &fold.score, most_errors)
            };
            let predictions = linear.predict(&cpu, dataset, &last, fit)?;
            out_of_sample.push((number, last, predictions));
        }
        let fits = linear.fit(&cpu, dataset, (&origins(panel, &plan.all), &priors), &[strength])?;
        write_linear(resolved, session, dataset, folder, (kind, linear), &fits)?;
    }
    let pools = pools && forecaster.ensemble;
    if forecaster.refit || pools {
        let mut predicted = Vec::with_capacity(out_of_sample.len());
        for (number, origins, network) in out_of_sample {
            let ahead = match forecaster.ensemble {
                true => ensemble.ahead_before(panel, (number, &plan.folds[number]), &origins)?,
                false => Scaled::default(),
            };
            predicted.push(Predicted { origins, network, ensemble: ahead });
        }
        let (errors, pooled) = errors_before_refit(&forecaster, panel, dataset, (sizes, &priors), &predicted);
        match pools {
            true => pooled.sorted().write(folder.path())?,
            false => past_windows::write(folder.path(), panel, &errors)?,
        }
    }
    forecaster.models = ensemble.fit(panel, plan, &forecaster)?;
    if let Some(models) = &forecaster.models {
        models.write(&folder.path().join(ENSEMBLE))?;
    }
    let named = (resolved.members(), resolved.settings.network_name());
    let mut choice = described(&winner, &tally, (&networks, named), forecaster, (plan, left_out, metric));
    choice.members = ensemble.members();
    Ok(Some(choice))
}

/// What errors of each series and target column are divided by, in the series' scale: of a column without a season that of one row,
/// of one that never changed 1.
pub(super) fn units(panel: &WindowedPanel, period: usize) -> Vec<Unit> {
    let of = |m: &Member| -> Vec<Unit> {
        let unit = |(values, std): (&Vec<f64>, &f64)| {
            let training = values.get(m.segments.rows(Segment::Train)).unwrap_or_default();
            let apart = |period: usize| {
                let absolute = seasonal_scale(training, period)?;
                let pairs = || training.iter().zip(&training[period..]);
                let squares: f64 = pairs().map(|(before, y)| (y - before).powi(2)).sum();
                let squared = (squares / pairs().count() as f64).sqrt();
                Some(Unit { absolute: absolute / std, squared: squared / std })
            };
            let finite = |unit: &Unit| unit.absolute > 0.0 && unit.squared.is_finite();
            let found = apart(period).or_else(|| apart(1)).filter(finite);
            found.unwrap_or(Unit { absolute: 1.0, squared: 1.0 })
        };
        m.series.values().iter().zip(m.scaler.std()).take(panel.targets()).map(unit).collect()
    };
    panel.members().iter().flat_map(of).collect()
}

/// What forecasts where no window can be scored: the ensemble, where it takes part; the season before, where most series have
/// one, else the last value.
fn untested(panel: &WindowedPanel, seasonal: Baseline, with_ensemble: bool) -> Winner {
    let with_season = panel.members().iter().filter(|m| m.series.rows() >= seasonal.period()).count();
    let baseline = match seasonal.period() {
        2.. if 2 * with_season > panel.members().len() => seasonal,
        _ => Baseline::LastValue,
    };
    let alone = |partner| Candidate {
        network: None,
        partner: Some(partner),
        mse: f64::NAN,
        mase: f64::NAN,
        rmsse: f64::NAN,
    };
    let (baseline, ensemble) = (alone(Partner::Baseline(baseline)), alone(Partner::Ensemble));
    let chosen = if with_ensemble { ensemble } else { baseline };
    Winner { chosen, network: None, baseline, ensemble: with_ensemble.then_some(ensemble) }
}

/// The only candidate where no network competes: the ensemble, where it takes part, else the season before, where there is one, else
/// the last value.
fn alone(tally: &Tally<'_>, winner: &Winner) -> Candidate {
    let is_baseline = |c: &Candidate| c.network.is_none() && matches!(c.partner, Some(Partner::Baseline(_)));
    let mut all = tally.candidates().into_iter();
    let baseline = all.rfind(|c| is_baseline(c) && c.rmsse.is_finite());
    winner.ensemble.or(baseline).unwrap_or(winner.chosen)
}

/// The last windows to score of each series: as many as intervals are made of.
fn last_origins(panel: &WindowedPanel, score: &[Range<usize>], limit: usize) -> Vec<Origin> {
    let last: Vec<_> = score.iter().map(|r| r.end.saturating_sub(limit).max(r.start)..r.end).collect();
    origins(panel, &last)
}

/// Windows, and what networks `[origins, targets, horizon]` and, where it takes part, the ensemble predicted of them that were
/// not fit on them.
struct Predicted {
    origins: Vec<Origin>,
    network: Vec<f64>,
    ensemble: Scaled,
}

/// Absolute errors of a forecaster in windows that its network was not fit on when it predicted them, for each series and of all together.
fn errors_before_refit(
    forecaster: &Forecaster,
    panel: &WindowedPanel,
    dataset: &Dataset,
    ((context, horizon), priors): ((usize, usize), &[Prior]),
    predicted: &[Predicted],
) -> (Vec<Errors>, Pooled) {
    let mut pooled = Pooled::default();
    let (targets, limit) = (dataset.targets(), intervals::limit(panel, &[]));
    let mut all = vec![Errors::new(); panel.members().len()];
    for Predicted { origins, network, ensemble } in predicted {
        let each = (targets * horizon).max(1);
        for (i, (origin, window)) in origins.iter().zip(network.chunks_exact(each)).enumerate() {
            let (values, widths) = (&ensemble.values, &ensemble.widths);
            let mut errors = Vec::with_capacity(window.len());
            for (target, forecast) in window.chunks_exact(horizon).enumerate() {
                let column = &dataset.values[target * dataset.rows..][..dataset.rows];
                let mut forecast = forecast.to_vec();
                let prior = priors.get(origin.series * targets + target).copied().unwrap_or_default();
                let history = &column[origin.begin..origin.at];
                let of = i * each + target * horizon;
                let own = values.get(of..).unwrap_or_default();
                forecaster.combine((history, own), prior, (context, horizon), &mut forecast);
                let pairs = || column[origin.at..].iter().zip(&forecast);
                let apart = || pairs().map(|(y, f)| (f64::from(*y) - f).abs());
                errors.extend(apart().map(past_windows::rounded_up));
                pooled.add(apart(), widths.get(of..of + horizon).unwrap_or_default());
            }
            let series = &panel.members()[origin.series].series;
            let last = past_windows::place(series, origin.at - origin.begin + horizon - 1);
            past_windows::add(&mut all[origin.series], PastWindow { last, errors }, limit);
        }
    }
    (all, pooled)
}

/// Adds the errors of the trained network: those of its point forecasts of every `every`-th validation window, which are also
/// appended to `kept`.
fn score_trained(
    session: &mut Session,
    resolved: &Resolved,
    tally: &mut Tally<'_>,
    origins: &[Origin],
    (targets, every): (usize, usize),
    mut kept: Option<&mut Vec<f64>>,
) -> Result<(), RunError> {
    let (horizon, loss) = (resolved.network.horizon(), &resolved.training.loss);
    let (levels, point) = (loss.outputs(), loss.point());
    let engine = session.engine.clone();
    engine.enter(|| {
        session.predict_all(Segment::Validation, |first, predictions| {
            for (i, window) in predictions.chunks_exact((levels * horizon * targets).max(1)).enumerate() {
                let number = first + i;
                if !number.is_multiple_of(every) {
                    continue;
                }
                let points: Vec<f64> = window
                    .chunks_exact(levels * horizon)
                    .flat_map(|column| column[point * horizon..][..horizon].to_vec())
                    .collect();
                tally.score_network(0, origins.get(number / every..).unwrap_or_default(), &points);
                if let Some(kept) = &mut kept {
                    kept.extend(points);
                }
            }
            Ok::<(), RunError>(())
        })
    })
}

/// A session that was trained on the windows of a fold, for as many steps as the run's; none when it was stopped.
fn trained_on(
    resolved: &Resolved,
    session: &Session,
    fold: &Fold,
    dataset: &Dataset,
    panel: &WindowedPanel,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Session>, RunError> {
    let fold = fold.dataset(dataset, panel);
    let mut resolved = resolved.clone();
    // One smaller batch where the fold has fewer windows, which is not cut.
    resolved.training.accumulate = 1;
    let mut session = resolved.session(&session.engine, &fold)?;
    if let Some(init) = &resolved.settings.init {
        let weights = Pretrained::read(init)?;
        load_weights(&weights.source, &weights.file, &mut session)?;
    }
    for _ in 0..resolved.steps(&session) {
        if stop() {
            return Ok(None);
        }
        session.step()?;
    }
    Ok(Some(session))
}

/// Writes the weights of a linear network into the run's folder.
fn write_linear(
    resolved: &Resolved,
    session: &Session,
    dataset: &Dataset,
    folder: &RunFolder,
    (kind, linear): (ModelKind, Linear),
    fits: &[Fit],
) -> Result<(), RunError> {
    let Some(fit) = fits.first() else { return Ok(()) };
    let mut resolved = resolved.clone();
    resolved.network = linear.config();
    resolved.forget_covariates();
    let mut session = resolved.session(&session.engine, &dataset.without_known())?;
    linear.write(fit, &mut session)?;
    Ok(write_weights(&folder.weights(kind), &session)?)
}

/// The choice in words, with the best candidate of each kind.
fn described(
    winner: &Winner,
    tally: &Tally<'_>,
    (networks, (members, named)): (&[Network], (Members, Option<&str>)),
    forecaster: Forecaster,
    (plan, left_out, metric): (&Plan, Vec<String>, Metric),
) -> Choice {
    let scored = |c: &Candidate| {
        let network = c.network.and_then(|n| networks.get(n));
        let kind = network.map_or(ModelKind::Patchtst, |n| n.kind);
        let ridge = network.and_then(|n| n.linear.map(|(_, strength)| strength));
        let name = Forecaster::new(c, kind, ridge, Vec::new()).of_members(members, named).name();
        Scored { name, ridge, mse: c.mse, mase: c.mase, rmsse: c.rmsse }
    };
    let error = |c: &Scored| c.error(metric);
    let mut candidates: Vec<Scored> = Vec::new();
    for one in tally.candidates().iter().map(scored) {
        match candidates.iter_mut().find(|c| c.name == one.name) {
            Some(same) if error(&one) < error(same) => *same = one,
            Some(_) => {}
            None => candidates.push(one),
        }
    }
    let mut kinds: Vec<ModelKind> = networks.iter().map(|network| network.kind).collect();
    kinds.dedup();
    candidates.sort_by(|a, b| error(a).total_cmp(&error(b)));
    Choice {
        forecaster,
        metric,
        winner: scored(&winner.chosen),
        network: winner.network.as_ref().map(scored),
        baseline: scored(&winner.baseline),
        ensemble: winner.ensemble.as_ref().map(scored),
        left_out,
        networks: kinds,
        members,
        candidates,
        rolling: plan.rolling,
        validation_windows: plan.validation,
        windows: plan.scored(),
    }
}
