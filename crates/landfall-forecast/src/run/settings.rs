//! Settings of a run: the keys of a configuration file and of `config.toml` in a run directory.

use super::declared::Arity::{Flag, List, ListOrNone, Repeated, Switch};
use super::declared::Group::{Computing, Data, Model, Ranks, Training, Uncertainty};
use super::declared::{Facts, Group, Range, Setting, SettingType, SettingValue, settings};
use super::device::Device;
use super::forecaster::Forecaster;
use super::kinds::Synthetic;
use super::network_options::NetworkOptions;
use super::settings_error::SettingsError;
use super::values::{Files, Names, OneOrMore, SameWindows, ScalerTable, TimeLimit};
use super::words::Text;
use crate::choice::Metric;
use crate::data::with_nearest;
use crate::data::{Calendar, Covariates, TokenNames};
use crate::ensemble::{Members, NamedNetwork};
use crate::files::read_text;
use crate::models::ModelKind;
use crate::precision::Precision;
use crate::train::{Draws, OptimizerKind, Order, Schedule};
use landfall::tune::Choices;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

settings! {
    /// Version of the format of a run directory; none in a file that a person writes, or of the first program.
    version: u32 => Facts::by_run();
    /// CSV with a header and one row per time step, or per time step and series. Repeat for more series.
    data: Files => Facts::of(Data, "F.csv")
        .arity(Repeated).unhashed().drops(&["synthetic", "samples", "channels"]);
    /// Field separator; " " for runs of blanks, \t for a tab [default: detected].
    separator: char => Facts::of(Data, "C").of_files().unhashed();
    /// Decimal mark of numbers: . or , [default: detected; a later file of the run is read by the same].
    decimal: char => Facts::of(Data, "C").of_files().unhashed().range(Range::Characters(&['.', ',']));
    /// Separator of thousands: . , " " or ' [default: detected].
    thousands: char => Facts::of(Data, "C")
        .of_files().unhashed().range(Range::Characters(&['.', ',', ' ', '\'']));
    /// Date column, or columns such as year,month [default: detected].
    date_column: Names => Facts::of(Data, "A,B").arity(List).of_files().unhashed();
    /// Date format as in strftime (%d/%m/%Y %H:%M), or unix-s, unix-ms [default: detected].
    date_format: String => Facts::of(Data, "FORMAT").of_files().unhashed();
    /// How the dates of the data advance, such as daily: a run reads data of no other frequency.
    frequency: Names => Facts::by_run();
    /// Column that names the series of each row, or columns [default: detected where a date has several rows].
    series_id: Names => Facts::of(Data, "A,B").arity(List).of_files().unhashed();
    /// Columns to use, in this order [default: all numeric columns].
    columns: Vec<String> => Facts::of(Data, "A,B").arity(List).unhashed();
    /// Columns to forecast; the others are inputs only [default: all].
    target: Vec<String> => Facts::of(Data, "A,B").arity(List);
    /// Columns whose values are known in the rows to forecast, such as prices or promotions.
    known_future: Names => Facts::of(Group::Covariates, "A,B").arity(List);
    /// Columns with one value for each series, such as a size or a region.
    fixed as "static": Names => Facts::of(Group::Covariates, "A,B").arity(List).of_files();
    /// Columns whose values are names: each name becomes a column of 0 and 1. At most 64 names.
    categorical: Names => Facts::of(Group::Covariates, "A,B").arity(List).of_files();
    /// Features of the dates as covariates: those that suit the frequency, or some of minute, hour, weekday, day, day-of-year,
    /// week, month, quarter.
    calendar: Vec<Calendar> => Facts::of(Group::Covariates, "F,G").arity(ListOrNone);
    /// Fill missing values: previous, linear or zero [default: linear; up to a third of skipped dates are inserted].
    fill: String => Facts::named(Data).of_files();
    /// Insert a row for every skipped date, filled as {fill} says.
    fill_gaps: bool => Facts::named(Data).arity(Flag).of_files();
    /// Generate data: demo (a series), walk (labelled windows) or assets (samples of tokens with classes).
    synthetic: Synthetic => Facts::named(Data).drops(&[
        "data", "columns", "fill", "fill_gaps", "series_id", "separator", "decimal", "thousands", "date_column", "date_format",
    ]);
    /// Number of generated rows, windows or samples.
    samples: usize => Facts::of(Data, "N").positive();
    /// Number of columns of generated data or of the plan.
    channels: usize => Facts::of(Data, "N").size();
    /// Kind of model: patchtst, dlinear or nlinear (the default recipe chooses among them), {models}.
    model: ModelKind => Facts::named(Model).shapes();
    /// Recipe: auto (sizes from the data, forecaster chosen by validation; the default but for plan), or a paper's: {presets}.
    preset: String => Facts::named(Model).shapes();
    /// Networks that the default recipe chooses among, beside the baselines [default: patchtst,dlinear,nlinear]; at most one besides
    /// dlinear and nlinear, which is trained by steps. none (in a file an empty list) leaves the forecast to the {ensemble} alone,
    /// without one to the season before.
    candidates: Vec<ModelKind> => Facts::of(Model, "A,B").arity(List);
    /// The default recipe's ensemble, which competes with the networks: all (the pretrained network, ETS and dynamic Theta),
    /// statistical (without the pretrained network), one alone (ets, theta, dynamic-theta, croston, tsb or pretrained) or none
    /// [default: all; none where a model or candidates are given].
    ensemble: Members => Facts::named(Model);
    /// The pretrained network of the default recipe's ensemble: a folder of a Chronos-2 or Chronos-Bolt, or a file of landfall pretrain
    /// [default: the network that the program carries].
    pretrained: PathBuf => Facts::of(Model, "WEIGHTS").unhashed();
    /// The error that the default recipe chooses by, in which each series counts alike: rmsse, mase or mse [default: mase for 20 series and columns or more,
    /// else rmsse].
    metric: Metric => Facts::named(Model);
    /// Lookback window: rows that a forecast is made from.
    context: usize => Facts::of(Model, "L").size().shapes();
    /// Rows to forecast.
    horizon: usize => Facts::of(Model, "H").size().shapes();
    /// Shares of training, validation and test rows; last or last:N (tests the last horizon, or N rows); ett [default: 0.7,0.1,0.2].
    split: String => Facts::named(Data);
    /// Seasonal period in rows [default: from the dates and the data].
    period: usize => Facts::of(Data, "N").size().unhashed();
    /// Number of epochs.
    epochs: usize => Facts::of(Training, "N").positive().resumable().drops(&["max_steps"]);
    /// Stop after N optimizer steps.
    max_steps: usize => Facts::of(Training, "N").positive().resumable().drops(&["epochs"]);
    /// Have the default recipe end after about this time, as in 60s, 5m or 1h: candidates that do not fit in are left out, and named
    /// [default: none].
    time_limit: TimeLimit => Facts::of(Training, "TIME").unhashed();
    /// Batch size in windows.
    batch: usize => Facts::of(Training, "B").size().shapes();
    /// Gradient accumulation: split each batch into N micro-batches, which needs the memory of one [default: 1].
    accumulate: usize => Facts::of(Training, "N").positive().shapes();
    /// Learning rate.
    lr: f64 => Facts::of(Training, "X").range(Range::Above(0.0));
    /// Learning rate schedule: constant, official, cosine, one-cycle or halving.
    schedule: Schedule => Facts::named(Training);
    /// Optimizer: adam, adamw, sgd or lion.
    optimizer: OptimizerKind => Facts::named(Training);
    /// Decay rates of the optimizer's two moments; with sgd the first is the momentum.
    betas: [f64; 2] => Facts::of(Training, "B1,B2").range(Range::Share);
    /// Weight decay of matrices [default: 0; 0.01 with {optimizer adamw} or lion].
    weight_decay: f64 => Facts::of(Training, "X").range(Range::AtLeast(0.0));
    /// Share out the optimizer's state: each process keeps and updates a part. Same results; {resume} may change it (=false).
    shard_optimizer: bool => Facts::of(Ranks, "BOOL").arity(Switch).resumable().unhashed();
    /// Batch norm over the batch of all processes, not over the part of each.
    sync_batch_norm: bool => Facts::named(Ranks).arity(Flag);
    /// Add the gradients of processes in their order, on GPUs too: the bytes of one process with {accumulate}.
    rank_order: bool => Facts::named(Ranks).arity(Flag);
    /// Clip the global gradient norm to X; 0 for no clipping.
    clip: f64 => Facts::of(Training, "X").range(Range::AtLeast(0.0)).shapes();
    /// Dropout rate.
    dropout: f64 => Facts::of(Model, "X").shapes();
    /// Precision: f32, f64, tf32 (GPU only), bf16 or f16. The last two keep weights, norms and losses in f32.
    dtype: Precision => Facts::named(Training).shapes();
    /// Device: auto (first usable GPU, otherwise the CPU), cpu, cuda, cuda:N, or null (a dry run that computes nothing)
    /// [default: auto].
    device: Device => Facts::named(Computing).resumable().unhashed();
    /// Where it computed last, for information.
    computed_on: Device => Facts::by_run();
    /// CPU threads; results do not depend on them.
    threads: usize => Facts::of(Computing, "N").range(Range::Whole(1, 1024)).resumable().unhashed();
    /// Seed of generated data, initial weights, shuffling and dropout.
    seed: u64 => Facts::of(Training, "N").range(Range::Whole(0, i64::MAX as usize)).unhashed();
    /// Order of the training windows: shuffle or sequential.
    order: Order => Facts::named(Training);
    /// Random generator: philox, or pytorch (matches torch.manual_seed) [default: the preset's, otherwise philox].
    draws: Draws => Facts::named(Training);
    /// Start from these weights: `zero-shot` for the pretrained model of the program; safetensors, a state dict of torch, or a directory
    /// of Hugging Face transformers.
    init: PathBuf => Facts::of(Model, "W");
    /// Freeze parameters whose name contains PATTERN. Repeat for more.
    freeze: Vec<String> => Facts::of(Model, "PATTERN").arity(Repeated);
    /// Loss: mse, mae or huber [default: mse]; normal, student-t or negative-binomial (counts) to predict a distribution;
    /// cross-entropy for classes.
    loss: String => Facts::named(Training);
    /// Huber loss: largest error that is squared [default: 1].
    huber_delta: f64 => Facts::of(Training, "X").range(Range::Above(0.0));
    /// Forecast these quantiles: of the distribution [default: 0.1,0.5,0.9], or with the quantile loss (0.5 must be one).
    quantiles: Vec<f64> => Facts::of(Uncertainty, "Q,Q").arity(List);
    /// Prediction intervals of these levels in percent, as in 80,95: of the test windows, and of every later forecast.
    interval: Vec<f64> => Facts::of(Uncertainty, "P,P").arity(List).unhashed();
    /// Stop after N epochs without improvement of the validation error; 0 for never.
    patience: usize => Facts::of(Training, "N");
    /// Show every Nth step; metrics.jsonl has them all [default: 50].
    log_every: usize => Facts::of(Computing, "N").positive().resumable().unhashed();
    /// Write a checkpoint every N steps too; one is written every minute.
    checkpoint_every: usize => Facts::of(Training, "N").positive().resumable().unhashed();
    /// Options of the network, as its model declares them; over those of the preset.
    network: NetworkOptions => Facts::named(Model);
    /// Tokens, classes and features of samples.
    names: TokenNames => Facts::by_run();
    /// Statistics of the columns, for each series; of the features, for each token.
    scaler: Vec<ScalerTable> => Facts::by_run();
    /// What validation chose, by the default recipe.
    forecaster: Forecaster => Facts::by_run();
    /// What the weights of its pretrained network are, where they are named.
    pretrained_weights: NamedNetwork => Facts { hashed: true, ..Facts::by_run() };
    /// Which windows choose, of a run that is compared with others.
    compared: SameWindows => Facts::by_run();
    /// Kernels that were tuned for its instructions; a run that was asked to tune keeps them.
    kernels: Choices => Facts::by_run();
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

    /// These settings over those of a file: where both have a value, these win.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`] when the file's network belongs to another preset than this one.
    pub fn over(&self, base: &Self) -> Result<Self, SettingsError> {
        if let (Some(preset), Some(other), Some(_)) = (&self.preset, &base.preset, &base.network)
            && preset != other
        {
            return Err(SettingsError::Conflict {
                first: Text::given("preset", preset),
                second: "the file's [network]".into(),
                why: "that table's values would replace the preset's; remove one of them".into(),
            });
        }
        let dropped: Vec<&str> =
            self.given().flat_map(|setting| setting.facts.drops.iter().copied()).collect();
        let network = match (&self.network, &base.network) {
            (Some(own), Some(base)) => Some(own.over(base)),
            (own, base) => own.clone().or_else(|| base.clone()),
        };
        let base = base.clone().without(|setting| dropped.contains(&setting.name));
        Ok(Self { network, ..self.clone().or(base) })
    }

    /// The settings that are given.
    pub fn given(&self) -> impl Iterator<Item = &'static Setting> + '_ {
        SETTINGS.iter().zip(self.values()).filter_map(|(setting, value)| value.map(|_| setting))
    }

    /// The setting of a name that is given, if it is.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given().any(|setting| setting.name == name)
    }

    /// Refuses numbers that are out of their setting's range.
    ///
    /// # Errors
    /// [`SettingsError::Range`].
    pub(super) fn check_ranges(&self) -> Result<(), SettingsError> {
        for (setting, value) in SETTINGS.iter().zip(self.values()) {
            if let Some((value, rule)) = value.and_then(|value| setting.out_of_range(value)) {
                let setting = Text::setting(setting.name);
                return Err(SettingsError::Range { setting, value, rule: rule.into() });
            }
        }
        self.network.as_ref().map_or(Ok(()), NetworkOptions::check_sizes)
    }

    /// These settings without what a run has measured or chosen: a new run does so for itself.
    #[must_use]
    pub fn for_new_run(mut self) -> Self {
        if self.scaler.is_some() && self.data.is_none() {
            self.columns = None;
        }
        self.without(|setting| !setting.by_person())
    }

    /// The first setting given that a resumed run may not change.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`].
    pub fn changes_nothing_else(&self) -> Result<(), SettingsError> {
        match self.given().find(|setting| !setting.facts.resumable) {
            None => Ok(()),
            Some(setting) => {
                let changeable = SETTINGS.iter().filter(|setting| setting.facts.resumable);
                let mut why = Text::plain("a resumed run keeps its settings; only ");
                for (i, setting) in changeable.enumerate() {
                    why = why.and(if i > 0 { ", " } else { "" }).and(Text::setting(setting.name));
                }
                Err(SettingsError::Conflict {
                    first: Text::setting(setting.name),
                    second: Text::setting("resume"),
                    why: why.and(" may be given"),
                })
            }
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
        let init = self.init.as_ref().map(|_| PathBuf::from("given"));
        let counted = Self { init, ..self.clone().without(|setting| !setting.facts.hashed) };
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
    use crate::run::values::named;

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
            "dtype = \"tf32\" and device = \"cpu\": TF32 is for products on CUDA devices; use dtype = \"f32\" on the CPU"
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
            "preset = \"patchtst-64\" and the file's [network]: that table's values would replace the preset's; \
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
            "lr and resume: a resumed run keeps its settings; only epochs, max-steps, shard-optimizer, device, threads, \
             log-every, checkpoint-every may be given"
        );
        let given = Settings { threads: Some(1), ..Settings::default() };
        assert!(given.changes_nothing_else().is_ok());
    }
}
