//! What settings amount to: data, model and session.

use super::RunError;
use super::network::OF_SAMPLES;
use super::resolve::{MAX_STEPS, Resolved, divides};
use super::settings_error::SettingsError;
use super::source::{Data, Source};
use super::values::{OneOrMore, ScalerTable};
use super::words::Text;
use crate::data::synthetic;
use crate::data::{
    Calendar, Covariates, DataError, Known, Member, Panel, Scaler, Scaling, Segment, TokenData, TokenError,
    TokenSegments, Validation, WindowedPanel,
};
use crate::models::{Columns, Model, OptionValue, Predicts, Reads};
use crate::nn::Family;
use crate::precision::products_on;
use crate::train::{Dataset, Loss, Session, TrainingOptions};
use landfall::ops::Precision as Products;
use landfall::{DeviceKind, Engine};

impl Resolved {
    /// Reads or generates the data.
    ///
    /// # Errors
    /// Whatever keeps it from being a series, with its place.
    pub fn load(&self) -> Result<Data, RunError> {
        self.load_from(&self.source)
    }

    /// As [`Resolved::load`], from another source than its own.
    pub(super) fn load_from(&self, source: &Source) -> Result<Data, RunError> {
        let panel = match source {
            Source::Files { paths, .. } if matches!(self.network.predicts(), Predicts::Classes(_)) => {
                let [path] = paths.as_slice() else {
                    return Err(DataError::from(TokenError::ManyFiles { count: paths.len() }).into());
                };
                return Ok(Data::Tokens(TokenData::read(path, self.settings.names.as_ref(), true)?));
            }
            Source::Assets { samples } => {
                let tokens = self.network.tokens().ok_or_else(|| self.reads_no_tokens())?;
                let (features, seed) = (self.network.context(), self.training.seed);
                return Ok(Data::Tokens(synthetic::assets(*samples, tokens, features, seed)?));
            }
            Source::Files { paths, read } => Panel::read(paths, read)?,
            Source::Demo { rows, channels } => synthetic::demo(*rows, *channels, self.training.seed)?.into(),
            Source::Walk { samples, channels } => {
                let walk = synthetic::walk(*samples, *channels, self.network.context(), self.training.seed)?;
                return Ok(Data::Walk(walk));
            }
        };
        let panel = panel.with_period(self.settings.period);
        Ok(Data::Series(self.arranged(panel)?))
    }

    /// A panel with its columns in the order of the run: those to forecast, then the covariates.
    pub(super) fn arranged(&self, panel: Panel) -> Result<Panel, DataError> {
        // What a run forecasts is steps of its data.
        if let Some(frequency) = &self.settings.frequency {
            panel.check_frequency(&frequency.0)?;
        }
        let panel = match &self.settings.target {
            Some(target) => panel.with_targets(target)?,
            None => panel,
        };
        match self.settings.covariates() {
            covariates if covariates == Covariates::default() => Ok(panel),
            covariates => panel.with_covariates(&covariates),
        }
    }

    /// Windows over series, each scaled by its training rows; the scalers, the columns, the seasonal period and where dates
    /// and series stand in a file become part of the settings.
    ///
    /// # Errors
    /// When the series are too short, or a value overflows when scaled.
    pub fn forecast(&mut self, panel: Panel) -> Result<(Dataset, WindowedPanel), RunError> {
        let (context, horizon) = (self.network.context(), self.network.horizon());
        let found = panel.found();
        let names = |names: &[String]| (!names.is_empty()).then(|| OneOrMore(names.to_vec()));
        let calendar: Vec<Calendar> = panel
            .known()
            .iter()
            .filter_map(|known| match known {
                Known::Calendar(feature) => Some(*feature),
                Known::Given | Known::Fixed => None,
            })
            .collect();
        let s = &mut self.settings;
        s.calendar = s.calendar.take().map(|_| calendar);
        s.series_id = s.series_id.take().or(names(&found.series_id));
        s.date_column = s.date_column.take().or(names(&found.date_column));
        s.date_format = s.date_format.take().or(found.date_format.clone());
        s.decimal = s.decimal.or(found.decimal);
        s.thousands = s.thousands.or(found.thousands);
        s.frequency = names(&panel.frequencies());
        let demands = match self.is_default_recipe() {
            true => (Validation::Optional, Scaling::Robust),
            false => (Validation::Required, Scaling::Standard),
        };
        let sizes = (context, horizon);
        let panel = if matches!(self.training.loss, Loss::Distribution(Family::NegativeBinomial, _)) {
            // A likelihood of counts is one of the counts themselves.
            counts(&panel)?;
            WindowedPanel::unscaled(panel, self.split, sizes, demands.0)?
        } else if self.untested {
            WindowedPanel::untested(panel, sizes)?
        } else {
            WindowedPanel::fit_with(panel, self.split, sizes, demands)?
        };
        let dataset = Dataset::windowed(&panel)?;
        self.settings.columns = Some(panel.columns().to_vec());
        // The season before is a forecast only where there is one.
        let needed = if self.is_default_recipe() { context.max(self.period) } else { context };
        let table = |m: &Member| ScalerTable::new(m.series.name(), &m.scaler, m.series.rows() < needed);
        let short = panel.short().iter().map(|s| ScalerTable::new(s.series.name(), &s.scaler, true));
        self.settings.scaler = Some(panel.members().iter().map(table).chain(short).collect());
        Ok((dataset, panel))
    }

    /// Samples of tokens, each token's features scaled by its training samples; sizes, names and scalers become part of
    /// the settings.
    ///
    /// # Errors
    /// Sizes that contradict those of the network; too few samples; a value that overflows when scaled.
    pub fn classify(&mut self, data: TokenData) -> Result<(Dataset, TokenData), RunError> {
        let names = &data.names;
        if self.network.tokens().is_none() {
            return Err(self.reads_no_tokens());
        }
        let network = self.settings.network.get_or_insert_default();
        let found = [names.tokens.len(), names.features.len(), names.classes.len()];
        for (what, found) in OF_SAMPLES.into_iter().zip(found) {
            let given = network.get_or_insert(what, found);
            if given != found {
                return Err(SettingsError::Conflict {
                    first: Text::option(what, Some(given.to_string())),
                    second: data.source.clone().into(),
                    why: format!("it has {found}; correct the number, or leave it out").into(),
                }
                .into());
            }
            self.network
                .set(what, OptionValue::Count(found))
                .map_err(|e| SettingsError::Network(e.to_string()))?;
        }
        self.network.check().map_err(SettingsError::Network)?;
        let segments = TokenSegments::new(&data, self.split)?;
        let scalers = data.fit(segments.samples(Segment::Train))?;
        let table = |(token, s): (&String, &Scaler)| ScalerTable::new(token, s, false);
        self.settings.scaler = Some(names.tokens.iter().zip(&scalers).map(table).collect());
        self.settings.names = Some(names.clone());
        let data = data.scaled(&scalers)?;
        Ok((Dataset::classification(&data, segments), data))
    }

    fn reads_no_tokens(&self) -> RunError {
        let preset = self.settings.preset.as_deref().unwrap_or_default();
        SettingsError::Conflict {
            first: "samples of tokens".into(),
            second: Text::given("preset", preset),
            why: "only a cross-asset reads them; give {model cross-asset}".into(),
        }
        .into()
    }

    /// Numbers of columns to forecast and of covariates; none where the model does not tell them apart.
    #[must_use]
    pub fn columns(&self) -> Columns {
        self.settings.network.as_ref().and_then(|n| n.columns).unwrap_or_else(|| match self.network.reads() {
            Reads::Together(columns) => columns,
            Reads::EachColumn | Reads::Labelled | Reads::Tokens(_) => Columns::default(),
        })
    }

    /// The model, with what is to be frozen frozen.
    ///
    /// # Errors
    /// A pattern that freezes nothing, patterns that freeze everything.
    pub fn model(&self) -> Result<Box<dyn Model>, SettingsError> {
        let mut model = self.network.build_for(&self.columns()).map_err(SettingsError::Network)?;
        for pattern in self.settings.freeze.iter().flatten() {
            if model.parameters_mut().freeze_containing(pattern) == 0 {
                let example = model.parameters().list().first().map_or(String::new(), |p| p.name.clone());
                return Err(SettingsError::FreezesNone { pattern: pattern.clone(), example });
            }
        }
        if model.parameters().trainable().is_empty() {
            return Err(SettingsError::AllFrozen);
        }
        Ok(model)
    }

    /// Why the kernels that the run pinned do not hold on an engine, if they do not: then a session takes the ops' own.
    ///
    /// # Errors
    /// A device fault.
    pub fn unpinned(&self, engine: &Engine) -> Result<Option<String>, RunError> {
        Ok(self.settings.kernels.as_ref().map_or(Ok(None), |choices| choices.foreign(engine))?)
    }

    /// A session that trains on this data, with the kernels that the run pinned, where they hold.
    ///
    /// # Errors
    /// More steps than a run can have; as [`Session::new`].
    pub fn session(&self, engine: &Engine, dataset: &Dataset) -> Result<Session, RunError> {
        if self.untested {
            return self.blank_session(engine, dataset);
        }
        let by_column;
        let dataset = match self.trains_by_column(dataset) {
            true => {
                by_column = dataset.by_column();
                &by_column
            }
            false => dataset,
        };
        let windows = dataset.span(Segment::Train).count;
        let per_epoch = (windows / self.training.batch.min(windows).max(1)).max(1);
        let steps = self.training.max_steps.unwrap_or(self.training.epochs.saturating_mul(per_epoch));
        if steps > MAX_STEPS {
            let setting = if self.training.max_steps.is_some() { "max_steps" } else { "epochs" };
            let value = self.training.max_steps.unwrap_or(self.training.epochs).to_string();
            return Err(SettingsError::Range {
                setting: Text::setting(setting),
                value,
                rule: "a run has at most 100,000,000 steps; give fewer".into(),
            }
            .into());
        }
        let batch = self.training.batch.min(windows).max(1);
        divides(self.training.accumulate, batch, format!("a batch of all {batch} training windows").into())?;
        let (context, horizon) = (self.network.context(), self.network.predicts().values());
        let training = TrainingOptions { products: self.products(engine.device())?, ..self.training.clone() };
        let engine = match &self.settings.kernels {
            Some(choices) if self.unpinned(engine)?.is_none() => &engine.with_choices(choices.clone()),
            Some(_) | None => engine,
        };
        Ok(Session::new(engine, self.model()?, dataset, context, horizon, training)?)
    }

    /// A session that neither trains nor has data, of a run that tests nothing.
    fn blank_session(&self, engine: &Engine, dataset: &Dataset) -> Result<Session, RunError> {
        let mut resolved = Self { untested: false, ..self.clone() };
        resolved.forget_covariates();
        let (context, horizon) = (self.network.context(), self.network.horizon());
        let mut blank = Dataset::blank(dataset.channels - dataset.known, context, horizon, 1);
        blank.target = dataset.target.clone();
        (resolved.training.accumulate, resolved.settings.freeze) = (1, None);
        resolved.session(engine, &blank)
    }

    /// How f32 products multiply on a device.
    fn products(&self, device: DeviceKind) -> Result<Products, SettingsError> {
        products_on(device, self.training.products).ok_or_else(|| SettingsError::Conflict {
            first: "{dtype tf32}".into(),
            second: "{device cpu}".into(),
            why: "TF32 is for products on CUDA devices; use {dtype f32} on the CPU".into(),
        })
    }

    /// What errors are in: scaled values; of counts, which are not scaled, original units.
    #[must_use]
    pub fn units(&self) -> &'static str {
        match &self.training.loss {
            Loss::Distribution(Family::NegativeBinomial, _) => "original units",
            Loss::Distribution(Family::Normal | Family::StudentT, _)
            | Loss::Mse
            | Loss::Mae
            | Loss::Huber(_)
            | Loss::Quantile(_)
            | Loss::CrossEntropy => SCALED,
        }
    }

    /// Updates of the whole run in this session.
    #[must_use]
    pub fn steps(&self, session: &Session) -> usize {
        self.training.max_steps.unwrap_or(self.training.epochs.saturating_mul(session.steps_per_epoch()))
    }
}

/// What errors are in, but of counts.
pub const SCALED: &str = "scaled";

/// The largest count: f32 has every whole number up to it.
const LARGEST_COUNT: f64 = 16_777_216.0;

/// Refuses a target that is no count.
fn counts(panel: &Panel) -> Result<(), RunError> {
    for series in panel.series() {
        for (column, values) in series.columns().iter().zip(series.values()).take(panel.targets()) {
            let is_count = |x: f64| (0.0..=LARGEST_COUNT).contains(&x) && x.fract() == 0.0;
            if let Some((row, &value)) = values.iter().enumerate().find(|(_, x)| !is_count(**x)) {
                let date = series.dates().and_then(|d| Some(d.format(*d.values().get(row)?)));
                let row = date.unwrap_or_else(|| format!("row {row}"));
                let (series, column) = (series.name().to_owned(), column.clone());
                return Err(RunError::NoCount { series, column, row, value });
            }
        }
    }
    Ok(())
}
