//! The choice of what a run forecasts with, by validation or by rolling origins.

use super::forecaster::{Forecaster, floors, non_negative};
use super::resolve::Resolved;
use super::settings::ModelKind;
use super::{RunError, RunFolder};
use crate::checkpoint::{load_weights, write_weights};
use crate::choice::linear::{Linear, origins};
use crate::choice::{Candidate, Fit, Fold, Origin, Plan, STRENGTHS, Tally, Winner};
use crate::data::{Baseline, Segment, WindowedPanel};
use crate::pretrained::Pretrained;
use crate::train::{Dataset, Session};
use landfall::Engine;
use serde::Serialize;

/// Validation and rolling origins score at most about so many values of a target column: more are sampled evenly.
const VALUES: usize = 2_000_000;

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
}

/// What was chosen, and from what: the run directory's `choice.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// What the run forecasts with.
    pub forecaster: Forecaster,
    /// What it is called.
    pub winner: Scored,
    /// The best network on its own.
    pub network: Option<Scored>,
    /// The better baseline.
    pub baseline: Scored,
    /// The best candidate of each network and baseline, the smallest error first.
    pub candidates: Vec<Scored>,
    /// Whether rolling origins took validation's place.
    pub rolling: bool,
    /// Validation windows of the longest series.
    pub validation_windows: usize,
    /// Windows that candidates were scored on.
    pub windows: usize,
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
    for (kind, linear) in resolved.linear(plan.rolling) {
        networks.extend(STRENGTHS.map(|strength| Network { kind, linear: Some((linear, strength)) }));
    }
    let non_negative = non_negative(panel);
    let floors = floors(panel, &non_negative);
    let baselines = [Baseline::LastValue, Baseline::SeasonalNaive { period: resolved.period }];
    let baselines = &baselines[..if resolved.period > 1 { 2 } else { 1 }];
    let mut tally = Tally::new(dataset, horizon, baselines, &floors);
    let every = (plan.scored() * horizon).div_ceil(VALUES).max(1);
    for fold in &plan.folds {
        let all = origins(panel, &fold.score);
        let some: Vec<Origin> = all.iter().copied().step_by(every).collect();
        tally.score_baselines(&some);
        let fit_on = origins(panel, &fold.fit);
        for (kind, linear) in resolved.linear(plan.rolling) {
            let fits = linear.fit(&cpu, dataset, &fit_on, &STRENGTHS)?;
            for (number, network) in networks.iter().enumerate() {
                let Some((_, strength)) = network.linear.filter(|_| network.kind == kind) else { continue };
                if let Some(fit) = fits.iter().find(|f| f.strength == strength) {
                    tally.score_network(number, &some, &linear.predict(&cpu, dataset, &some, fit)?);
                }
            }
        }
        if !resolved.trains() {
            continue;
        }
        let scored = if plan.rolling {
            let Some(mut session) = trained_on(resolved, session, fold, dataset, panel, stop)? else {
                return Ok(None);
            };
            score_trained(&mut session, resolved, &mut tally, &some, (dataset.targets(), every))
        } else {
            score_trained(session, resolved, &mut tally, &some, (dataset.targets(), every))
        };
        scored?;
    }
    let Some(winner) = tally.winner() else {
        return Err(RunError::NothingToChooseBy { windows: plan.validation, horizon });
    };
    let mut winner = winner;
    if let (Some(network), false) = (winner.network, resolved.training.loss.levels().is_empty()) {
        // A baseline has no quantiles.
        winner.chosen = network;
    }
    let kept = winner.chosen.network.or_else(|| winner.network.and_then(|n| n.network));
    let (kind, linear) =
        kept.map_or((resolved.trained_kind(), None), |n| (networks[n].kind, networks[n].linear));
    if let Some((linear, strength)) = linear {
        let fits = linear.fit(&cpu, dataset, &origins(panel, &plan.all), &[strength])?;
        write_linear(resolved, session, dataset, folder, (kind, linear), &fits)?;
    }
    let forecaster =
        Forecaster::new(&winner.chosen, kind, linear.map(|(_, strength)| strength), non_negative);
    Ok(Some(described(&winner, &tally, &networks, forecaster, plan)))
}

/// Adds the errors of the trained network: those of its point forecasts of every `every`-th validation window.
fn score_trained(
    session: &mut Session,
    resolved: &Resolved,
    tally: &mut Tally<'_>,
    origins: &[Origin],
    (targets, every): (usize, usize),
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
    networks: &[Network],
    forecaster: Forecaster,
    plan: &Plan,
) -> Choice {
    let scored = |c: &Candidate| {
        let network = c.network.and_then(|n| networks.get(n));
        let kind = network.map_or(ModelKind::Patchtst, |n| n.kind);
        let ridge = network.and_then(|n| n.linear.map(|(_, strength)| strength));
        let name = Forecaster::new(c, kind, ridge, Vec::new()).name();
        Scored { name, ridge, mse: c.mse }
    };
    let mut candidates: Vec<Scored> = Vec::new();
    for one in tally.candidates().iter().map(scored) {
        match candidates.iter_mut().find(|c| c.name == one.name) {
            Some(same) if one.mse < same.mse => *same = one,
            Some(_) => {}
            None => candidates.push(one),
        }
    }
    candidates.sort_by(|a, b| a.mse.total_cmp(&b.mse));
    Choice {
        forecaster,
        winner: scored(&winner.chosen),
        network: winner.network.as_ref().map(scored),
        baseline: scored(&winner.baseline),
        candidates,
        rolling: plan.rolling,
        validation_windows: plan.validation,
        windows: plan.scored(),
    }
}
