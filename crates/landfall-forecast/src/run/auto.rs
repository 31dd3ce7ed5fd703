//! The default recipe of a run: sizes from its data, and how its rows are divided for the choice of a forecaster.

use super::RunError;
use super::ensemble_choice::{EnsembleChoice, MOST_WORK};
use super::forecaster::linear;
use super::network_options::NetworkOptions;
use super::presets::{CANDIDATES, Preset};
use super::resolve::Resolved;
use super::settings::Settings;
use super::settings_error::SettingsError;
use super::words::Text;
use crate::choice::linear::Linear;
use crate::choice::{Asked, MANY, MIN_WINDOWS, Metric, Plan, Sizes};
use crate::data::{Panel, Segment, Series, Split, WindowedPanel};
use crate::ensemble::{Ensemble, Members, Reach};
use crate::models::{Columns, ModelKind, Reads};
use crate::train::{Dataset, Loss};

/// Those of them that the squared error fits without steps.
const LINEAR: [ModelKind; 2] = [ModelKind::Nlinear, ModelKind::Dlinear];

/// Validations of a run, spread evenly over its steps; of one that begins with weights that know series, and so takes few steps, at
/// most [`FEW_VALIDATIONS`].
const VALIDATIONS: usize = 20;
const FEW_VALIDATIONS: usize = 5;

impl Settings {
    /// These settings with the sizes of the default recipe where none was given.
    ///
    /// # Errors
    /// A split that is no partition.
    pub fn sized(&self, panel: &Panel, period: usize) -> Result<(Self, Sizes), RunError> {
        let mut s = self.clone();
        let horizon = *s.horizon.get_or_insert(if period > 1 { period.min(96) } else { 12 });
        let competing = s.members(horizon);
        let of = (competing, s.reach());
        if s.split.is_none() && competing != Members::None && has_too_many_windows(panel, horizon, of) {
            s.split = Some(LAST_ROWS.to_owned());
        }
        let split = s.split.as_deref().unwrap_or("0.7,0.1,0.2").parse()?;
        let pretrained = s.network_kind() == ModelKind::ZeroShot;
        let asked = Asked { context: s.context, by_itself: self.reads_columns_alone(), pretrained };
        let sizes = Sizes::new(panel, split, period, horizon, asked)?;
        s.context = Some(sizes.context);
        let members = s.members(horizon);
        let open =
            s.model.is_none() && s.candidates.is_none() && s.init.is_none() && members != Members::None;
        let few = open && s.reads_columns_alone() && has_few_windows(panel, split, horizon)?;
        let untested = !sizes.tested && self.has_point_forecasts() && self.has_networks();
        if few || untested {
            // Sizes of a network that is not trained are of no use. The ensemble is said, as it competes beside a model that is asked for only then.
            s.network =
                s.network.and_then(|n| n.columns).map(|columns| NetworkOptions::of_columns(Some(columns)));
            (s.model, s.candidates, s.ensemble) = (Some(ModelKind::Nlinear), None, Some(members));
        }
        if s.network_kind() == ModelKind::Patchtst {
            let network = s.network.get_or_insert_default();
            let patch = network.get_or_insert("patch", Sizes::patch(sizes.context).0);
            network.get_or_insert("stride", (patch / 2).max(1));
        }
        // A batch that was asked for leaves as many windows to see in all.
        let batch = *s.batch.get_or_insert(sizes.batch);
        if s.epochs.is_none() {
            s.max_steps.get_or_insert((sizes.steps * sizes.batch / batch.max(1)).max(1));
        }
        Ok((s, sizes))
    }

    /// Whether the network reads each column by itself.
    fn reads_columns_alone(&self) -> bool {
        let covariates = self.network.as_ref().and_then(|n| n.columns).is_some_and(|c| c.covariates());
        self.network_kind().config().reads() == Reads::EachColumn && !covariates
    }

    /// The network that the recipe builds: the one that was asked for, else the candidate that is trained by steps, else the
    /// first.
    pub(super) fn network_kind(&self) -> ModelKind {
        let candidates = self.candidates.as_deref().unwrap_or(&CANDIDATES);
        let trained = candidates.iter().find(|kind| !LINEAR.contains(kind)).or(candidates.first());
        // Where no network competes, the one that takes no steps is kept.
        self.model.or(trained.copied()).unwrap_or(ModelKind::Nlinear)
    }

    /// Whether a network of this kind is asked for.
    pub(crate) fn names(&self, kind: ModelKind) -> bool {
        self.model == Some(kind) || self.candidates.as_ref().is_some_and(|all| all.contains(&kind))
    }

    /// Refuses candidates that cannot compete.
    pub(super) fn check_candidates(&self, preset: &Preset) -> Result<(), SettingsError> {
        let Some(all) = &self.candidates else { return Ok(()) };
        let names: Vec<&str> = all.iter().map(|kind| kind.name()).collect();
        let refused = |rule: &'static str| {
            let (setting, value) = (Text::setting("candidates"), names.join(","));
            Err(SettingsError::Range { setting, value, rule: rule.into() })
        };
        let conflict = |second: Text, why: &'static str| {
            Err(SettingsError::Conflict { first: Text::setting("candidates"), second, why: why.into() })
        };
        if let Some(model) = self.model {
            return conflict(
                Text::given("model", model.name()),
                "that is the only candidate; leave one of them out",
            );
        }
        if !preset.is_auto() {
            return conflict(
                Text::given("preset", preset.name),
                "a preset is of one model; leave one of them out",
            );
        }
        if all.iter().any(|kind| !kind.config().forecasts()) {
            return refused("name networks that forecast rows, as in {candidates dlinear,nlinear}");
        }
        if all.is_empty() && !self.has_point_forecasts() {
            return Err(SettingsError::Conflict {
                first: "{candidates none}".into(),
                second: "another loss than mse".into(),
                why: "no network is left that has it; leave one of them out".into(),
            });
        }
        if all.iter().enumerate().any(|(i, kind)| all[..i].contains(kind)) {
            return refused("a network is named twice");
        }
        if all.iter().filter(|kind| !LINEAR.contains(kind)).count() > 1 {
            return refused(
                "at most one besides dlinear and nlinear, as one network of a run is trained by steps",
            );
        }
        if all.len() > 1 && !self.has_point_forecasts() {
            let why = "networks are compared by the squared error; give {model} to train one by another";
            return conflict("another loss than mse".into(), why);
        }
        Ok(())
    }

    /// The members of the ensemble that competes: it does where it is asked for or nobody said which networks do, a forecast is one
    /// value, and the ensemble has so many rows.
    fn members(&self, horizon: usize) -> Members {
        let members = self.ensemble.unwrap_or_default();
        let asked = self.ensemble.is_none() && (self.model.is_some() || self.candidates.is_some());
        let open =
            !asked && self.has_point_forecasts() && horizon <= Ensemble::most_rows(members, self.reach());
        if open { members } else { Members::None }
    }

    /// Whether networks compete.
    pub(crate) fn has_networks(&self) -> bool {
        self.model.is_some() || self.candidates.as_ref().is_none_or(|all| !all.is_empty())
    }

    /// Whether the squared error is minimised, so that a baseline, which has no quantiles, may be chosen.
    pub(super) fn has_point_forecasts(&self) -> bool {
        self.quantiles.is_none() && self.loss.as_deref().is_none_or(|loss| loss == "mse")
    }
}

impl Resolved {
    /// These settings with what follows from a panel: the seasonal period, unless one was given; by the default recipe
    /// the sizes.
    ///
    /// # Errors
    /// As [`Settings::sized`] and [`Settings::resolve`].
    pub fn sized(self, panel: &Panel) -> Result<Self, RunError> {
        if self.settings.period.is_none() {
            one_frequency(panel)?;
        }
        let period = panel.season().period;
        let known = panel.known().len();
        let past = panel.columns().len() - panel.targets() - known;
        let columns = Columns { targets: panel.targets(), past, known };
        let given = Settings { period: Some(period), ..self.given_for(columns) };
        if !self.is_default_recipe() {
            return given.resolve();
        }
        let (settings, sizes) = given.sized(panel, period)?;
        let mut resolved = settings.resolve()?.until(self.deadline);
        resolved.untested = !sizes.tested && given.has_point_forecasts();
        if let Some(init) = given.init.as_ref().filter(|_| resolved.untested) {
            return Err(SettingsError::Conflict {
                first: Text::given("init", init.display()),
                second: "so few rows".into(),
                why: Text::from("they have no room for a test window behind training rows, so that nothing is trained; ")
                    .and("a shorter {horizon} needs fewer, and the pretrained model forecasts as it is, without a run"),
            }
            .into());
        }
        if given.split.is_none() && matches!(resolved.split, Split::Last { .. }) {
            resolved.notes.push(tested_by_last_rows(panel, resolved.network.horizon()));
        }
        resolved.notes.extend(if resolved.untested {
            let forecast = resolved.members().name_with(resolved.settings.network_name());
            Some(untested(panel, resolved.network.horizon(), (resolved.members(), forecast)))
        } else {
            (given.context.is_none() && sizes.context < sizes.wanted).then(|| shortened(panel, sizes))
        });
        Ok(resolved)
    }

    /// These settings for data of these columns.
    ///
    /// # Errors
    /// As [`Settings::resolve`].
    pub fn for_columns(self, columns: Columns) -> Result<Self, RunError> {
        self.given_for(columns).resolve()
    }

    fn given_for(&self, columns: Columns) -> Settings {
        let mut given = (*self.given).clone();
        if let Some(network) = &mut given.network {
            // Those of another run's data.
            network.columns = None;
        }
        let tells_apart = matches!(self.network.reads(), Reads::Together(_));
        if columns.covariates() || tells_apart {
            given.network.get_or_insert_default().columns = Some(columns);
        }
        given
    }

    /// For a network that reads no covariates.
    pub(super) fn forget_covariates(&mut self) {
        if let Some(network) = &mut self.settings.network {
            network.columns = None;
        }
    }

    /// Whether sizes and forecaster follow from the data.
    #[must_use]
    pub fn is_default_recipe(&self) -> bool {
        self.settings.preset.as_deref() == Some(Preset::auto().name)
    }

    /// The error that chooses among forecasts of so many series and columns; the squared one where a preset says what forecasts.
    #[must_use]
    pub fn metric(&self, columns: usize) -> Metric {
        match self.is_default_recipe() {
            true => self.settings.metric.unwrap_or(Metric::usual(columns)),
            false => Metric::Mse,
        }
    }

    /// Whether a network is trained by steps: PatchTST, or any network with another loss than the squared error.
    #[must_use]
    pub fn trains(&self) -> bool {
        if self.untested || !self.has_networks() {
            return false;
        }
        let linear = LINEAR.contains(&self.network.kind());
        let ridge = linear && self.training.loss == Loss::Mse && !self.columns().covariates();
        !(self.is_default_recipe() && ridge)
    }

    /// Steps between validations in a run of the default recipe.
    #[must_use]
    pub fn validate_every(&self, plan: &Plan) -> Option<usize> {
        let steps = self.training.max_steps?;
        let few = self.network.kind() == ModelKind::ZeroShot;
        (!plan.rolling).then_some((steps / if few { FEW_VALIDATIONS } else { VALIDATIONS }).max(1))
    }

    /// Divides the windows of a panel for the choice. The dataset then has the windows that the network trains on:
    /// training and validation; with rolling origins all windows before the test rows, and none to validate.
    #[must_use]
    pub fn planned(&self, dataset: &Dataset, panel: &WindowedPanel) -> (Plan, Dataset) {
        // Where the last rows test, validation has few windows for each of many series, or too many for the ensemble.
        let last = matches!(self.split, Split::Last { .. });
        let rolling = last && self.has_ensemble() && panel.members().len() * panel.targets() >= MANY;
        let rolling = self.settings.compared.map_or(rolling, |same| same.rolling);
        let plan = Plan::new(panel, self.period, rolling);
        let test = panel.members().iter().map(|m| m.segments.windows(Segment::Test).starts()).collect();
        let (fit, score) = match plan.folds.as_slice() {
            [fold] if !plan.rolling => (fold.fit.clone(), fold.score.clone()),
            _ => (plan.all.clone(), vec![0..0; panel.members().len()]),
        };
        let dataset = dataset.with_starts(panel, &[fit, score, test]);
        (plan, dataset)
    }

    /// Whether a window of this dataset is trained on column by column, by the default recipe.
    pub(super) fn trains_by_column(&self, dataset: &Dataset) -> bool {
        self.is_default_recipe()
            && self.settings.reads_columns_alone()
            && dataset.holds_out()
            && dataset.known == 0
            && Sizes::is_wide(dataset.channels)
            && dataset.targets() == dataset.channels
    }

    /// The linear networks among the candidates: those that the squared error fits. With rolling origins, where few windows
    /// choose, DLinear is none of them unless it is asked for: it does not know the level of a window as the others do, and
    /// so wins by chance more often than it forecasts well.
    pub(super) fn linear(&self, rolling: bool) -> Vec<(ModelKind, Linear)> {
        let (context, horizon) = (self.network.context(), self.network.horizon());
        if self.untested {
            let linear = linear(ModelKind::Nlinear, context, horizon);
            return linear.map(|of| (ModelKind::Nlinear, of)).into_iter().collect();
        }
        let asked = |kind: &ModelKind| match (self.settings.model, &self.settings.candidates) {
            (Some(model), _) => model == *kind,
            (None, Some(candidates)) if candidates.is_empty() => *kind == ModelKind::Nlinear,
            (None, Some(candidates)) => candidates.contains(kind),
            (None, None) => *kind == ModelKind::Nlinear || !rolling,
        };
        // With covariates a linear candidate may be the one that is trained by steps.
        let trained = self.trains().then_some(self.network.kind());
        // A ridge regression knows no covariates: it is a candidate beside a network that does, and not what was asked for.
        let fits = self.training.loss == Loss::Mse
            && (self.settings.model.is_none() || !self.columns().covariates());
        LINEAR
            .into_iter()
            .filter(|kind| fits && asked(kind) && trained != Some(*kind))
            .filter_map(|kind| Some((kind, linear(kind, context, horizon)?)))
            .collect()
    }

    /// The members of the ensemble that competes ([`Settings::members`]).
    pub(super) fn members(&self) -> Members {
        match self.is_default_recipe() {
            true => self.settings.members(self.network.horizon()),
            false => Members::None,
        }
    }

    /// Whether an ensemble competes.
    pub(crate) fn has_ensemble(&self) -> bool {
        self.members() != Members::None
    }

    /// Whether networks compete. Where they do not, a run keeps an NLinear that has no part in its forecast.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.is_default_recipe() || self.settings.has_networks()
    }

    /// From one window to the next that each of these ensembles can score; 1 for one that has too many windows.
    #[must_use]
    pub fn scored_every(&self, panel: &WindowedPanel, plan: &Plan, all: &[Members]) -> usize {
        let stride = |members: &Members| {
            let mut of = self.clone();
            (of.settings.candidates, of.settings.ensemble) = (Some(Vec::new()), Some(*members));
            of.settings = of.settings.without_network_unless(Some(*members));
            EnsembleChoice::of(&of, panel, plan).stride(panel, plan)
        };
        all.iter().map(stride).max().unwrap_or(1)
    }

    /// Refuses a run that would be left without the ensemble that it is to forecast by alone.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`].
    pub fn check_alone(&self, panel: &WindowedPanel, plan: &Plan) -> Result<(), SettingsError> {
        let asked = self.settings.ensemble.filter(|members| *members != Members::None);
        let Some(members) = asked.filter(|_| !self.has_networks()) else { return Ok(()) };
        let ensemble = Text::given("ensemble", members.setting());
        if self.members() == Members::None {
            let most = Ensemble::most_rows(members, self.settings.reach());
            let why = format!("it forecasts at most {most} rows, and no network competes; give fewer");
            let second = Text::given("horizon", self.network.horizon());
            return Err(SettingsError::Conflict { first: ensemble, second, why: why.into() });
        }
        match EnsembleChoice::of(self, panel, plan).left_out {
            None => Ok(()),
            Some(_) => Err(SettingsError::Conflict {
                first: ensemble,
                second: "so many windows that validate and test".into(),
                why: Text::from("their forecasts would take it minutes, and no network competes; ")
                    .and("{split last} has fewer"),
            }),
        }
    }

    /// The network that is trained by steps.
    pub(crate) fn trained_kind(&self) -> ModelKind {
        self.settings.network_kind()
    }
}

/// Refuses series of two frequencies, each shown by evenly spaced rows.
fn one_frequency(panel: &Panel) -> Result<(), RunError> {
    /// Rows that show a frequency.
    const SHOWN: usize = 8;
    let even = |s: &'_ Series| {
        let spacing = s.dates().filter(|dates| dates.values().len() >= SHOWN)?.spacing();
        (spacing.uneven.is_none() && spacing.gaps.is_empty()).then_some(spacing.usual)
    };
    let mut all = panel.series().iter().filter_map(|s| Some((s.name(), even(s)?)));
    let Some((first, one)) = all.next() else { return Ok(()) };
    match all.find(|(_, other)| other.step() != one.step()) {
        None => Ok(()),
        Some((second, other)) => Err(RunError::TwoFrequencies {
            first: first.to_owned(),
            one: one.to_string(),
            second: second.to_owned(),
            other: other.to_string(),
        }),
    }
}

/// The split where all windows of a fifth of the rows are too much work.
const LAST_ROWS: &str = "last";

/// Whether the ensemble has too much work with the windows of validation and test, of many series by the usual split.
fn has_too_many_windows(panel: &Panel, horizon: usize, (members, reach): (Members, Reach)) -> bool {
    let work = |series: &Series| {
        let rows = series.rows();
        let windows = (rows / 10 + 1).saturating_sub(horizon) + (rows / 5 + 1).saturating_sub(horizon);
        panel.targets() * windows * Ensemble::work(members, reach, rows, horizon)
    };
    panel.series().len() * panel.targets() >= MANY
        && panel.series().iter().map(work).sum::<usize>() > MOST_WORK
}

/// Whether many series have too few windows for a network that is trained by steps to win: each so few that rolling origins choose.
fn has_few_windows(panel: &Panel, split: Split, horizon: usize) -> Result<bool, RunError> {
    let mut most = 0;
    for series in panel.series() {
        let [_, validation, _] = split.with_horizon(horizon).rows(series.rows())?;
        most = most.max((validation + 1).saturating_sub(horizon));
    }
    let many = panel.series().len() * panel.targets() >= MANY;
    Ok(many && (most < MIN_WINDOWS || matches!(split, Split::Last { .. })))
}

/// That the last rows test.
fn tested_by_last_rows(panel: &Panel, horizon: usize) -> Text {
    Text::plain(format!(
        "the last {horizon} rows of each of the {} series test: forecasts of all windows of a fifth of the rows would take minutes; ",
        panel.series().len()
    ))
    .and("{split} sets other test rows")
}

/// That there is no room for a test.
fn untested(panel: &Panel, horizon: usize, (members, name): (Members, String)) -> Text {
    let forecast = match (members, members.alone()) {
        (Members::None, _) => "the last season or the last value".to_owned(),
        (_, None) => "the ensemble's".to_owned(),
        (_, Some(_)) => format!("that of {name}"),
    };
    let rows = panel.series().iter().map(Series::rows).max().unwrap_or(0);
    let longest = if panel.series().len() > 1 { "the longest series has" } else { "there are" };
    Text::plain(format!(
        "{longest} {rows} rows, too few for a test window of {horizon} rows behind training rows: all rows train, nothing is tested, \
         and the forecast is {forecast}; a shorter "
    ))
    .and("{horizon}, or {split last}, needs fewer")
}

/// That the lookback window is shorter than it would be with more rows.
fn shortened(panel: &Panel, sizes: Sizes) -> Text {
    let Sizes { context, wanted, .. } = sizes;
    let of = match panel.series().len() {
        1 => "half of the training rows before a horizon are no more".to_owned(),
        n => format!("the shortest tenth of the {n} series has no room for more"),
    };
    Text::plain(format!("the lookback window is {context} rows, where {wanted} are usual: {of}; "))
        .and("{context} sets another")
}
