//! Forecasting from Python, for `landfall/forecaster.py`. What computes is the program's own.

use crate::columns::{Columns, bytes};
use crate::engines;
use crate::failure::{Failure, internal, raised};
use landfall_forecast::ForecastError;
use landfall_forecast::chronos;
use landfall_forecast::comparing::{Contender, How, Plan, Watcher, compare};
use landfall_forecast::forecasting::{Predictor, future_of_frame, levels_ahead, series, series_of_frame};
use landfall_forecast::pretrained_network::SHIPPED;
use landfall_forecast::report::bound_names;
use landfall_forecast::run::{
    Device, EvaluationRecord, Forecast, KEPT_DATA, Observer, OneOrMore, Run, RunError, SETTINGS, Settings,
    SettingsError, StepLine, Weights,
};
use landfall_forecast::training::{Begun, Ended, KeptFrame, NewRun, Ready};
use landfall_forecast::without_run::{self, PanelForecaster, Spread};
use landfall_forecast::zero_shot::Weights as PretrainedWeights;
use landfall_train::data::{DataError, Future, Panel, SeriesError, Spelling, few};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Between two looks at Python's signals while a run trains.
const LOOK: Duration = Duration::from_millis(50);

/// Stack of the thread that trains: that of a main thread.
const STACK: usize = 8 << 20;

/// What messages call the frame of a forecaster, and that of the rows to forecast.
const FRAME: &str = "the frame";
const FUTURE: &str = "futr_df";

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
    Spelling::Keyword.within(|| given.map(|setting| (setting.name, setting.help())).collect())
}

/// Checks that settings, an object of JSON, fit together.
#[pyfunction(name = "_check")]
pub(crate) fn check(py: Python<'_>, settings: &str) -> PyResult<()> {
    let checked = || -> Result<(), ForecastError> {
        let settings = parsed(settings)?;
        let data = Some(OneOrMore(vec![PathBuf::from(KEPT_DATA)]));
        let resolved = Settings { data, ..settings }.resolve()?;
        if resolved.settings.device == Some(Device::Null) {
            let why =
                "null computes nothing, so there would be no forecasts; choose auto, cpu, cuda or cuda:N"
                    .to_owned();
            return Err(SettingsError::Keyword { key: "device".to_owned(), why }.into());
        }
        Ok(())
    };
    checked().map_err(|e| raised(py, &e.into()))
}

/// Trains a new run on a data frame; the results as JSON. `out` is its directory, which keeps the frame and its description.
/// `observer` is called with the name of an event and its JSON.
#[pyfunction(name = "_train")]
pub(crate) fn train(
    py: Python<'_>,
    settings: &str,
    columns: &Columns,
    out: Option<PathBuf>,
    description: String,
    observer: &Bound<'_, PyAny>,
) -> PyResult<String> {
    engines::preload(py)?;
    let frame = KeptFrame { columns: columns.0.clone(), source: FRAME.to_owned(), description };
    watched(py, observer, |relay| {
        let ready =
            Ready::new(NewRun { settings: parsed(settings)?, out, frame: Some(frame), ..NewRun::default() })?;
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

/// The forecasters that may be compared: the name of each, and its settings as an object of JSON.
#[pyfunction(name = "_contenders")]
pub(crate) fn contenders() -> Vec<(&'static str, String)> {
    let of = |one: Contender| {
        let shared = Settings { pretrained: Some(SHIPPED.into()), ..Settings::default() };
        let Settings { model, candidates, ensemble, pretrained, .. } = one.settings(&shared);
        let mut own = json!({"model": model, "candidates": candidates, "ensemble": ensemble});
        if let Some(own) = own.as_object_mut() {
            own.retain(|_, value| !value.is_null());
            if pretrained.is_none() {
                // It has no network that weights could be named for.
                own.insert("pretrained".to_owned(), Value::Null);
            }
        }
        (one.name(), own.to_string())
    };
    Contender::all().into_iter().map(of).collect()
}

/// Checks that these forecasters can be compared, by their names, and that they can share these settings.
#[pyfunction(name = "_check_comparison")]
pub(crate) fn check_comparison(py: Python<'_>, names: Vec<String>, settings: &str) -> PyResult<()> {
    let checked = || -> Result<(), ForecastError> {
        Contender::named(&names)?;
        Ok(Plan::check(&parsed(settings)?)?)
    };
    Spelling::Keyword.within(checked).map_err(|e| raised(py, &e.into()))
}

/// Compares forecasters on a data frame, or goes on with the comparison in this directory; the leaderboard as JSON. Each run keeps the
/// frame and its description, which `describe` gives for the name of a candidate. `observer` is as that of `train`.
#[pyfunction(name = "_compare")]
pub(crate) fn compare_frame(
    py: Python<'_>,
    names: Vec<String>,
    settings: &str,
    columns: &Columns,
    out: PathBuf,
    descriptions: HashMap<String, String>,
    observer: &Bound<'_, PyAny>,
) -> PyResult<String> {
    engines::preload(py)?;
    let frame =
        |description: String| KeptFrame { columns: columns.0.clone(), source: FRAME.to_owned(), description };
    let of = |one: Contender| frame(descriptions.get(one.name()).cloned().unwrap_or_default());
    watched(py, observer, |relay| {
        let plan = if Plan::is_in(&out) {
            Plan::read(&out)?
        } else {
            if out.exists() {
                return Err(RunError::Exists { path: out.clone() }.into());
            }
            let contenders = Contender::named(&names)?;
            let planned = Plan::made(parsed(settings)?, &contenders, Some(&frame(String::new())))?;
            planned.plan.write(&out)?;
            planned.plan
        };
        Ok(compare(&plan, &out, Some(&of), relay)?.map(|leaderboard| json!(leaderboard)))
    })
}

/// Series to continue, of none the run's own; the rows to forecast, with the columns known in advance, or none; and, where the
/// first ones end before what is known now, the series with the rows after it, which intervals are made by.
type Given = (Option<Py<Columns>>, Option<Py<Columns>>, Option<Py<Columns>>);

/// The forecasts of some series, series by series in each list of numbers: the names of the series; the rows of each; the
/// nanoseconds since 1970 of the rows where they have dates; of each column to forecast the values, and its quantiles and bounds
/// by how their names end: `_q0.1`, `-lo-80`; and what a person has to know.
type Forecasted<'py> = (
    Vec<String>,
    usize,
    Option<Bound<'py, PyBytes>>,
    Vec<Bound<'py, PyBytes>>,
    Vec<Vec<(String, Bound<'py, PyBytes>)>>,
    Vec<String>,
);

/// Forecasts the rows after the last ones of each frame.
#[pyfunction(name = "_forecast")]
pub(crate) fn forecast<'py>(
    py: Python<'py>,
    run: PathBuf,
    frames: Vec<Given>,
    weights: &str,
    device: &str,
    threads: Option<usize>,
    intervals: Option<Vec<f64>>,
) -> PyResult<Vec<Forecasted<'py>>> {
    engines::preload(py)?;
    let frame = |columns: &Option<Py<Columns>>| columns.as_ref().map(|columns| columns.get().0.clone());
    let frames: Vec<_> = frames.iter().map(|(own, ahead, longer)| [own, ahead, longer].map(frame)).collect();
    let forecasts = || -> Result<Vec<Forecasts>, Failure> {
        let weights = if weights == "last" { Weights::Last } else { Weights::Best };
        let device = device
            .parse::<Device>()
            .map_err(|why| SettingsError::Keyword { key: "device".to_owned(), why })?;
        let run = Run::open(&run)?;
        let asked = intervals;
        let mut predictor = None;
        let mut all = Vec::with_capacity(frames.len());
        for [own, ahead, longer] in &frames {
            let panel = match own {
                Some(frame) => series_of_frame(&run, frame, FRAME)?,
                None => series(&run, &[], None)?,
            };
            let given = future_of_frame(&run, &panel, (ahead.as_ref(), FUTURE))?;
            let predictor = match &mut predictor {
                Some(predictor) => predictor,
                none @ None => none.insert(Predictor::new(run.clone(), weights, device, threads)?),
            };
            let (mut forecasts, left_out) = predictor.forecast(&panel, given.as_ref().map(Future::Rows))?;
            let whole = longer.as_ref().map(|frame| series_of_frame(&run, frame, FRAME)).transpose()?;
            let past = (whole.as_ref().unwrap_or(&panel), whole.as_ref().map(|_| &panel));
            let (intervals, note) = levels_ahead(&run, past, asked.as_deref()).map_err(Failure::Intervals)?;
            predictor.add_intervals(past, &intervals, &mut forecasts)?;
            let of_future = given.as_ref().map_or(&[][..], Panel::notices);
            let unread: Vec<String> = given.iter().filter_map(|_| unread(&run)).collect();
            let note: Vec<String> = note.into_iter().collect();
            let notes = [panel.notices(), of_future, &few(&left_out), &unread, &note].concat();
            let steps = run.resolved().network.horizon();
            all.push(Forecasts::of(steps, (run.levels(), &intervals), &forecasts, notes)?);
        }
        Ok(all)
    };
    let all = py.detach(|| Spelling::Keyword.within(forecasts)).map_err(|e| raised(py, &e))?;
    Ok(all.into_iter().map(|forecasts| forecasts.columns(py)).collect())
}

/// Checks that a file holds weights of the pretrained forecaster.
#[pyfunction(name = "_check_pretrained")]
pub(crate) fn check_pretrained(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let read = py.detach(|| -> Result<(), ForecastError> {
        if path.is_dir() {
            return Ok(chronos::Weights::read(&path).map(drop)?);
        }
        Ok(PretrainedWeights::read(&path).map(drop)?)
    });
    read.map_err(|why| raised(py, &why.into()))
}

/// Forecasts the rows after the last ones of each frame by the pretrained forecaster. `settings`, an object of JSON, say how the
/// frames are read, the horizon, the quantiles and where it computes; `pretrained` is a file of weights in place of the package's.
#[pyfunction(name = "_forecast_without_run", signature = (settings, frames, intervals, pretrained = None))]
pub(crate) fn forecast_without_run<'py>(
    py: Python<'py>,
    settings: &str,
    frames: Vec<Py<Columns>>,
    intervals: Vec<f64>,
    pretrained: Option<PathBuf>,
) -> PyResult<Vec<Forecasted<'py>>> {
    engines::preload(py)?;
    let frames: Vec<_> = frames.iter().map(|columns| columns.get().0.clone()).collect();
    let forecasts = || -> Result<Vec<Forecasts>, Failure> {
        let settings = parsed(settings)?;
        let levels = settings.quantiles.clone().unwrap_or_default();
        let spread = Spread { quantiles: &levels, intervals: &intervals };
        let (horizon, device) = (settings.horizon.unwrap_or(0), settings.device.unwrap_or(Device::Auto));
        let mut forecaster = PanelForecaster::new(pretrained.as_deref(), device, settings.threads)?;
        without_run::check(horizon, forecaster.most_rows(), spread)?;
        let mut one = |frame| -> Result<Forecasts, Failure> {
            let panel = without_run::series_of_frame(&settings, frame, FRAME)?;
            let forecasts = forecaster.forecast(&panel, horizon, spread)?;
            let notes = panel.notices().to_vec();
            Ok(Forecasts::of(horizon, (&levels, &intervals), &forecasts, notes)?)
        };
        frames.iter().map(&mut one).collect()
    };
    let all = py.detach(|| Spelling::Keyword.within(forecasts)).map_err(|e| raised(py, &e))?;
    Ok(all.into_iter().map(|forecasts| forecasts.columns(py)).collect())
}

/// The forecasts of some series: see [`Forecasted`].
struct Forecasts {
    names: Vec<String>,
    steps: usize,
    stamps: Option<Vec<i64>>,
    values: Vec<Vec<f64>>,
    further: Vec<Vec<(String, Vec<f64>)>>,
    notes: Vec<String>,
}

impl Forecasts {
    /// Those of so many rows with these levels of quantiles and intervals.
    fn of(
        steps: usize,
        (levels, intervals): (&[f64], &[f64]),
        all: &[Forecast],
        notes: Vec<String>,
    ) -> Result<Self, ForecastError> {
        let mut stamps = all.iter().all(|f| f.context.dates().is_some()).then(Vec::new);
        for dates in all.iter().filter_map(|f| f.context.dates()) {
            if let Some(stamps) = &mut stamps {
                stamps.extend(nanoseconds(dates.future(steps)?)?);
            }
        }
        let columns = all.first().map_or(0, |f| f.values.len());
        // A series with too few errors has no bounds.
        let unknown = vec![f64::NAN; steps];
        let one = |column: usize| {
            let joined = |of: &dyn Fn(&'_ Forecast) -> Option<&'_ Vec<f64>>| -> Vec<f64> {
                all.iter().flat_map(|f| of(f).unwrap_or(&unknown)).copied().collect()
            };
            let values = joined(&|f| f.values.get(column));
            let levels = levels.iter().enumerate().map(|(at, level)| {
                (format!("_q{level:?}"), joined(&|f| f.quantiles.get(column).and_then(|of| of.get(at))))
            });
            let bounds = intervals.iter().enumerate().flat_map(|(at, level)| {
                let bound = |end: usize| {
                    joined(&|f| {
                        f.intervals.get(column).and_then(|of| of.get(at)).and_then(|ends| ends.get(end))
                    })
                };
                bound_names("", *level).into_iter().zip([bound(0), bound(1)])
            });
            (values, levels.chain(bounds).collect())
        };
        let (values, further) = (0..columns).map(one).unzip();
        let names = all.iter().map(|f| f.context.name().to_owned()).collect();
        Ok(Self { names, steps, stamps, values, further, notes })
    }

    fn columns(self, py: Python<'_>) -> Forecasted<'_> {
        let numbers = |numbers: &Vec<f64>| bytes(py, numbers);
        let named =
            |all: Vec<(String, Vec<f64>)>| all.into_iter().map(|(end, x)| (end, numbers(&x))).collect();
        (
            self.names,
            self.steps,
            self.stamps.map(|stamps| bytes(py, &stamps)),
            self.values.iter().map(numbers).collect(),
            self.further.into_iter().map(named).collect(),
            self.notes,
        )
    }
}

/// That what a run forecasts with reads no columns known in advance, which were given.
fn unread(run: &Run) -> Option<String> {
    let chosen = run.forecaster().filter(|_| !run.needs_future())?;
    Some(format!("{} was chosen to forecast, and reads no columns known in advance", chosen.name()))
}

/// Dates as nanoseconds since 1970.
fn nanoseconds(dates: Vec<chrono::NaiveDateTime>) -> Result<Vec<i64>, DataError> {
    let steps = dates.len();
    let one = |date: chrono::NaiveDateTime| {
        date.and_utc()
            .timestamp_nanos_opt()
            .ok_or(DataError::Series(SeriesError::PastCalendar { last: date, steps }))
    };
    dates.into_iter().map(one).collect()
}

/// Settings of an object of JSON.
fn parsed(text: &str) -> Result<Settings, ForecastError> {
    let unreadable = |why: String| SettingsError::Keyword { key: "settings".to_owned(), why };
    let object = serde_json::from_str(text).map_err(|e| unreadable(e.to_string()))?;
    Ok(Settings::of_keywords(&object)?)
}

/// Trains a run that has a directory to its end; the results, or none when it was stopped.
fn go(begun: Begun, changes: Vec<String>, relay: &mut Relay) -> Result<Option<Value>, ForecastError> {
    let path = begun.path().to_owned();
    relay.started(&path, begun.ready(), changes);
    let Ended::Done(trained) = begun.fit(relay)? else { return Ok(None) };
    relay.tell("trained", json!({"steps": trained.steps()}));
    let stop = Arc::clone(&relay.stop);
    match trained.choose(&|| stop.load(Ordering::Relaxed))? {
        Ended::Done(finished) => {
            let mut object = finished.object(&path);
            object["unbeaten"] = json!(finished.unbeaten());
            object["verdict"] = json!(finished.verdict());
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

    /// Tells that a run begins, or goes on with changes.
    fn started(&mut self, path: &Path, ready: &Ready, changes: Vec<String>) {
        let notes: Vec<String> = ready.notes().iter().map(ToString::to_string).chain(changes).collect();
        let (device, done, steps) = (ready.device().to_string(), ready.done(), ready.steps());
        self.tell(
            "started",
            json!({"folder": path, "device": device, "done": done, "steps": steps, "notes": notes}),
        );
    }
}

impl Watcher for Relay {
    fn begins(&mut self, candidate: &str, number: usize, count: usize) {
        self.tell("candidate", json!({"candidate": candidate, "number": number, "count": count}));
    }

    fn ready(&mut self, run: &Path, ready: &Ready, notes: Vec<String>) {
        self.started(run, ready, notes);
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self
    }

    fn ended(&mut self, _: &str, _: &How) {}

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
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
    work: impl FnOnce(&mut Relay) -> Result<Option<Value>, ForecastError> + Send,
) -> PyResult<String> {
    let (events, mut received) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let mut relay = Relay { events, stop: Arc::clone(&stop), told: Instant::now() };
    let mut exception = None;
    let ended = std::thread::scope(|scope| {
        let work = |relay: &mut Relay| Spelling::Keyword.within(|| work(relay));
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
        (None, Err(e)) => Err(raised(py, &e.into())),
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
