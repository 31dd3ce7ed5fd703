//! From settings to what a run is made of: network, options and data, checked before anything is written.

use super::device::Device;
use super::error::RunError;
use super::kinds::Synthetic;
use super::network::has_statistics;
use super::presets::{Preset, Recipe};
use super::settings::Settings;
use super::settings_error::SettingsError;
use super::source::Source;
use super::words::Text;
use crate::data::{Calendar, Covariates, Fill, Purpose, ReadOptions, Split};
use crate::models::{ModelConfig, ModelKind, OptionValue, Predicts, Reads};
use crate::nn::Family;
use crate::precision::Precision;
use crate::pretrained::SHIPPED;
use crate::train::{Betas, Draws, Loss, Order, Schedule, TrainingOptions};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How often a run writes its checkpoint: when either limit is reached, counted from the last one. The results of a run
/// do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckpointEvery {
    /// Updates from one checkpoint to the next, at least 1.
    pub steps: usize,
    /// Minutes from one checkpoint to the next, above 0.
    pub minutes: f64,
}

impl Default for CheckpointEvery {
    /// One minute: so much work at most is lost when a run is killed.
    fn default() -> Self {
        Self { steps: usize::MAX, minutes: 1.0 }
    }
}

/// Settings that fit together, and what they amount to.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The settings as they were given.
    pub given: Box<Settings>,
    /// Every setting with its value: a run directory's `config.toml`.
    pub settings: Settings,
    /// The network.
    pub network: ModelConfig,
    /// What a step does.
    pub training: TrainingOptions,
    /// Where the data comes from.
    pub source: Source,
    /// How its rows are divided.
    pub split: Split,
    /// Seasonal period in rows: the one that was given, or that of the data once it is read ([`Resolved::sized`]).
    pub period: usize,
    /// Steps between logged ones.
    pub log_every: usize,
    /// How often the last state is written.
    pub checkpoint: CheckpointEvery,
    /// Validations without a better one after which training ends.
    pub patience: Option<usize>,
    /// Whether the data has no room for a window that tests, so that no network is trained.
    pub untested: bool,
    /// What of these follows from the data and has to be known, a sentence each.
    pub notes: Vec<Text>,
    /// When it shall end, of a run with a time limit.
    pub deadline: Option<Instant>,
    /// Candidates that there is no time for, and why.
    pub dropped: Vec<String>,
}

/// Above this many steps the table of learning rates alone would fill the memory.
pub(super) const MAX_STEPS: usize = 100_000_000;

/// Quantiles of a distribution that are forecast where none are asked for.
const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

/// Checks levels of intervals: percent, each once.
///
/// # Errors
/// [`SettingsError::Range`].
pub fn interval_levels(levels: &[f64]) -> Result<(), SettingsError> {
    let text = || levels.iter().map(|l| format!("{l}")).collect::<Vec<_>>().join(",");
    let refused = |rule: &'static str| {
        let setting = Text::setting("interval");
        Err(SettingsError::Range { setting, value: text(), rule: rule.into() })
    };
    match levels {
        // A level so near 100 that its bounds are quantiles of 0 and 1 has none.
        all if all.iter().any(|l| !(0.0 < *l && 0.5 + *l / 200.0 < 1.0)) => {
            refused("levels are percent, above 0 and below 100, as in {interval 80,95}")
        }
        all if all.iter().any(|l| *l < 1.0) => refused("levels are percent: write 80, not 0.8"),
        all if all.iter().enumerate().any(|(i, l)| all[..i].contains(l)) => refused("a level is given twice"),
        _ => Ok(()),
    }
}

impl Settings {
    /// Fills in what is left out and checks that everything fits together.
    ///
    /// # Errors
    /// The first setting that is out of range or contradicts another, by name.
    pub fn resolve(&self) -> Result<Resolved, RunError> {
        self.check_ranges()?;
        let (model, preset) = self.preset()?;
        self.check_candidates(preset)?;
        self.check_pretrained(preset)?;
        if let Some(limit) = self.time_limit.filter(|_| !preset.is_auto()) {
            let why = "a preset is one recipe, which has its length; leave one of them out";
            let (first, second) = (Text::given("time_limit", limit), Text::given("preset", preset.name));
            return Err(conflict(first, second, why).into());
        }
        let source = self.source(model)?;
        let recipe = &preset.recipe;
        let training = self.training(model, recipe)?;
        let network = self.network(model, preset, training.loss.parameters())?;
        has_statistics(model, &network, &training)?;
        let given = self.with_known_network()?;
        given.check_rows_of_network(network.horizon())?;
        if !training.loss.levels().is_empty() && network.predicts() == Predicts::Value {
            let why = "it predicts one value for a window; leave one of them out";
            return Err(with_model("{quantiles}", model, why).into());
        }
        if let Some(levels) = self.interval.as_deref() {
            interval_levels(levels)?;
            if !network.forecasts() {
                let why = "it forecasts no rows of a series; leave one of them out";
                return Err(with_model("{interval}", model, why).into());
            }
        }
        // The default recipe validates several times in a given number of steps; presets do it once, at the end.
        let validated_once = !preset.is_auto() && self.max_steps.is_some();
        let patience = self.patience.or(recipe.patience).filter(|&n| n > 0 && !validated_once);
        if let (Some(n), Some(steps), true) =
            (self.patience.filter(|&n| n > 0), self.max_steps, validated_once)
        {
            let why = "a run of so many steps is validated once, at its end; use {epochs}";
            return Err(conflict(Text::given("patience", n), Text::given("max_steps", steps), why).into());
        }
        let split: Split = self.split.as_deref().unwrap_or("0.7,0.1,0.2").parse()?;
        let split = split.with_horizon(network.horizon());
        let period = self.period.unwrap_or(24);
        let log_every = self.log_every.unwrap_or(50);
        let mut checkpoint = CheckpointEvery::default();
        checkpoint.steps = self.checkpoint_every.unwrap_or(checkpoint.steps);
        let mut settings = given.clone();
        settings.version = Some(Settings::VERSION);
        settings.fill_in(model, preset, &network, &training, &source);
        settings.split = Some(split.to_string());
        settings.period = self.period;
        settings.log_every = Some(log_every);
        settings.patience = Some(patience.unwrap_or(0));
        Ok(Resolved {
            given: Box::new(given),
            settings,
            network,
            training,
            source,
            split,
            period,
            log_every,
            checkpoint,
            patience,
            untested: false,
            notes: Vec::new(),
            deadline: None,
            dropped: Vec::new(),
        })
    }

    fn preset(&self) -> Result<(ModelKind, &'static Preset), SettingsError> {
        let generated = match self.synthetic {
            Some(Synthetic::Walk) => Some(ModelKind::WindowRegressor),
            Some(Synthetic::Assets) => Some(ModelKind::CrossAsset),
            Some(Synthetic::Demo) | None => None,
        };
        let model = self.model.or(generated);
        let preset = match (&self.preset, model.filter(|kind| !kind.config().forecasts())) {
            (Some(name), _) => Preset::named(name).ok_or_else(|| SettingsError::Unknown {
                key: "preset",
                value: name.clone(),
                known: Preset::ALL.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
            })?,
            (None, Some(other)) => Preset::of(other),
            (None, None) => Preset::auto(),
        };
        match self.model {
            Some(model) if preset.is_auto() && model.config().forecasts() => Ok((model, preset)),
            Some(model) if model != preset.kind() => Err(SettingsError::Conflict {
                first: Text::given("model", model.name()),
                second: Text::given("preset", preset.name),
                why: format!("that preset is a {}; leave one of them out", preset.kind().name()).into(),
            }),
            None if preset.is_auto() => Ok((self.network_kind(), preset)),
            Some(_) | None => Ok((preset.kind(), preset)),
        }
    }

    /// The first setting of how files of series are read that is given.
    fn of_files(&self) -> Option<&'static str> {
        self.given().find(|setting| setting.facts.of_files).map(|setting| setting.name)
    }

    /// The first of some settings that is given.
    fn first_of(&self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.is_given(name))
    }

    fn source(&self, model: ModelKind) -> Result<Source, RunError> {
        let labelled = model.config().reads() == Reads::Labelled;
        if model.config().tokens().is_some() {
            let others = ["columns", "target", "channels", "known_future", "calendar"];
            if let Some(name) = self.of_files().or_else(|| self.first_of(&others)) {
                let why = "it belongs to series, and this model reads samples of tokens; leave it out";
                return Err(conflict(Text::setting(name), Text::given("model", model.name()), why).into());
            }
        }
        if let Some(super::values::OneOrMore(paths)) = &self.data {
            if let Some(name) = self.first_of(&["synthetic", "samples", "channels"]) {
                let why = "it sizes generated data; leave it out ({columns} chooses columns of the file)";
                return Err(conflict(Text::setting(name), "{data}", why).into());
            }
            if labelled {
                let why = "a CSV has no labels of windows; use {synthetic walk}";
                return Err(conflict(Text::given("model", model.name()), "{data}", why).into());
            }
            let fill = self.fill.as_deref().map(str::parse::<Fill>).transpose()?;
            let read = ReadOptions {
                columns: self.file_columns(),
                fill,
                fill_gaps: self.fill_gaps == Some(true),
                series_id: self.series_id.clone().map(|names| names.0),
                date_column: self.date_column.clone().map(|names| names.0),
                date_format: self.date_format.clone(),
                separator: self.separator,
                decimal: self.decimal,
                thousands: self.thousands,
                categorical: self.categorical.clone().map_or_else(Vec::new, |names| names.0),
                fixed: self.fixed.clone().map_or_else(Vec::new, |names| names.0),
                named: [&self.known_future, &self.fixed, &self.categorical]
                    .into_iter()
                    .flatten()
                    .flat_map(|names| names.0.clone())
                    .collect(),
                targets: self.target.is_some(),
                purpose: if self.scaler.is_some() { Purpose::Again } else { Purpose::NewRun },
                most: None,
            };
            return Ok(Source::Files { paths: paths.clone(), read: Box::new(read) });
        }
        // A run of generated data lists its columns too.
        let columns = self.scaler.is_none().then(|| self.first_of(&["columns"])).flatten();
        if let Some(name) = self.of_files().or(columns) {
            let why = "it belongs to a file; give {data} too";
            return Err(conflict(Text::setting(name), "generated data", why).into());
        }
        if labelled && self.covariates() != Covariates::default() {
            let why = "it predicts the label of a window and has no covariates; leave them out";
            return Err(with_model("covariates", model, why).into());
        }
        if labelled && self.target.is_some() {
            let why = "it predicts the label of a window, no column; leave it out";
            return Err(with_model("{target}", model, why).into());
        }
        let reads = model.config().reads();
        let refused = |made: Synthetic, why: &'static str| {
            let model = Text::given("model", model.name());
            Err(conflict(model, Text::given("synthetic", made.name()), why).into())
        };
        match (reads, self.synthetic) {
            (Reads::EachColumn | Reads::Together(_), None | Some(Synthetic::Demo)) => {
                Ok(Source::Demo { rows: self.samples.unwrap_or(6000), channels: self.channels.unwrap_or(7) })
            }
            (Reads::Labelled, None | Some(Synthetic::Walk)) => Ok(Source::Walk {
                samples: self.samples.unwrap_or(5000),
                channels: self.channels.unwrap_or(10),
            }),
            (Reads::Tokens(_), None | Some(Synthetic::Assets)) => {
                Ok(Source::Assets { samples: self.samples.unwrap_or(23_441) })
            }
            (_, Some(made @ Synthetic::Walk)) => {
                refused(made, "walks have one label each and no future rows; use {model window-regressor}")
            }
            (_, Some(made @ Synthetic::Assets)) => {
                refused(made, "the samples have classes and no rows in time; use {model cross-asset}")
            }
            (Reads::Labelled, Some(made @ Synthetic::Demo)) => {
                refused(made, "the series has no labels of windows; use {synthetic walk}")
            }
            (Reads::Tokens(_), Some(made @ Synthetic::Demo)) => {
                refused(made, "the series has no classes; use {synthetic assets}")
            }
        }
    }

    /// The columns to read of a file: those of the calendar, which a run lists too, follow from the dates.
    pub(super) fn file_columns(&self) -> Option<Vec<String>> {
        let made = |column: &String| {
            self.calendar.is_some() && Calendar::ALL.iter().any(|feature| feature.column() == *column)
        };
        Some(self.columns.as_ref()?.iter().filter(|column| !made(column)).cloned().collect())
    }

    /// What is minimised.
    fn loss(&self, model: ModelKind) -> Result<Loss, SettingsError> {
        if self.huber_delta.is_some() && self.loss.as_deref() != Some("huber") {
            let why = "it belongs to that loss; give {loss huber}, or leave it out";
            return Err(conflict("{huber_delta}", "another loss than huber", why));
        }
        let given = || self.loss.as_ref().map_or("{quantiles}".into(), |loss| Text::given("loss", loss));
        match (model.config().predicts(), self.loss.as_deref(), &self.quantiles) {
            (Predicts::Classes(_), None | Some("cross-entropy"), None) => return Ok(Loss::CrossEntropy),
            (Predicts::Classes(_), ..) => {
                let why = "it predicts classes, by the cross-entropy; leave it out";
                return Err(with_model(given(), model, why));
            }
            (_, Some("cross-entropy"), _) => {
                let why = "it is of classes; use {model cross-asset}";
                return Err(with_model(given(), model, why));
            }
            _ => {}
        }
        let ascending = |levels: &[f64]| {
            levels.windows(2).all(|pair| pair[0] < pair[1]) && levels.iter().all(|l| 0.0 < *l && *l < 1.0)
        };
        let text = |levels: &[f64]| levels.iter().map(|l| format!("{l:?}")).collect::<Vec<_>>().join(",");
        let family = [Family::Normal, Family::StudentT, Family::NegativeBinomial]
            .into_iter()
            .find(|family| self.loss.as_deref() == Some(family.name()));
        if let Some(family) = family {
            let levels = self.quantiles.clone().unwrap_or_else(|| LEVELS.to_vec());
            if levels.is_empty() || !ascending(&levels) {
                let rule = "they must be between 0 and 1, ascending";
                return Err(out_of_range("quantiles", text(&levels), rule));
            }
            return Ok(Loss::Distribution(family, levels));
        }
        if let Some(levels) = &self.quantiles {
            if self.loss.as_deref().is_some_and(|loss| loss != "quantile") {
                let why = "quantiles are trained by the quantile loss; leave one of them out";
                return Err(conflict("{quantiles}", given(), why));
            }
            if !(ascending(levels) && levels.contains(&0.5)) {
                let rule =
                    "they must be between 0 and 1, ascending, with 0.5 (the point forecast) among them";
                return Err(out_of_range("quantiles", text(levels), rule));
            }
            return Ok(Loss::Quantile(levels.clone()));
        }
        match self.loss.as_deref() {
            None | Some("mse") => Ok(Loss::Mse),
            Some("mae") => Ok(Loss::Mae),
            Some("huber") => Ok(Loss::Huber(self.huber_delta.unwrap_or(1.0))),
            Some("quantile") => {
                let why = "it needs levels; give them, as in {quantiles 0.1,0.5,0.9}";
                Err(conflict("{loss quantile}", Text::from("no {quantiles}"), why))
            }
            Some(other) => Err(SettingsError::Unknown {
                key: "loss",
                value: other.to_owned(),
                known: "mse, mae, huber, quantile, normal, student-t, negative-binomial, cross-entropy"
                    .to_owned(),
            }),
        }
    }

    fn training(&self, model: ModelKind, recipe: &Recipe) -> Result<TrainingOptions, SettingsError> {
        if let (Some(epochs), Some(steps)) = (self.epochs, self.max_steps) {
            let why = "both say how long the run is; leave one of them out";
            return Err(conflict(Text::given("epochs", epochs), Text::given("max_steps", steps), why));
        }
        let schedule = self.schedule.unwrap_or(recipe.schedule);
        let optimizer = self.optimizer.unwrap_or(recipe.optimizer);
        // The official recipe's 0.95 is a side effect of a one-cycle schedule that it creates and does not use.
        let usual = optimizer.betas();
        let first = if schedule == Schedule::Official { 0.95 } else { usual.first };
        let [first, second] = self.betas.unwrap_or([first, usual.second]);
        let same = optimizer == recipe.optimizer;
        let decay = if same { recipe.weight_decay } else { optimizer.weight_decay() };
        let clip = self.clip.unwrap_or(recipe.clip.unwrap_or(0.0));
        let draws = self.draws.unwrap_or(recipe.draws);
        if draws == Draws::PyTorch && model != ModelKind::Dlinear {
            let why = "only dlinear's layers are drawn there as they are here; leave it out";
            return Err(with_model("{draws pytorch}", model, why));
        }
        let (dtype, products) = self.dtype.unwrap_or(Precision::F32).parts();
        let batch = self.batch.unwrap_or(recipe.batch);
        let accumulate = self.accumulate.unwrap_or(1);
        divides(accumulate, batch, Text::given("batch", batch))?;
        Ok(TrainingOptions {
            batch,
            accumulate,
            epochs: self.epochs.unwrap_or(recipe.epochs),
            max_steps: self.max_steps,
            lr: self.lr.unwrap_or(recipe.lr),
            schedule,
            optimizer,
            betas: Betas { first, second },
            shard_optimizer: self.shard_optimizer.unwrap_or(false),
            sync_batch_norm: self.sync_batch_norm.unwrap_or(false),
            rank_order: self.rank_order.unwrap_or(false),
            average: None,
            weight_decay: self.weight_decay.unwrap_or(decay),
            clip: (clip > 0.0).then_some(clip),
            dtype,
            products,
            seed: self.seed.unwrap_or(2021),
            order: self.order.unwrap_or(Order::Shuffle),
            draws,
            loss: self.loss(model)?,
        })
    }

    fn fill_in(
        &mut self,
        model: ModelKind,
        preset: &Preset,
        n: &ModelConfig,
        t: &TrainingOptions,
        source: &Source,
    ) {
        // Without a model the default recipe chooses among all.
        self.model = self.model.or((!preset.is_auto()).then_some(model));
        self.preset = Some(preset.name.to_owned());
        match source {
            // The run may be opened from another folder than it was started in.
            Source::Files { paths, .. } => {
                let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
                self.data = Some(super::values::OneOrMore(paths.iter().map(absolute).collect()));
            }
            Source::Demo { rows, channels } => {
                (self.synthetic, self.samples, self.channels) =
                    (Some(Synthetic::Demo), Some(*rows), Some(*channels));
            }
            Source::Walk { samples, channels } => {
                (self.synthetic, self.samples, self.channels) =
                    (Some(Synthetic::Walk), Some(*samples), Some(*channels));
            }
            Source::Assets { samples } => {
                (self.synthetic, self.samples) = (Some(Synthetic::Assets), Some(*samples));
            }
        }
        let weights = [&mut self.init, &mut self.pretrained].into_iter().flatten();
        for path in weights.filter(|path| **path != Path::new(SHIPPED)) {
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
        if !matches!(n.predicts(), Predicts::Classes(_)) {
            (self.context, self.horizon) = (Some(n.context()), Some(n.horizon()));
        }
        if t.max_steps.is_none() {
            self.epochs = Some(t.epochs);
        }
        (self.batch, self.lr, self.schedule, self.optimizer) =
            (Some(t.batch), Some(t.lr), Some(t.schedule), Some(t.optimizer));
        self.accumulate = (t.accumulate > 1).then_some(t.accumulate);
        self.shard_optimizer = t.shard_optimizer.then_some(true);
        self.sync_batch_norm = t.sync_batch_norm.then_some(true);
        self.rank_order = t.rank_order.then_some(true);
        self.betas = Some([t.betas.first, t.betas.second]);
        (self.weight_decay, self.clip) = (Some(t.weight_decay), Some(t.clip.unwrap_or(0.0)));
        self.dtype = Some(self.dtype.unwrap_or(Precision::F32));
        self.device = Some(self.device.unwrap_or(Device::Auto));
        (self.seed, self.order, self.draws) = (Some(t.seed), Some(t.order), Some(t.draws));
        let loss = match &t.loss {
            Loss::Mse => "mse",
            Loss::Mae => "mae",
            Loss::Huber(delta) => {
                self.huber_delta = Some(*delta);
                "huber"
            }
            Loss::Quantile(_) => "quantile",
            Loss::Distribution(family, levels) => {
                self.quantiles = Some(levels.clone());
                family.name()
            }
            Loss::CrossEntropy => "cross-entropy",
        };
        self.loss = Some(loss.to_owned());
        self.network = Some(self.filled(n, source));
        if let Some(OptionValue::Number(dropout)) = n.value("dropout") {
            self.dropout = Some(dropout);
        }
    }
}

/// Two settings that exclude each other.
fn conflict(first: impl Into<Text>, second: impl Into<Text>, why: impl Into<Text>) -> SettingsError {
    SettingsError::Conflict { first: first.into(), second: second.into(), why: why.into() }
}

/// A setting that a model has no use for.
fn with_model(first: impl Into<Text>, model: ModelKind, why: &'static str) -> SettingsError {
    conflict(first, Text::given("model", model.name()), why)
}

fn out_of_range(setting: &'static str, value: String, rule: &'static str) -> SettingsError {
    SettingsError::Range { setting: Text::setting(setting), value, rule: rule.into() }
}

/// Checks that a batch can be cut into so many micro-batches of one size.
pub(super) fn divides(accumulate: usize, batch: usize, second: Text) -> Result<(), SettingsError> {
    if batch.is_multiple_of(accumulate) {
        return Ok(());
    }
    let why = "a batch is cut into micro-batches of one size; give a divisor of it";
    Err(conflict(Text::given("accumulate", accumulate), second, why))
}
