//! From settings to what a run is made of: network, options and data, checked before anything is written.

use super::device::Device;
use super::kinds::{Precision, Synthetic};
use super::network::{NetworkOptions, has_statistics};
use super::on_device::check_threads;
use super::presets::{Preset, Recipe};
use super::settings::{Settings, SettingsError};
use super::{CheckpointEvery, RunError};
use crate::data::synthetic::WalkData;
use crate::data::{Calendar, Covariates, Fill, Panel, Purpose, ReadOptions, Split, TokenData};
use crate::models::{ModelConfig, ModelKind, OptionValue, Predicts, Reads};
use crate::nn::Family;
use crate::train::{Betas, Draws, Loss, Order, Schedule, TrainingOptions};
use std::path::PathBuf;

/// Where the data comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Files.
    Files {
        /// Their paths.
        paths: Vec<PathBuf>,
        /// What to read of them.
        read: Box<ReadOptions>,
    },
    /// A generated hourly series.
    Demo {
        /// Its rows.
        rows: usize,
        /// Its columns.
        channels: usize,
    },
    /// Generated random walks.
    Walk {
        /// Number of windows.
        samples: usize,
        /// Columns of a window.
        channels: usize,
    },
    /// Generated samples of tokens.
    Assets {
        /// Number of samples.
        samples: usize,
    },
}

/// The data of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Series to forecast.
    Series(Panel),
    /// Windows with labels.
    Walk(WalkData),
    /// Samples of tokens with classes.
    Tokens(TokenData),
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
    pub notes: Vec<String>,
}

/// Above this many steps the table of learning rates alone would fill the memory.
pub(super) const MAX_STEPS: usize = 100_000_000;
/// Above this many rows, columns or windows a size is mistyped.
const MOST: usize = 1 << 24;

/// Quantiles of a distribution that are forecast where none are asked for.
const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

/// Checks levels of intervals: percent, each once.
///
/// # Errors
/// [`SettingsError::Range`].
pub fn interval_levels(levels: &[f64]) -> Result<(), SettingsError> {
    let text = || levels.iter().map(|l| format!("{l}")).collect::<Vec<_>>().join(",");
    let refused =
        |rule: &str| Err(SettingsError::Range { key: "--interval", value: text(), rule: rule.to_owned() });
    match levels {
        all if all.iter().any(|l| !(0.0 < *l && *l < 100.0)) => {
            refused("levels are percent, above 0 and below 100, as in --interval 80,95")
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
        self.check_sizes()?;
        let (model, preset) = self.preset()?;
        let source = self.source(model)?;
        let recipe = &preset.recipe;
        let training = self.training(model, recipe)?;
        let network = self.network(model, preset, training.loss.parameters())?;
        has_statistics(model, &network, &training)?;
        if !training.loss.levels().is_empty() && network.predicts() == Predicts::Value {
            let (first, second) = ("--quantiles".to_owned(), format!("--model {}", model.name()));
            let why = "it predicts one value for a window; leave one of them out".to_owned();
            return Err(SettingsError::Conflict { first, second, why }.into());
        }
        if let Some(levels) = self.interval.as_deref() {
            interval_levels(levels)?;
            if !network.forecasts() {
                let (first, second) = ("--interval".to_owned(), format!("--model {}", model.name()));
                let why = "it forecasts no rows of a series; leave one of them out".to_owned();
                return Err(SettingsError::Conflict { first, second, why }.into());
            }
        }
        // The default recipe validates several times in a given number of steps; presets do it once, at the end.
        let validated_once = !preset.is_auto() && self.max_steps.is_some();
        let patience = self.patience.or(recipe.patience).filter(|&n| n > 0 && !validated_once);
        if let (Some(n), Some(steps), true) =
            (self.patience.filter(|&n| n > 0), self.max_steps, validated_once)
        {
            let (first, second) = (format!("--patience {n}"), format!("--max-steps {steps}"));
            let why = "a run of so many steps is validated once, at its end; use --epochs".to_owned();
            return Err(SettingsError::Conflict { first, second, why }.into());
        }
        let split: Split = self.split.as_deref().unwrap_or("0.7,0.1,0.2").parse()?;
        let split = split.with_horizon(network.horizon());
        let period = at_least_1("--period", self.period.unwrap_or(24))?;
        let log_every = at_least_1("--log-every", self.log_every.unwrap_or(50))?;
        let mut checkpoint = CheckpointEvery::default();
        checkpoint.steps =
            at_least_1("--checkpoint-every", self.checkpoint_every.unwrap_or(checkpoint.steps))?;
        let mut settings = self.clone();
        settings.version = Some(Settings::VERSION);
        settings.fill_in(model, preset, &network, &training, &source);
        settings.split = Some(split.to_string());
        settings.period = self.period;
        settings.log_every = Some(log_every);
        settings.patience = Some(patience.unwrap_or(0));
        let given = Box::new(self.clone());
        Ok(Resolved {
            given,
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
        })
    }

    /// Refuses sizes that are mistyped.
    fn check_sizes(&self) -> Result<(), SettingsError> {
        let sizes = [
            ("--context", self.context),
            ("--horizon", self.horizon),
            ("--batch", self.batch),
            ("--channels", self.channels),
            ("--period", self.period),
        ];
        for (key, size) in sizes {
            if let Some(n) = size.filter(|n| *n > MOST) {
                let rule = format!("it must be at most {MOST}");
                return Err(SettingsError::Range { key, value: n.to_string(), rule });
            }
        }
        self.network.as_ref().map_or(Ok(()), NetworkOptions::check_sizes)
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
                first: format!("--model {}", model.name()),
                second: format!("--preset {}", preset.name),
                why: format!("that preset is a {}; leave one of them out", preset.kind().name()),
            }),
            Some(_) | None => Ok((preset.kind(), preset)),
        }
    }

    /// Settings of files with series, and whether they are given.
    fn of_series(&self) -> [(&'static str, bool); 10] {
        [
            ("--series-id", self.series_id.is_some()),
            ("--date-column", self.date_column.is_some()),
            ("--date-format", self.date_format.is_some()),
            ("--separator", self.separator.is_some()),
            ("--decimal", self.decimal.is_some()),
            ("--thousands", self.thousands.is_some()),
            ("--fill", self.fill.is_some()),
            ("--fill-gaps", self.fill_gaps.is_some()),
            ("--static", self.fixed.is_some()),
            ("--categorical", self.categorical.is_some()),
        ]
    }

    fn source(&self, model: ModelKind) -> Result<Source, RunError> {
        let conflict = |first: &str, second: String, why: &str| SettingsError::Conflict {
            first: first.to_owned(),
            second,
            why: why.to_owned(),
        };
        if model == ModelKind::CrossAsset {
            let others = [
                ("--columns", self.columns.is_some()),
                ("--target", self.target.is_some()),
                ("--channels", self.channels.is_some()),
                ("--known-future", self.known_future.is_some()),
                ("--calendar", self.calendar.is_some()),
            ];
            let mut others = self.of_series().into_iter().chain(others);
            if let Some((name, _)) = others.find(|(_, given)| *given) {
                let why = "it belongs to series, and this model reads samples of tokens; leave it out";
                return Err(conflict(name, "--model cross-asset".to_owned(), why).into());
            }
        }
        if let Some(super::settings::OneOrMore(paths)) = &self.data {
            let given = [
                ("--synthetic", self.synthetic.is_some()),
                ("--samples", self.samples.is_some()),
                ("--channels", self.channels.is_some()),
            ];
            if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
                let why = "it sizes generated data; leave it out (--columns chooses columns of the file)";
                return Err(conflict(name, "--data".to_owned(), why).into());
            }
            if model == ModelKind::WindowRegressor {
                let why = "a CSV has no labels of windows; use --synthetic walk";
                return Err(conflict("--model window-regressor", "--data".to_owned(), why).into());
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
        let columns = ("--columns", self.columns.is_some() && self.scaler.is_none());
        if let Some((name, _)) = self.of_series().into_iter().chain([columns]).find(|(_, given)| *given) {
            return Err(
                conflict(name, "generated data".to_owned(), "it belongs to a file; give --data too").into()
            );
        }
        let covariates = self.covariates();
        if model == ModelKind::WindowRegressor && covariates != Covariates::default() {
            let why = "it predicts the label of a window and has no covariates; leave them out";
            return Err(conflict("covariates", "--model window-regressor".to_owned(), why).into());
        }
        if self.target.is_some() && model == ModelKind::WindowRegressor {
            let why = "it predicts the label of a window, no column; leave it out";
            return Err(conflict("--target", "--model window-regressor".to_owned(), why).into());
        }
        let size = |key, given: Option<usize>, default| at_least_1(key, given.unwrap_or(default));
        let reads = model.config().reads();
        let refused = |made: Synthetic, why: &str| {
            let (model, made) = (format!("--model {}", model.name()), made.name());
            Err(conflict(&model, format!("--synthetic {made}"), why).into())
        };
        match (reads, self.synthetic) {
            (Reads::EachColumn | Reads::Together(_), None | Some(Synthetic::Demo)) => Ok(Source::Demo {
                rows: size("--samples", self.samples, 6000)?,
                channels: size("--channels", self.channels, 7)?,
            }),
            (Reads::Labelled, None | Some(Synthetic::Walk)) => Ok(Source::Walk {
                samples: size("--samples", self.samples, 5000)?,
                channels: size("--channels", self.channels, 10)?,
            }),
            (Reads::Tokens(_), None | Some(Synthetic::Assets)) => {
                Ok(Source::Assets { samples: size("--samples", self.samples, 23_441)? })
            }
            (_, Some(made @ Synthetic::Walk)) => {
                refused(made, "walks have one label each and no future rows; use --model window-regressor")
            }
            (_, Some(made @ Synthetic::Assets)) => {
                refused(made, "the samples have classes and no rows in time; use --model cross-asset")
            }
            (Reads::Labelled, Some(made @ Synthetic::Demo)) => {
                refused(made, "the series has no labels of windows; use --synthetic walk")
            }
            (Reads::Tokens(_), Some(made @ Synthetic::Demo)) => {
                refused(made, "the series has no classes; use --synthetic assets")
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
        let conflict = |first: &str, second: &str, why: &str| SettingsError::Conflict {
            first: first.to_owned(),
            second: second.to_owned(),
            why: why.to_owned(),
        };
        if self.huber_delta.is_some() && self.loss.as_deref() != Some("huber") {
            let why = "it belongs to that loss; give --loss huber, or leave it out";
            return Err(conflict("--huber-delta", "another loss than huber", why));
        }
        match (model, self.loss.as_deref(), &self.quantiles) {
            (ModelKind::CrossAsset, None | Some("cross-entropy"), None) => return Ok(Loss::CrossEntropy),
            (ModelKind::CrossAsset, loss, _) => {
                let first = loss.map_or_else(|| "--quantiles".to_owned(), |loss| format!("--loss {loss}"));
                let why = "it predicts classes, by the cross-entropy; leave it out";
                return Err(conflict(&first, "--model cross-asset", why));
            }
            (_, Some("cross-entropy"), _) => {
                let why = "it is of classes; use --model cross-asset";
                return Err(conflict("--loss cross-entropy", &format!("--model {}", model.name()), why));
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
                let rule = "they must be between 0 and 1, ascending".to_owned();
                return Err(SettingsError::Range { key: "--quantiles", value: text(&levels), rule });
            }
            return Ok(Loss::Distribution(family, levels));
        }
        if let Some(levels) = &self.quantiles {
            if self.loss.as_deref().is_some_and(|loss| loss != "quantile") {
                let why = "quantiles are trained by the quantile loss; leave one of them out";
                return Err(conflict(
                    "--quantiles",
                    &format!("--loss {}", self.loss.as_deref().unwrap_or("")),
                    why,
                ));
            }
            if !(ascending(levels) && levels.contains(&0.5)) {
                let value = text(levels);
                let rule =
                    "they must be between 0 and 1, ascending, with 0.5 (the point forecast) among them"
                        .to_owned();
                return Err(SettingsError::Range { key: "--quantiles", value, rule });
            }
            return Ok(Loss::Quantile(levels.clone()));
        }
        match self.loss.as_deref() {
            None | Some("mse") => Ok(Loss::Mse),
            Some("mae") => Ok(Loss::Mae),
            Some("huber") => {
                let delta = self.huber_delta.unwrap_or(1.0);
                Ok(Loss::Huber(number("--huber-delta", delta, |x| x > 0.0, "it must be above 0")?))
            }
            Some("quantile") => {
                let why = "it needs levels; give them, as in --quantiles 0.1,0.5,0.9";
                Err(conflict("--loss quantile", "no --quantiles", why))
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
            return Err(SettingsError::Conflict {
                first: format!("--epochs {epochs}"),
                second: format!("--max-steps {steps}"),
                why: "both say how long the run is; leave one of them out".to_owned(),
            });
        }
        let schedule = self.schedule.unwrap_or(recipe.schedule);
        let optimizer = self.optimizer.unwrap_or(recipe.optimizer);
        // The official recipe's 0.95 is a side effect of a one-cycle schedule that it creates and does not use.
        let usual = optimizer.betas();
        let first = if schedule == Schedule::Official { 0.95 } else { usual.first };
        let [first, second] = self.betas.unwrap_or([first, usual.second]);
        let same = optimizer == recipe.optimizer;
        let decay = if same { recipe.weight_decay } else { optimizer.weight_decay() };
        let clip = number(
            "--clip",
            self.clip.unwrap_or(recipe.clip.unwrap_or(0.0)),
            |x| x >= 0.0,
            "it must be at least 0 (0 clips nothing)",
        )?;
        let beta =
            |x| number("--betas", x, |x| (0.0..1.0).contains(&x), "each must be at least 0 and below 1");
        let seed = self.seed.unwrap_or(2021);
        if i64::try_from(seed).is_err() {
            let rule = "it must be at most 9223372036854775807".to_owned();
            return Err(SettingsError::Range { key: "--seed", value: seed.to_string(), rule });
        }
        check_threads(self.threads)?;
        let draws = self.draws.unwrap_or(recipe.draws);
        if draws == Draws::PyTorch && model != ModelKind::Dlinear {
            return Err(SettingsError::Conflict {
                first: "--draws pytorch".to_owned(),
                second: format!("--model {}", model.name()),
                why: "only dlinear's layers are drawn there as they are here; leave it out".to_owned(),
            });
        }
        let (dtype, products) = self.dtype.unwrap_or(Precision::F32).parts();
        let batch = at_least_1("--batch", self.batch.unwrap_or(recipe.batch))?;
        let accumulate = at_least_1("--accumulate", self.accumulate.unwrap_or(1))?;
        divides(accumulate, batch, &format!("--batch {batch}"))?;
        Ok(TrainingOptions {
            batch,
            accumulate,
            epochs: at_least_1("--epochs", self.epochs.unwrap_or(recipe.epochs))?,
            max_steps: self.max_steps.map(|n| at_least_1("--max-steps", n)).transpose()?,
            lr: number("--lr", self.lr.unwrap_or(recipe.lr), |x| x > 0.0, "it must be above 0")?,
            schedule,
            optimizer,
            betas: Betas { first: beta(first)?, second: beta(second)? },
            shard_optimizer: self.shard_optimizer.unwrap_or(false),
            sync_batch_norm: self.sync_batch_norm.unwrap_or(false),
            rank_order: self.rank_order.unwrap_or(false),
            average: None,
            weight_decay: number(
                "--weight-decay",
                self.weight_decay.unwrap_or(decay),
                |x| x >= 0.0,
                "it must be at least 0",
            )?,
            clip: (clip > 0.0).then_some(clip),
            dtype,
            products,
            seed,
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
                self.data = Some(super::settings::OneOrMore(paths.iter().map(absolute).collect()));
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
        if let Some(init) = &mut self.init {
            *init = std::path::absolute(&*init).unwrap_or_else(|_| init.clone());
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

/// Checks that a batch can be cut into so many micro-batches of one size.
pub(super) fn divides(accumulate: usize, batch: usize, said: &str) -> Result<(), SettingsError> {
    if batch.is_multiple_of(accumulate) {
        return Ok(());
    }
    Err(SettingsError::Conflict {
        first: format!("--accumulate {accumulate}"),
        second: said.to_owned(),
        why: "a batch is cut into micro-batches of one size; give a divisor of it".to_owned(),
    })
}

fn at_least_1(key: &'static str, n: usize) -> Result<usize, SettingsError> {
    if n == 0 {
        Err(SettingsError::Range { key, value: n.to_string(), rule: "it must be at least 1".to_owned() })
    } else {
        Ok(n)
    }
}

fn number(
    key: &'static str,
    x: f64,
    good: impl Fn(f64) -> bool,
    rule: &'static str,
) -> Result<f64, SettingsError> {
    if x.is_finite() && good(x) {
        Ok(x)
    } else {
        Err(SettingsError::Range { key, value: format!("{x:?}"), rule: rule.to_owned() })
    }
}
