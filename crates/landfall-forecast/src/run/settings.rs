//! Settings of a run: the keys of a configuration file and of `config.toml` in a run directory.

use super::device::Device;
use super::forecaster::Forecaster;
use super::keywords::{meant, quoted};
use super::kinds::{Precision, Synthetic};
use super::network::NetworkOptions;
use crate::data::with_nearest;
use crate::data::{Calendar, Covariates, Scaler, TokenNames};
use crate::files::read_text;
use crate::models::ModelKind;
use crate::train::{Draws, OptimizerKind, Order, Schedule};
use landfall::tune::Choices;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Why settings are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum SettingsError {
    #[error("{}: cannot be read ({why}); check the path and its permissions", .path.display())]
    Read { path: PathBuf, why: std::io::Error },
    #[error("{}:{line}: {message}; correct the line", .path.display())]
    Toml { path: PathBuf, line: usize, message: String },
    #[error("settings cannot be written as TOML: {0}")]
    Unwritable(String),
    #[error("{}: written in version {found} of the format, and this program reads up to {known}; use a newer landfall", .path.display())]
    Version { path: PathBuf, found: u32, known: u32 },
    #[error("{key}: {why}")]
    Keyword { key: String, why: String },
    #[error("{key} {value}: {rule}")]
    Range { key: &'static str, value: String, rule: String },
    #[error("unknown {key} `{value}`; {}choose from {known}", meant(.value, &.known.split(", ").collect::<Vec<_>>()))]
    Unknown { key: &'static str, value: String, known: String },
    #[error("{first} and {second}: {why}")]
    Conflict { first: String, second: String, why: String },
    #[error("{0}")]
    Network(String),
    #[error("no parameter's name contains `{pattern}`, so it freezes none; one of the names is {example}")]
    FreezesNone { pattern: String, example: String },
    #[error("every parameter is frozen, so there is nothing to train; freeze fewer")]
    AllFrozen,
}

/// Mean and standard deviation of each column of a series, fit on its training rows. A run writes one for each series,
/// for evaluations and forecasts; a new run fits its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalerTable {
    /// Name of the series.
    pub series: String,
    /// Means.
    pub mean: Vec<f64>,
    /// Population standard deviations.
    pub std: Vec<f64>,
    /// Which columns had one value in the training rows; empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constant: Vec<bool>,
    /// Whether the series was too short for the run's windows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub short: bool,
}

impl ScalerTable {
    /// That of a series.
    #[must_use]
    pub fn new(series: &str, scaler: &Scaler, short: bool) -> Self {
        let constant: Vec<bool> = (0..scaler.channels()).map(|column| scaler.is_constant(column)).collect();
        Self {
            series: series.to_owned(),
            mean: scaler.mean().to_vec(),
            std: scaler.std().to_vec(),
            constant: if constant.contains(&true) { constant } else { Vec::new() },
            short,
        }
    }
}

/// Files of data: in a configuration a path, or a list of paths.
pub type Files = OneOrMore<PathBuf>;

/// Names of columns: in a configuration a name, or a list of names.
pub type Names = OneOrMore<String>;

/// In a configuration one value, or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written<T>", into = "Written<T>")]
#[serde(bound(serialize = "T: Serialize + Clone", deserialize = "T: Deserialize<'de>"))]
pub struct OneOrMore<T>(pub Vec<T>);

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "one value, or a list of them")]
enum Written<T> {
    One(T),
    More(Vec<T>),
}

impl<T> From<Written<T>> for OneOrMore<T> {
    fn from(written: Written<T>) -> Self {
        match written {
            Written::One(value) => Self(vec![value]),
            Written::More(values) => Self(values),
        }
    }
}

impl<T> From<OneOrMore<T>> for Written<T> {
    fn from(OneOrMore(mut values): OneOrMore<T>) -> Self {
        match (values.pop(), values.is_empty()) {
            (Some(value), true) => Self::One(value),
            (last, _) => Self::More(values.into_iter().chain(last).collect()),
        }
    }
}

/// Every setting, none of them required: what is left out comes from the preset's recipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Version of the format of a run directory; none in a file that a person writes, or of the first program.
    pub version: Option<u32>,
    /// CSV files.
    pub data: Option<Files>,
    /// What separates the fields of a row; found in the file if left out.
    pub separator: Option<char>,
    /// The decimal mark of numbers, `.` or `,`; found in the file if left out.
    pub decimal: Option<char>,
    /// What groups thousands: `.`, `,`, a blank or an apostrophe; found in the file if left out.
    pub thousands: Option<char>,
    /// The columns that hold the date; found in the file if left out.
    pub date_column: Option<Names>,
    /// How dates are written, in the notation of `strftime`; found in the file if left out.
    pub date_format: Option<String>,
    /// How the dates of the data advance, such as `daily`; a run writes it, and reads data of no other frequency.
    pub frequency: Option<Names>,
    /// The columns that name the series that a row belongs to; found where a date has several rows if left out.
    pub series_id: Option<Names>,
    /// Columns of them, all of numbers if left out.
    pub columns: Option<Vec<String>>,
    /// Columns to forecast, all if left out; the others are inputs only.
    pub target: Option<Vec<String>>,
    /// Columns whose values are known in the rows to be forecast.
    pub known_future: Option<Names>,
    /// Columns with one value for each series.
    #[serde(rename = "static")]
    pub fixed: Option<Names>,
    /// Columns whose values are names.
    pub categorical: Option<Names>,
    /// Features of the dates that are covariates; empty for those that suit the frequency.
    pub calendar: Option<Vec<Calendar>>,
    /// What fills missing values: `previous`, `linear` or `zero`.
    pub fill: Option<String>,
    /// Whether rows are inserted where the dates skip some, however many.
    pub fill_gaps: Option<bool>,
    /// Generated data instead of a file.
    pub synthetic: Option<Synthetic>,
    /// Rows of the generated series, or number of generated windows.
    pub samples: Option<usize>,
    /// Columns of the generated data.
    pub channels: Option<usize>,
    /// Kind of model.
    pub model: Option<ModelKind>,
    /// Named sizes and recipe.
    pub preset: Option<String>,
    /// Rows of history.
    pub context: Option<usize>,
    /// Rows predicted.
    pub horizon: Option<usize>,
    /// `ett`, or shares of training, validation and test rows.
    pub split: Option<String>,
    /// Seasonal period in rows; found in the data if left out.
    pub period: Option<usize>,
    /// Passes over the training windows.
    pub epochs: Option<usize>,
    /// Updates in all, instead of epochs.
    pub max_steps: Option<usize>,
    /// Windows of a batch.
    pub batch: Option<usize>,
    /// Micro-batches that a batch is cut into.
    pub accumulate: Option<usize>,
    /// Learning rate.
    pub lr: Option<f64>,
    /// How it changes.
    pub schedule: Option<Schedule>,
    /// Which optimizer.
    pub optimizer: Option<OptimizerKind>,
    /// Decay rates of its moments.
    pub betas: Option<[f64; 2]>,
    /// Weight decay.
    pub weight_decay: Option<f64>,
    /// Whether ranks that train together share out the optimizer's state; no result depends on it.
    pub shard_optimizer: Option<bool>,
    /// Whether a batch norm takes its statistics over the batch of all ranks that train together.
    pub sync_batch_norm: Option<bool>,
    /// Whether sums over the ranks that train together are taken in the order of the ranks, on GPUs too.
    pub rank_order: Option<bool>,
    /// Largest global gradient norm; 0 clips nothing.
    pub clip: Option<f64>,
    /// Dropout rate.
    pub dropout: Option<f64>,
    /// Dtype of arithmetic.
    pub dtype: Option<Precision>,
    /// Where to compute.
    pub device: Option<Device>,
    /// Where it computed last, for information; a run writes it.
    pub computed_on: Option<Device>,
    /// Threads of the processor.
    pub threads: Option<usize>,
    /// Seed of generated data, initial values, order and dropout.
    pub seed: Option<u64>,
    /// Order of the windows.
    pub order: Option<Order>,
    /// Where initial values and orders are drawn from.
    pub draws: Option<Draws>,
    /// Weights to start from.
    pub init: Option<PathBuf>,
    /// Parameters whose name contains one of these are not trained.
    pub freeze: Option<Vec<String>>,
    /// What is minimised: `mse`, `mae`, `huber`; `quantile` where quantiles are given; the negative log-likelihood of a distribution,
    /// `normal`, `student-t` or `negative-binomial`; `cross-entropy` of classes.
    pub loss: Option<String>,
    /// Difference up to which the Huber loss is a square.
    pub huber_delta: Option<f64>,
    /// Levels of the quantiles to predict, ascending, 0.5 among them.
    pub quantiles: Option<Vec<f64>>,
    /// Levels of the prediction intervals, in percent.
    pub interval: Option<Vec<f64>>,
    /// Validations without a better one after which training ends; 0 for never.
    pub patience: Option<usize>,
    /// Steps between shown ones; the run directory has them all.
    pub log_every: Option<usize>,
    /// Steps between checkpoints; one a minute is written besides.
    pub checkpoint_every: Option<usize>,
    /// Options of the network.
    pub network: Option<NetworkOptions>,
    /// Tokens, classes and features of samples; a run writes them.
    pub names: Option<TokenNames>,
    /// Statistics of the columns, for each series; of the features, for each token.
    pub scaler: Option<Vec<ScalerTable>>,
    /// What validation chose; a run of the default recipe writes it.
    pub forecaster: Option<Forecaster>,
    /// Kernels that were tuned for its instructions; a run that was asked to tune writes them, and keeps them.
    pub kernels: Option<Choices>,
}

/// What a resumed run may change.
const CHANGEABLE: [&str; 7] =
    ["epochs", "max-steps", "log-every", "checkpoint-every", "device", "threads", "shard-optimizer"];

/// Settings that exclude each other: the one that is given drops the other one from the file below it.
const EXCLUSIVE: [(&str, &str); 15] = [
    ("epochs", "max-steps"),
    ("max-steps", "epochs"),
    ("data", "synthetic"),
    ("data", "samples"),
    ("data", "channels"),
    ("synthetic", "data"),
    ("synthetic", "columns"),
    ("synthetic", "fill"),
    ("synthetic", "fill-gaps"),
    ("synthetic", "series-id"),
    ("synthetic", "separator"),
    ("synthetic", "decimal"),
    ("synthetic", "thousands"),
    ("synthetic", "date-column"),
    ("synthetic", "date-format"),
];

/// A setting's value by the name that it has in a file, in letters of any case.
///
/// # Errors
/// The names that there are.
pub fn named<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    let read = |name: &str| T::deserialize(StrDeserializer::<ValueError>::new(name));
    read(name).or_else(|why| {
        read(&name.to_lowercase()).map_err(|_| {
            let text = why.to_string();
            let known = text.split_once("expected ").map_or(text.as_str(), |(_, known)| known);
            format!("{}choose {}", meant(name, &quoted(known)), known.replace('`', ""))
        })
    })
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SettingsError::Read`]; [`SettingsError::Toml`] with the line, for unknown keys too.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = read_text(path).map_err(|why| SettingsError::Read { path: path.to_owned(), why })?;
        Self::parse(&text, path)
    }

    /// Parses a file's text; `path` names it in messages. Data that a run keeps in its directory is named relative to it
    /// ([`Settings::to_toml_in`]), and found there.
    ///
    /// # Errors
    /// [`SettingsError::Toml`]; [`SettingsError::Version`] for a file of a newer program.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        toml::from_str(text)
            .map_err(|e| {
                let at = e.span().map_or(0, |s| s.start);
                let line = 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
                let message = with_nearest(e.message()).replace("field", "key").replace('\n', " ");
                SettingsError::Toml { path: path.to_owned(), line, message }
            })
            .and_then(|settings: Self| match settings.version {
                Some(found) if found > Self::VERSION => {
                    Err(SettingsError::Version { path: path.to_owned(), found, known: Self::VERSION })
                }
                Some(_) => {
                    Ok(settings.with_data(|data| path.parent().map_or(data.clone(), |run| run.join(&data))))
                }
                None => Ok(settings),
            })
    }

    /// The same settings with other paths of the files of data.
    fn with_data(mut self, moved: impl Fn(PathBuf) -> PathBuf) -> Self {
        self.data = self.data.map(|OneOrMore(paths)| OneOrMore(paths.into_iter().map(moved).collect()));
        self
    }

    /// Version of the format of run directories that this program writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    fn table(&self) -> Result<toml::Table, SettingsError> {
        toml::Table::try_from(self).map_err(|e| SettingsError::Unwritable(e.to_string().replace('\n', " ")))
    }

    /// These settings over those of a file: where both have a value, these win.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`] when the file's network belongs to another preset than this one.
    pub fn over(&self, base: &Self) -> Result<Self, SettingsError> {
        let changed = self.preset.is_some() && base.preset.is_some() && self.preset != base.preset;
        if let (true, Some(_)) = (changed, &base.network) {
            return Err(SettingsError::Conflict {
                first: format!("--preset {}", self.preset.as_deref().unwrap_or_default()),
                second: "the file's [network]".to_owned(),
                why: "that table's values would replace the preset's; remove one of them".to_owned(),
            });
        }
        let (mut table, top) = (base.table()?, self.table()?);
        for (given, dropped) in EXCLUSIVE {
            if top.contains_key(given) {
                table.remove(dropped);
            }
        }
        table.extend(top);
        let all: Self = table
            .try_into()
            .map_err(|e: toml::de::Error| SettingsError::Unwritable(e.message().to_owned()))?;
        let network = match (&self.network, &base.network) {
            (Some(own), Some(base)) => Some(own.over(base)),
            _ => all.network,
        };
        Ok(Self { network, ..all })
    }

    /// These settings without what a run has measured or chosen: a new run does so for itself.
    #[must_use]
    pub fn for_new_run(mut self) -> Self {
        self.version = None;
        self.computed_on = None;
        self.kernels = None;
        self.forecaster = None;
        self.names = None;
        self.frequency = None;
        if self.scaler.take().is_some() && self.data.is_none() {
            self.columns = None;
        }
        self
    }

    /// The flags of the settings that are given.
    ///
    /// # Errors
    /// [`SettingsError::Unwritable`].
    pub fn flags(&self) -> Result<Vec<String>, SettingsError> {
        let names = |(key, value): (String, toml::Value)| match value.as_table() {
            Some(network) if key == "network" => network.keys().cloned().collect(),
            Some(_) | None => vec![key],
        };
        Ok(self.table()?.into_iter().flat_map(names).map(|name| format!("--{name}")).collect())
    }

    /// The first setting given that a resumed run may not change.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`].
    pub fn changes_nothing_else(&self) -> Result<(), SettingsError> {
        match self.table()?.keys().find(|k| !CHANGEABLE.contains(&k.as_str())) {
            None => Ok(()),
            Some(key) => Err(SettingsError::Conflict {
                first: format!("--{key}"),
                second: "--resume".to_owned(),
                why: format!(
                    "a resumed run keeps its settings; only {} may be given",
                    CHANGEABLE.map(|k| format!("--{k}")).join(", ")
                ),
            }),
        }
    }

    /// What the columns beside the targets are.
    #[must_use]
    pub fn covariates(&self) -> Covariates {
        let names = |names: &Option<Names>| names.as_ref().map_or_else(Vec::new, |names| names.0.clone());
        Covariates {
            known: names(&self.known_future),
            fixed: names(&self.fixed),
            categorical: names(&self.categorical),
            calendar: self.calendar.clone(),
        }
    }

    /// A short name of what a run does: the first 12 hexadecimal digits of the SHA-256 of its settings' text, without
    /// where its data lies, what was measured of it, its seed, and what changes no result but by rounding (device, kernels,
    /// threads, shards of the optimizer's state, log, checkpoints).
    ///
    /// # Errors
    /// As [`Settings::to_toml`].
    pub fn hash(&self) -> Result<String, SettingsError> {
        let counted = Self {
            version: None,
            data: None,
            columns: None,
            series_id: None,
            separator: None,
            decimal: None,
            thousands: None,
            date_column: None,
            date_format: None,
            frequency: None,
            names: None,
            scaler: None,
            init: self.init.as_ref().map(|_| PathBuf::from("given")),
            seed: None,
            shard_optimizer: None,
            device: None,
            computed_on: None,
            kernels: None,
            forecaster: None,
            threads: None,
            log_every: None,
            checkpoint_every: None,
            period: None,
            interval: None,
            ..self.clone()
        };
        let digest = Sha256::digest(counted.to_toml()?.as_bytes());
        Ok(digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect())
    }

    /// The settings as the text of the `config.toml` of the run in this directory. Data that lies there is named relative to
    /// it, so that the directory may be moved with all that it needs; other data by its absolute path.
    ///
    /// # Errors
    /// As [`Settings::to_toml`].
    pub fn to_toml_in(&self, run: &Path) -> Result<String, SettingsError> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let run = absolute(run);
        let named = |data: PathBuf| {
            let data = absolute(&data);
            data.strip_prefix(&run).map(Path::to_owned).unwrap_or(data)
        };
        self.clone().with_data(named).to_toml()
    }

    /// The settings as a file's text.
    ///
    /// # Errors
    /// [`SettingsError::Unwritable`], as for a path that is not UTF-8.
    pub fn to_toml(&self) -> Result<String, SettingsError> {
        toml::to_string(self).map_err(|e| SettingsError::Unwritable(e.to_string().replace('\n', " ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text, Path::new("f.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn the_dtype_is_part_of_a_configuration() {
        let mut hashes = Vec::new();
        for name in ["f32", "f64", "tf32", "bf16", "f16"] {
            let settings = parse(&format!("dtype = \"{name}\"\n")).expect("a dtype");
            assert_eq!(settings.to_toml().expect("writable"), format!("dtype = \"{name}\"\n"));
            hashes.push(settings.hash().expect("writable"));
        }
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), 5);
        assert!(parse("dtype = \"f8\"\n").expect_err("no such dtype").contains("bf16"));
        let tf32 = Settings { dtype: Some(Precision::Tf32), ..Settings::default() }.resolve().expect("sound");
        let engine = landfall::Engine::cpu_with_threads(1).expect("a processor");
        let blank = crate::train::Dataset::blank(1, tf32.network.context(), tf32.network.horizon(), 1);
        let told = tf32.session(&engine, &blank).err().map_or_else(String::new, |e| e.to_string());
        assert_eq!(
            told,
            "dtype tf32 and device cpu: TF32 is for products on CUDA devices; use dtype f32 on the CPU"
        );
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = parse("epochs = 3\nlr = 0.5\n[network]\nnorm = \"layer\"\nd-model = 8\n").expect("sound");
        let flags = Settings { max_steps: Some(7), lr: Some(0.25), ..Settings::default() };
        let both = flags.over(&file).expect("no conflict");
        assert_eq!((both.epochs, both.max_steps, both.lr), (None, Some(7), Some(0.25)));
        assert_eq!(both.network, file.network);
        let text = both.to_toml().expect("writable");
        assert_eq!(parse(&text).expect("its own text"), both);
        let preset = Settings { preset: Some("patchtst-64".to_owned()), ..Settings::default() };
        assert_eq!(preset.over(&file).expect("the file names no preset").network, file.network);
        let file = Settings { preset: Some("patchtst-42".to_owned()), ..file };
        let error = preset.over(&file).expect_err("another network").to_string();
        assert_eq!(
            error,
            "--preset patchtst-64 and the file's [network]: that table's values would replace the preset's; \
             remove one of them"
        );
    }

    #[test]
    fn unknown_keys_and_values_are_named_with_their_line() {
        let error = parse("lr = 0.1\nlearning-rate = 0.1\n").expect_err("unknown");
        assert!(
            error.starts_with("f.toml:2: unknown key `learning-rate`, expected one of `version`, `data`"),
            "{error}"
        );
        let error = parse("horizn = 3\n").expect_err("unknown");
        assert_eq!(error, "f.toml:1: unknown key `horizn`; the nearest name is `horizon`; correct the line");
        let error = parse("schedule = \"exponential\"\n").expect_err("unknown");
        assert!(error.starts_with("f.toml:1: unknown variant `exponential`, expected one of"), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert_eq!(named::<OptimizerKind>("adamw"), Ok(OptimizerKind::AdamW));
        assert_eq!(named::<OptimizerKind>("rmsprop"), Err("choose one of adam, adamw, sgd, lion".to_owned()));
        assert_eq!(named::<Schedule>("x").expect_err("none").lines().count(), 1);
    }

    #[test]
    fn data_in_a_run_is_named_relative_to_it() {
        let data = |path: &str| Some(OneOrMore(vec![PathBuf::from(path)]));
        let of =
            |path| Settings { version: Some(Settings::VERSION), data: data(path), ..Settings::default() };
        let text = of("/runs/a/data.csv").to_toml_in(Path::new("/runs/a")).expect("writable");
        assert_eq!(text, "version = 1\ndata = \"data.csv\"\n");
        // The directory may have moved; a person's file has paths from where the program is run.
        let read = |text: &str| Settings::parse(text, Path::new("/else/b/config.toml")).expect("sound").data;
        assert_eq!(read(&text), data("/else/b/data.csv"));
        assert_eq!(read("data = \"data.csv\"\n"), data("data.csv"));
        // The directory of a run and its data may be named relative to where the program runs.
        let relative = of("runs/a/data.csv").to_toml_in(Path::new("runs/a")).expect("writable");
        assert_eq!(relative, text);
        let other = of("/runs/ab/data.csv").to_toml_in(Path::new("/runs/a")).expect("writable");
        assert_eq!(read(&other), data("/runs/ab/data.csv"));
    }

    #[test]
    fn a_resumed_run_keeps_its_settings() {
        let given = Settings { epochs: Some(3), lr: Some(0.1), ..Settings::default() };
        assert_eq!(
            given.changes_nothing_else().expect_err("lr").to_string(),
            "--lr and --resume: a resumed run keeps its settings; only --epochs, --max-steps, --log-every, \
             --checkpoint-every, --device, --threads, --shard-optimizer may be given"
        );
        let given = Settings { threads: Some(1), ..Settings::default() };
        assert!(given.changes_nothing_else().is_ok());
    }
}
