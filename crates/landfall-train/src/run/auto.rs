//! The default recipe of a run: sizes from its data, and how its rows are divided for the choice of a forecaster.

use super::RunError;
use super::forecaster::linear;
use super::kinds::ModelKind;
use super::resolve::Resolved;
use super::settings::Settings;
use crate::choice::linear::Linear;
use crate::choice::{Plan, Sizes};
use crate::data::{DataError, Panel, Segment, WindowedPanel};
use crate::models::{Columns, ModelConfig, Preset};
use crate::train::{Dataset, Loss};

/// Validations of a run, spread evenly over its steps.
const VALIDATIONS: usize = 20;

impl Settings {
    /// These settings with the sizes of the default recipe where none was given.
    ///
    /// # Errors
    /// A split that is no partition.
    pub fn sized(&self, panel: &Panel, period: usize) -> Result<Self, RunError> {
        let mut s = self.clone();
        let split = s.split.as_deref().unwrap_or("0.7,0.1,0.2").parse()?;
        let horizon = *s.horizon.get_or_insert(if period > 1 { period.min(96) } else { 12 });
        let sizes = Sizes::new(panel, split, period, horizon, s.context)?;
        s.context = Some(sizes.context);
        if matches!(s.model, None | Some(ModelKind::Patchtst)) {
            let network = s.network.get_or_insert_default();
            let patch = *network.patch.get_or_insert(Sizes::patch(sizes.context).0);
            network.stride.get_or_insert((patch / 2).max(1));
        }
        // A batch that was asked for leaves as many windows to see in all.
        let batch = *s.batch.get_or_insert(sizes.batch);
        if s.epochs.is_none() {
            s.max_steps.get_or_insert((sizes.steps * sizes.batch / batch.max(1)).max(1));
        }
        Ok(s)
    }
}

impl Resolved {
    /// These settings with what follows from a panel: the seasonal period, unless one was given; by the default recipe
    /// the sizes.
    ///
    /// # Errors
    /// As [`Settings::sized`] and [`Settings::resolve`].
    pub fn sized(self, panel: &Panel) -> Result<Self, RunError> {
        let period = panel.season().period;
        let known = panel.known().len();
        let past = panel.columns().len() - panel.targets() - known;
        let columns = Columns { targets: panel.targets(), past, known };
        let given = Settings { period: Some(period), ..self.given_for(columns) };
        let settings = if self.is_default_recipe() { given.sized(panel, period)? } else { given };
        settings.resolve()
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
        let tells_apart = matches!(self.network, ModelConfig::Tide(_) | ModelConfig::Tsmixer(_));
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
        self.settings.preset.as_deref() == Some(Preset::Auto.name())
    }

    /// Whether a network is trained by steps: PatchTST, or any network with another loss than the squared error.
    #[must_use]
    pub fn trains(&self) -> bool {
        let linear = matches!(self.network, ModelConfig::Nlinear(_) | ModelConfig::Dlinear(_));
        let ridge = linear && self.training.loss == Loss::Mse && !self.columns().covariates();
        !(self.is_default_recipe() && ridge)
    }

    /// Steps between validations in a run of the default recipe.
    #[must_use]
    pub fn validate_every(&self, plan: &Plan) -> Option<usize> {
        let steps = self.training.max_steps?;
        (!plan.rolling).then_some((steps / VALIDATIONS).max(1))
    }

    /// Divides the windows of a panel for the choice. The dataset then has the windows that the network trains on:
    /// training and validation; with rolling origins all windows before the test rows, and none to validate.
    ///
    /// # Errors
    /// [`DataError::BadPeriod`] for a seasonal period with no window behind it to choose by,
    /// [`RunError::NothingToChooseBy`] where there is none at all.
    pub fn planned(&self, dataset: &Dataset, panel: &WindowedPanel) -> Result<(Plan, Dataset), RunError> {
        let (plan, horizon) = (Plan::new(panel, self.period), self.network.horizon());
        if plan.scored() == 0 {
            // The last window to choose by is forecast from these rows.
            let rows = panel.members().iter().map(|m| {
                let context = m.segments.windows(Segment::Train).context();
                (m.segments.rows(Segment::Test).start + context).saturating_sub(horizon)
            });
            let (period, history) = (self.period, rows.max().unwrap_or(0));
            return Err(if history < period {
                DataError::BadPeriod { period, history }.into()
            } else {
                RunError::NothingToChooseBy { windows: plan.validation, horizon }
            });
        }
        let test = panel.members().iter().map(|m| m.segments.windows(Segment::Test).starts()).collect();
        let (fit, score) = match plan.folds.as_slice() {
            [fold] if !plan.rolling => (fold.fit.clone(), fold.score.clone()),
            _ => (plan.all.clone(), vec![0..0; panel.members().len()]),
        };
        let dataset = dataset.with_starts(panel, &[fit, score, test]);
        Ok((plan, dataset))
    }

    /// The linear networks among the candidates: those that the squared error fits. With rolling origins, where few windows
    /// choose, DLinear is none of them unless it is asked for: it does not know the level of a window as the others do, and
    /// so wins by chance more often than it forecasts well.
    pub(super) fn linear(&self, rolling: bool) -> Vec<(ModelKind, Linear)> {
        let (context, horizon) = (self.network.context(), self.network.horizon());
        let asked = |kind: &ModelKind| match self.settings.model {
            Some(model) => model == *kind,
            None => *kind == ModelKind::Nlinear || !rolling,
        };
        // A ridge regression knows no covariates: it is a candidate beside a network that does, and not what was asked for.
        let fits = self.training.loss == Loss::Mse
            && (self.settings.model.is_none() || !self.columns().covariates());
        [ModelKind::Nlinear, ModelKind::Dlinear]
            .into_iter()
            .filter(|kind| fits && asked(kind))
            .filter_map(|kind| Some((kind, linear(kind, context, horizon)?)))
            .collect()
    }

    /// The network that is trained by steps.
    pub(crate) fn trained_kind(&self) -> ModelKind {
        self.settings.model.unwrap_or(ModelKind::Patchtst)
    }
}
