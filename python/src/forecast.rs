//! Forecasting from Python, for `landfall/forecaster.py`. What computes is the program's own.

use crate::engines;
use landfall_cli::CliError;
use landfall_cli::forecasting::{Predictor, future as rows_ahead, levels_ahead, series};
use landfall_cli::training::{Begun, Ended, NewRun, Ready};
use landfall_train::checkpoint::CheckpointError;
use landfall_train::data::{DataError, Future, Panel, few};
use landfall_train::report::bound_names;
use landfall_train::run::{
    Device, EvaluationRecord, Forecast, Observer, OneOrMore, Run, RunError, SETTINGS, Settings,
    SettingsError, StepLine, Text, Weights, Wording,
};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Between two looks at Python's signals while a run trains.
const LOOK: Duration = Duration::from_millis(50);

/// Stack of the thread that trains: that of a main thread.
const STACK: usize = 8 << 20;

/// Runs the program with a command line; its exit code.
#[pyfunction(name = "_program")]
pub(crate) fn program(py: Python<'_>, line: Vec<std::ffi::OsString>) -> PyResult<u8> {
    engines::preload(py)?;
    Ok(py.detach(|| landfall_cli::program(line)))
}

/// The settings that a forecaster takes: the name of each, and what it is.
#[pyfunction(name = "_keywords")]
pub(crate) fn keywords() -> Vec<(&'static str, String)> {
    let given = SETTINGS.iter().filter(|setting| setting.by_person());
    given.map(|setting| (setting.name, setting.help(&Keywords))).collect()
}

/// Checks that settings, an object of JSON, fit together.
#[pyfunction(name = "_check")]
pub(crate) fn check(py: Python<'_>, settings: &str) -> PyResult<()> {
    let checked = || -> Result<(), CliError> {
        let settings = parsed(settings)?;
        let data = Some(OneOrMore(vec![PathBuf::from("data.csv")]));
        let resolved = Settings { data, ..settings }.resolve()?;
        if resolved.settings.device == Some(Device::Null) {
            let why =
                "null computes nothing, so there would be no forecasts; choose auto, cpu, cuda or cuda:N"
                    .to_owned();
            return Err(SettingsError::Keyword { key: "device".to_owned(), why }.into());
        }
        Ok(())
    };
    checked().map_err(|e| raised(py, &e))
}

/// Trains a new run on a file; the results as JSON. `out` is its directory, `frame` a description of the data frame, which the
/// directory keeps beside the file. `observer` is called with the name of an event and its JSON.
#[pyfunction(name = "_train")]
pub(crate) fn train(
    py: Python<'_>,
    settings: &str,
    data: PathBuf,
    out: Option<PathBuf>,
    frame: String,
    observer: &Bound<'_, PyAny>,
) -> PyResult<String> {
    engines::preload(py)?;
    watched(py, observer, |relay| {
        let settings = Settings { data: Some(OneOrMore(vec![data])), ..parsed(settings)? };
        let ready = Ready::new(NewRun { settings, out, frame: Some(frame), ..NewRun::default() })?;
        go(ready.begin()?, Vec::new(), relay)
    })
}

/// Goes on with a run, with changed settings; as `train`.
#[pyfunction(name = "_resume")]
pub(crate) fn resume(
    py: Python<'_>,
    run: PathBuf,
    settings: &str,
    observer: &Bound<'_, PyAny>,
) -> PyResult<String> {
    engines::preload(py)?;
    watched(py, observer, |relay| {
        let changes = parsed(settings)?;
        changes.changes_nothing_else()?;
        let (ready, notes) = Ready::resumed(&changes, &run, &landfall::World::single())?;
        go(ready.begin()?, notes, relay)
    })
}

/// Values of a further column of a forecast, and how its name ends: `_q0.1`, `-lo-80`.
type Further = (String, Vec<f64>);

/// The forecast of one series: its name, the nanoseconds since 1970 of its rows where it has dates, the values of each column,
/// and the quantiles and bounds of each.
type Forecasted = (String, Option<Vec<i64>>, Vec<Vec<f64>>, Vec<Vec<Further>>);

/// A file of series to continue, of none the run's own; the file of the rows to forecast, with the columns known in advance, or
/// none; and, where the first one ends before what is known now, the file with the rows after it, which intervals are made by.
type Files = (Option<PathBuf>, Option<PathBuf>, Option<PathBuf>);

/// Forecasts the rows after the last one of each file. Each answer is the forecasts of its series, and what a person has to
/// know.
#[pyfunction(name = "_forecast")]
pub(crate) fn forecast(
    py: Python<'_>,
    run: PathBuf,
    files: Vec<Files>,
    weights: &str,
    device: &str,
    threads: Option<usize>,
    intervals: Option<Vec<f64>>,
) -> PyResult<Vec<(Vec<Forecasted>, Vec<String>)>> {
    engines::preload(py)?;
    let forecasts = || -> Result<Vec<_>, CliError> {
        let weights = if weights == "last" { Weights::Last } else { Weights::Best };
        let device = device
            .parse::<Device>()
            .map_err(|why| SettingsError::Keyword { key: "device".to_owned(), why })?;
        let run = Run::open(&run)?;
        let horizon = run.resolved().network.horizon();
        let asked = intervals;
        let quantiles = run.levels().to_vec();
        let mut predictor = None;
        let mut all = Vec::with_capacity(files.len());
        for (data, future, longer) in &files {
            let panel = series(&run, data.as_slice(), None)?;
            let given = rows_ahead(&run, &panel, future.as_slice())?;
            let predictor = match &mut predictor {
                Some(predictor) => predictor,
                none @ None => none.insert(Predictor::new(run.clone(), weights, device, threads)?),
            };
            let ahead = given.as_ref().map(Future::Rows);
            let (mut forecasts, left_out) = predictor.forecast(&panel, ahead)?;
            let whole = longer.is_some().then(|| series(&run, longer.as_slice(), None)).transpose()?;
            let past = (whole.as_ref().unwrap_or(&panel), whole.as_ref().map(|_| &panel));
            let (intervals, note) = levels_ahead(&run, past, asked.as_deref())?;
            predictor.add_intervals(past, &intervals, &mut forecasts)?;
            let one = |f: Forecast| {
                let dates = f.context.dates().map(|dates| dates.future(horizon)).transpose()?;
                let stamps = dates.map(nanoseconds).transpose()?;
                let further = further(&f, &quantiles, &intervals);
                Ok((f.context.name().to_owned(), stamps, f.values, further))
            };
            let forecasts = forecasts.into_iter().map(one).collect::<Result<Vec<Forecasted>, CliError>>()?;
            let of_future = given.as_ref().map_or(&[][..], Panel::notices);
            let unread: Vec<String> = given.iter().filter_map(|_| unread(&run)).collect();
            let note: Vec<String> = note.into_iter().collect();
            all.push((forecasts, [panel.notices(), of_future, &few(&left_out), &unread, &note].concat()));
        }
        Ok(all)
    };
    py.detach(forecasts).map_err(|e| raised(py, &e))
}

/// That what a run forecasts with reads no columns known in advance, which were given.
fn unread(run: &Run) -> Option<String> {
    let chosen = run.forecaster().filter(|_| !run.needs_future())?;
    Some(format!("{} was chosen to forecast, and reads no columns known in advance", chosen.name()))
}

/// Quantiles and bounds of each column of a forecast.
fn further(f: &Forecast, quantiles: &[f64], intervals: &[f64]) -> Vec<Vec<Further>> {
    let of = |column: usize| {
        let levels = quantiles.iter().zip(f.quantiles.get(column).into_iter().flatten());
        let levels = levels.map(|(level, values)| (format!("_q{level:?}"), values.clone()));
        // A series with too few errors has no bounds.
        let steps = f.values.get(column).map_or(0, Vec::len);
        let unknown = || [vec![f64::NAN; steps], vec![f64::NAN; steps]];
        let own = f.intervals.get(column);
        let bounds = intervals.iter().enumerate().flat_map(|(i, level)| {
            let bounds = own.and_then(|own| own.get(i)).cloned().unwrap_or_else(unknown);
            bound_names("", *level).into_iter().zip(bounds)
        });
        levels.chain(bounds).collect()
    };
    (0..f.values.len()).map(of).collect()
}

/// Dates as nanoseconds since 1970.
fn nanoseconds(dates: Vec<chrono::NaiveDateTime>) -> Result<Vec<i64>, DataError> {
    let steps = dates.len();
    let one = |date: chrono::NaiveDateTime| {
        date.and_utc().timestamp_nanos_opt().ok_or(DataError::PastCalendar { last: date, steps })
    };
    dates.into_iter().map(one).collect()
}

/// Settings of an object of JSON.
fn parsed(text: &str) -> Result<Settings, CliError> {
    let unreadable = |why: String| SettingsError::Keyword { key: "settings".to_owned(), why };
    let object = serde_json::from_str(text).map_err(|e| unreadable(e.to_string()))?;
    Ok(Settings::of_keywords(&object)?)
}

/// Trains a run that has a directory to its end; the results, or none when it was stopped.
fn go(begun: Begun, changes: Vec<String>, relay: &mut Relay) -> Result<Option<Value>, CliError> {
    let (path, ready) = (begun.path().to_owned(), begun.ready());
    let words = |note: &Text| note.worded(&Keywords);
    let notes: Vec<String> = ready.notes().iter().map(words).chain(changes).collect();
    let steps = ready.steps();
    let device = ready.device().to_string();
    relay.tell(
        "started",
        json!({"folder": path, "device": device, "done": ready.done(), "steps": steps, "notes": notes}),
    );
    let Ended::Done(trained) = begun.fit(relay)? else { return Ok(None) };
    relay.tell("trained", json!({"steps": trained.steps()}));
    let stop = Arc::clone(&relay.stop);
    match trained.choose(&|| stop.load(Ordering::Relaxed))? {
        Ended::Done(finished) => {
            let mut object = finished.object(&path);
            object["unbeaten"] = json!(finished.unbeaten().map(|line| keywords_of(&line)));
            object["verdict"] = finished.verdict().iter().map(|line| keywords_of(line)).collect();
            Ok(Some(object))
        }
        Ended::Interrupted { .. } => Ok(None),
    }
}

/// An event of a run: its name, and an object of JSON.
type Event = (&'static str, Value);

/// Hands the events of a run over to the thread that Python calls from.
struct Relay {
    events: Sender<Event>,
    stop: Arc<AtomicBool>,
    /// When progress was last told.
    told: Instant,
}

impl Relay {
    fn tell(&self, name: &'static str, what: Value) {
        // Without a listener the run is about to be stopped.
        let _ = self.events.send((name, what));
    }
}

impl Observer for Relay {
    fn step(&mut self, line: &StepLine) {
        self.tell("step", json!(line));
    }

    fn progress(&mut self, done: usize, total: usize) {
        if done == total || self.told.elapsed() >= LOOK {
            self.told = Instant::now();
            self.tell("progress", json!({"done": done, "steps": total}));
        }
    }

    fn evaluation(&mut self, record: &EvaluationRecord, best: bool) {
        self.tell("evaluation", json!({"record": record, "best": best}));
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Trains in a thread of its own, while this one, which may be Python's main thread, looks for signals and tells the observer
/// of events. A signal, such as Ctrl-C, and an exception of the observer end the run after its step, with a checkpoint; then
/// they are raised.
fn watched(
    py: Python<'_>,
    observer: &Bound<'_, PyAny>,
    work: impl FnOnce(&mut Relay) -> Result<Option<Value>, CliError> + Send,
) -> PyResult<String> {
    let (events, mut received) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let mut relay = Relay { events, stop: Arc::clone(&stop), told: Instant::now() };
    let mut exception = None;
    let ended = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("landfall-train".to_owned()).stack_size(STACK);
        let worker = thread.spawn_scoped(scope, move || work(&mut relay))?;
        let mut open = true;
        while open {
            let events: Vec<Event>;
            (events, open) = py.detach(|| next(&mut received));
            let told = || -> PyResult<()> {
                py.check_signals()?;
                events.iter().try_for_each(|(name, what)| observer.call1((*name, what.to_string())).map(drop))
            };
            if exception.is_none()
                && let Err(e) = told()
            {
                stop.store(true, Ordering::Relaxed);
                exception = Some(e);
            }
        }
        py.detach(|| worker.join()).map_err(|_| internal(py, "the thread of the run panicked"))
    })?;
    match (exception, ended) {
        (Some(e), _) => Err(e),
        (None, Ok(Some(results))) => Ok(results.to_string()),
        (None, Ok(None)) => Err(internal(py, "the run stopped and nothing stopped it")),
        (None, Err(e)) => Err(raised(py, &e)),
    }
}

/// The events so far, after a moment at most; and whether more may come.
fn next(received: &mut Receiver<Event>) -> (Vec<Event>, bool) {
    match received.recv_timeout(LOOK) {
        Ok(first) => (std::iter::once(first).chain(received.try_iter()).collect(), true),
        Err(RecvTimeoutError::Timeout) => (Vec::new(), true),
        Err(RecvTimeoutError::Disconnected) => (Vec::new(), false),
    }
}

/// An error as the exception of its kind.
fn raised(py: Python<'_>, e: &CliError) -> PyErr {
    exception(py, class(e), &in_python(e))
}

/// A defect of this program.
fn internal(py: Python<'_>, what: &str) -> PyErr {
    exception(py, "Error", &format!("internal error: {what}; please report it with the code that you ran"))
}

/// An exception of a class of `landfall.errors`.
fn exception(py: Python<'_>, class: &str, text: &str) -> PyErr {
    match py.import("landfall.errors").and_then(|errors| errors.getattr(class)?.call1((text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(other) => other,
    }
}

/// The name of the class of an error.
fn class(e: &CliError) -> &'static str {
    let of_run = if let CliError::Run(e) | CliError::During(e) = e { Some(e) } else { None };
    let diverged = matches!(
        of_run,
        Some(
            RunError::NonFinite { .. }
                | RunError::Diverged { .. }
                | RunError::Checkpoint(CheckpointError::Diverged { .. })
        )
    );
    let file = matches!(
        of_run,
        Some(
            RunError::Exists { .. }
                | RunError::InUse { .. }
                | RunError::Gone { .. }
                | RunError::NotARun { .. }
                | RunError::NoCheckpoint { .. }
                | RunError::Write { .. }
                | RunError::NoWeights { .. }
                | RunError::Checkpoint(_)
                | RunError::Data(DataError::FileMissing { .. } | DataError::Unreadable { .. })
                | RunError::Settings(SettingsError::Read { .. } | SettingsError::Version { .. })
        )
    ) || matches!(e, CliError::Write { .. });
    let device = matches!(of_run, Some(RunError::Engine(_))) || matches!(e, CliError::NoDevice { .. });
    if diverged {
        "NonFiniteError"
    } else if file {
        "FileError"
    } else if device {
        "DeviceError"
    } else if matches!(of_run, Some(RunError::Data(DataError::UnknownColumn { .. }))) {
        "MissingColumnError"
    } else {
        "InvalidValueError"
    }
}

/// How Python writes settings: as keywords, `max_steps=100`.
struct Keywords;

impl Wording for Keywords {
    fn setting(&self, name: &str, value: Option<&str>) -> String {
        value.map_or_else(|| name.to_owned(), |value| format!("{name}={}", literal(value)))
    }

    fn option(&self, name: &str, value: Option<&str>) -> String {
        value.map_or_else(
            || format!("network[\"{name}\"]"),
            |value| format!("network={{\"{name}\": {}}}", literal(value)),
        )
    }
}

/// A value as Python writes it: a number, a truth value, a list of numbers, or a text.
fn literal(value: &str) -> String {
    let number = |text: &str| text.parse::<f64>().is_ok();
    match value {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        _ if number(value) => value.to_owned(),
        _ if value.split(',').all(number) => format!("[{}]", value.replace(',', ", ")),
        _ => format!("\"{value}\""),
    }
}

/// The message of an error.
fn in_python(e: &CliError) -> String {
    if let CliError::Run(RunError::Exists { path }) = e {
        return exists(path);
    }
    let of_run = if let CliError::Run(e) | CliError::During(e) = e { Some(e) } else { None };
    // What reads data says flags of its own.
    if let Some(e) = of_run.filter(|e| !matches!(e, RunError::Data(_))) {
        return e.worded(&Keywords);
    }
    // Rows to forecast are a frame here, and no file.
    keywords_of(&e.to_string()).replace("--future FILE", "futr_df").replace("--future", "futr_df")
}

/// A sentence with keywords for the flags of the program.
fn keywords_of(text: &str) -> String {
    let mut flags = Settings::keywords();
    // The longer of two that begin alike first.
    flags.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let flag = |name: &str| format!("--{}", name.replace('_', "-"));
    flags.iter().fold(text.to_owned(), |text, name| text.replace(&flag(name), name))
}

fn exists(path: &Path) -> String {
    let path = path.display();
    format!(
        "the run directory {path} already exists; choose another folder, or load it with Forecaster.load(\"{path}\") and \
         resume() it"
    )
}
