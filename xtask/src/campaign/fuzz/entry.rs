//! What is fuzzed: the functions of the library that read what a person or a disk may have damaged.
//!
//! Every input must be refused by an error of one line, or be accepted with finite results.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use landfall::tune::{Cache, tune};
use landfall::{DType, Engine, Graph, Program, State, StateSpec};
use landfall_forecast::chronos;
use landfall_forecast::run::{Settings, Synthetic};
use landfall_train::checkpoint::{File, Progress, load_checkpoint, save};
use landfall_train::data::{
    Column, DataError, Frame, Panel, ReadOptions, Segment, Split, TimeUnit, WindowedPanel, parse,
};
use landfall_train::models::ModelKind;
use landfall_train::models::chronos::Chronos2Config;
use landfall_train::train::{Dataset, Session};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The text of a CSV file, to windows that a model trains on.
    Csv,
    /// A table in Arrow's file form, as a run keeps a frame, to windows that a model trains on.
    Frame,
    /// The text of a configuration, to a network and options.
    Config,
    /// A checkpoint, to the state of a session.
    Checkpoint,
    /// An entry of the cache of tuned kernels.
    TuneCache,
    /// The weights of a Chronos-2, to parameters that are all finite.
    Chronos,
}

impl Target {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Frame => "frame",
            Self::Config => "config",
            Self::Checkpoint => "checkpoint",
            Self::TuneCache => "tune-cache",
            Self::Chronos => "chronos",
        }
    }
}

impl ValueEnum for Target {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Csv, Self::Frame, Self::Config, Self::Checkpoint, Self::TuneCache, Self::Chronos]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// The file of the weights in a folder of Chronos-2.
const WEIGHTS: &str = "model.safetensors";

/// Whether an input was accepted; or what is wrong with what became of it.
pub(crate) type Verdict = Result<bool, String>;

/// A target, ready to take inputs.
pub(crate) enum Entry {
    /// Text alone.
    Csv,
    /// The file that is read.
    Frame(PathBuf),
    /// Text alone.
    Config,
    /// A session, and the file that it loads.
    Checkpoint(Box<Session>, PathBuf),
    /// A cache that holds one entry, its file and its instruction.
    TuneCache(Engine, Cache, PathBuf, String),
    /// The folder of the weights.
    Chronos(PathBuf),
}

fn text(e: impl Display) -> String {
    e.to_string()
}

/// An error must be one line.
fn refused(e: impl Display) -> Verdict {
    let said = e.to_string();
    match said.lines().count() {
        1 => Ok(false),
        lines => Err(format!("an error of {lines} lines: {said:?}")),
    }
}

impl Entry {
    /// A target that may keep files in a folder.
    ///
    /// # Errors
    /// What keeps it from being set up.
    pub(crate) fn new(target: Target, folder: &Path) -> Result<Self, String> {
        match target {
            Target::Csv => Ok(Self::Csv),
            Target::Frame => Ok(Self::Frame(folder.join("data.arrow"))),
            Target::Config => Ok(Self::Config),
            Target::Checkpoint => {
                Ok(Self::Checkpoint(Box::new(session()?), folder.join("checkpoint.safetensors")))
            }
            Target::TuneCache => tuned(folder),
            Target::Chronos => {
                chronos(folder)?;
                Ok(Self::Chronos(folder.to_owned()))
            }
        }
    }

    /// Gives it one input.
    ///
    /// # Errors
    /// What must not happen: a result that is not finite, an error of several lines.
    pub(crate) fn call(&mut self, bytes: &[u8]) -> Verdict {
        match self {
            Self::Csv => match parse(bytes, "f.csv", &ReadOptions::default()) {
                Ok(series) => read_panel(Panel::new(vec![series])),
                Err(e) => refused(e),
            },
            Self::Frame(path) => {
                std::fs::write(&*path, bytes).map_err(text)?;
                match Frame::read(path) {
                    Ok(frame) => read_panel(frame.panel("data.arrow", &ReadOptions::default())),
                    Err(e) => refused(e),
                }
            }
            Self::Config => read_config(bytes),
            Self::Checkpoint(session, path) => {
                std::fs::write(&*path, bytes).map_err(text)?;
                read_checkpoint(session, path)
            }
            Self::TuneCache(engine, cache, path, instruction) => {
                std::fs::write(&*path, bytes).map_err(text)?;
                match cache.kernel(instruction, engine) {
                    Ok(Some(_)) => Ok(true),
                    Ok(None) => Err("the entry's file is there and was not looked at".to_owned()),
                    Err(notice) => refused(notice),
                }
            }
            Self::Chronos(folder) => {
                std::fs::write(folder.join(WEIGHTS), bytes).map_err(text)?;
                read_chronos(folder)
            }
        }
    }

    /// A sound input, from which others are made.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub(crate) fn sound(&self) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Csv | Self::Config => Ok(None),
            Self::Frame(path) => {
                let file = std::fs::File::create(path).map_err(text)?;
                frame()?.write_arrow(file).map_err(text)?;
                std::fs::read(path).map(Some).map_err(text)
            }
            Self::Checkpoint(session, path) => {
                let progress = Progress { step: 3, epoch: 0, batch: 3, best: Some((0.5, 2)), since_best: 1 };
                save(path, session, "model = \"nlinear\"\n", &progress, true).map_err(text)?;
                std::fs::read(path).map(Some).map_err(text)
            }
            Self::TuneCache(_, _, path, _) => std::fs::read(path).map(Some).map_err(text),
            Self::Chronos(folder) => {
                chronos(folder)?;
                std::fs::read(folder.join(WEIGHTS)).map(Some).map_err(text)
            }
        }
    }
}

/// A frame with a date, a number, an integer with gaps, a name and a category, of two series.
fn frame() -> Result<Frame, String> {
    let rows = 0..40;
    let ids = rows.clone().map(|i| if i < 20 { "a" } else { "b" });
    let day = |i: i64| 1_600_000_000 + 86_400 * (i % 20);
    Frame::new(vec![
        ("unique_id".to_owned(), Column::texts(ids.map(Some))),
        ("ds".to_owned(), Column::dates(rows.clone().map(day).collect(), TimeUnit::Second, false)),
        ("y".to_owned(), Column::numbers(rows.clone().map(|i| 10.0 + (i * 37 % 101) as f64 / 7.0).collect())),
        ("x".to_owned(), Column::integers(rows.map(|i| (i % 7 != 0).then_some(i)).collect())),
    ])
    .map_err(text)
}

/// What was read, to windows.
fn read_panel(panel: Result<Panel, DataError>) -> Verdict {
    let panel = match panel {
        Ok(panel) => panel,
        Err(e) => return refused(e),
    };
    let values = || panel.series().iter().flat_map(|series| series.values().iter().flatten());
    if let Some(x) = values().find(|x| !x.is_finite()) {
        return Err(format!("a value of {x} was read"));
    }
    if let Some(line) = panel.summary().lines().iter().find(|line| line.contains('\n')) {
        return Err(format!("a line of the summary has several lines: {line:?}"));
    }
    let split = Split::Ratio { train: 0.7, val: 0.1, test: 0.2 };
    let panel = match WindowedPanel::fit(panel, split, 4, 2) {
        Ok(panel) => panel,
        Err(e) => return refused(e),
    };
    for m in panel.members() {
        match m.scaler.scale_f64(&m.series) {
            Ok(scaled) => {
                if let Some(x) = scaled.iter().find(|x| !x.is_finite()) {
                    return Err(format!("a scaled value of {x}"));
                }
            }
            Err(e) => return refused(e),
        }
    }
    match Dataset::windowed(&panel) {
        Ok(data) if data.span(Segment::Train).count == 0 => {
            Err("data without a training window was accepted".to_owned())
        }
        Ok(_) => Ok(true),
        Err(e) => refused(e),
    }
}

fn read_config(bytes: &[u8]) -> Verdict {
    let Ok(config) = std::str::from_utf8(bytes) else { return Ok(false) };
    let settings = match Settings::parse(config, Path::new("config.toml")) {
        Ok(settings) => settings,
        Err(e) => return refused(e),
    };
    let resolved = match settings.resolve() {
        Ok(resolved) => resolved,
        Err(e) => return refused(e),
    };
    let t = &resolved.training;
    let numbers = [t.lr, t.betas.first, t.betas.second, t.weight_decay, t.clip.unwrap_or(0.0)];
    if let Some(x) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(format!("an option of {x} was accepted"));
    }
    // What a run would write must read back as the same run.
    let written = match resolved.settings.to_toml() {
        Ok(written) => written,
        Err(e) => return refused(e),
    };
    let again = Settings::parse(&written, Path::new("config.toml"))
        .map_err(|e| format!("what a run writes is refused: {e}"))?;
    let again = again.resolve().map_err(|e| format!("what a run writes does not fit: {e}"))?;
    let same =
        again.settings.to_toml().is_ok_and(|text| text == written) && again.network == resolved.network;
    if same { Ok(true) } else { Err("what a run writes reads back as another run".to_owned()) }
}

/// A session of a small model that holds blank data.
fn session() -> Result<Session, String> {
    let settings = Settings {
        model: Some(ModelKind::Nlinear),
        synthetic: Some(Synthetic::Demo),
        context: Some(4),
        horizon: Some(2),
        batch: Some(2),
        max_steps: Some(10),
        ..Settings::default()
    };
    let engine = Engine::cpu_with_threads(1).map_err(text)?;
    settings.resolve().map_err(text)?.session(&engine, &Dataset::blank(1, 4, 2, 8)).map_err(text)
}

/// All numbers of a session that a file brings.
fn weights(session: &Session) -> Result<Vec<f64>, String> {
    let parameters = session.model().parameters();
    let mut all = Vec::new();
    for p in parameters.list() {
        all.extend(session.state.read_host(&p.name).map_err(text)?.data);
    }
    Ok(all)
}

fn read_checkpoint(session: &mut Session, path: &Path) -> Verdict {
    let file = match File::read(path) {
        Ok(file) => file,
        Err(e) => return refused(e),
    };
    let before = weights(session)?;
    match load_checkpoint(path, &file, session) {
        Ok(progress) => {
            if progress.best.is_some_and(|(error, _)| !error.is_finite()) {
                return Err("a best error that is not finite was accepted".to_owned());
            }
            match weights(session)?.iter().find(|x| !x.is_finite()) {
                Some(x) => Err(format!("a weight of {x} was accepted")),
                None => Ok(true),
            }
        }
        Err(e) if weights(session)? == before => refused(e),
        Err(e) => Err(format!("a file that is refused changed the weights: {e}")),
    }
}

/// Writes a small Chronos-2 of initial weights.
fn chronos(folder: &Path) -> Result<(), String> {
    let sizes = Chronos2Config {
        patch: 4,
        context: 16,
        patches: 2,
        levels: vec![0.1, 0.5, 0.9],
        width: 8,
        features: 4,
        heads: 2,
        hidden: 8,
        layers: 1,
        arcsinh: true,
        time_scale: 16.0,
        eps: 1e-6,
        rope: 1e4,
    };
    chronos::Weights::initial(sizes, 1).and_then(|weights| weights.write(folder)).map_err(text)
}

fn read_chronos(folder: &Path) -> Verdict {
    let weights = match chronos::Weights::read(folder) {
        Ok(weights) => weights,
        Err(e) => return refused(e),
    };
    for parameter in weights.network.parameters().list() {
        let value = weights.value(parameter).map_err(|e| format!("what was read has no value: {e}"))?;
        if let Some(x) = value.data.iter().find(|x| !x.is_finite()) {
            return Err(format!("a weight of {x} was accepted"));
        }
    }
    Ok(true)
}

/// A cache with the choice for one product of matrices.
fn tuned(folder: &Path) -> Result<Entry, String> {
    let engine = Engine::cpu_with_threads(1).map_err(text)?;
    let spec = Arc::new(StateSpec::new());
    let state = State::new(&engine, &spec).map_err(text)?;
    let graph = Graph::new(&spec);
    let (x, w) = (graph.input("x", DType::F32, [200, 8]), graph.input("w", DType::F32, [8, 8]));
    graph.output("y", graph.matmul(x, w).map_err(text)?);
    let program = Program::compile(&engine, &state, "product", &graph).map_err(text)?;
    let cache = Cache::at(folder);
    tune(&engine, &program.tuning_cases(), Some(&cache), true).map_err(text)?;
    let files = std::fs::read_dir(folder).map_err(text)?.filter_map(Result::ok).map(|f| f.path());
    let path = files.into_iter().find(|f| f.extension().is_some_and(|e| e == "json"));
    let path = path.ok_or("the tuner kept no choice")?;
    let kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).map_err(text)?).map_err(text)?;
    let instruction = kept["entry"]["instruction"].as_str().ok_or("the entry names no instruction")?;
    Ok(Entry::TuneCache(engine, cache, path, instruction.to_owned()))
}
