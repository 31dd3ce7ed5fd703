//! What a person sees: lines, tables, the progress bar.

use crate::error::CliError;
use crate::signals::Stop;
use anstyle::AnsiColor;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub(crate) use landfall_forecast::report::{digits, table};
use landfall_forecast::run::{EvaluationRecord, Observer, StepLine};
use landfall_train::data::printable;
use serde::Serialize;
use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

thread_local! {
    /// Begins what this thread says: which of several runs it trains.
    static PREFIX: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Does some work of several that run at once: each of its lines begins with `prefix`, and it shows no progress bar.
pub(crate) fn prefixed<R>(prefix: &str, work: impl FnOnce() -> R) -> R {
    PREFIX.with_borrow_mut(|own| prefix.clone_into(own));
    let done = work();
    PREFIX.with_borrow_mut(String::clear);
    done
}

/// The lines of a text, each after this thread's prefix; empty ones are left out there.
fn with_prefix(text: &str) -> Cow<'_, str> {
    PREFIX.with_borrow(|prefix| {
        if prefix.is_empty() {
            return Cow::Borrowed(text);
        }
        let lines = text.lines().filter(|line| !line.is_empty()).map(|line| format!("{prefix}{line}"));
        Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
    })
}

/// Whether standard output is another process's: of several that train together, the first one's.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Writes nothing to standard output from now on.
pub(crate) fn silence() {
    SILENT.store(true, Relaxed);
}

/// Writes a line to standard output. A reader that went away has read enough; it is no error.
pub(crate) fn line(text: &str) -> Result<(), CliError> {
    match with_prefix(&lines(text)) {
        said if said.is_empty() && !text.is_empty() => Ok(()),
        said => write(&said),
    }
}

/// Writes a table of data, which another program may read: as it is, but for a terminal.
pub(crate) fn data(text: &str) -> Result<(), CliError> {
    if std::io::stdout().is_terminal() { line(text) } else { write(text) }
}

/// What may be shown of a text: names of columns and files are somebody's, and a terminal obeys what stands in them.
fn lines(text: &str) -> Cow<'_, str> {
    if text.lines().all(|line| matches!(printable(line), Cow::Borrowed(_))) && !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(printable).collect::<Vec<_>>().join("\n"))
}

fn write(text: &str) -> Result<(), CliError> {
    if SILENT.load(Relaxed) {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let written =
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    match written {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(CliError::Output(e)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes an object as one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(|e| CliError::Output(e.into()))?;
    // JSON escapes what begins with these alone where it is asked to.
    let further = |c: char| if c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    write(&if text.contains(char::is_control) { text.chars().map(further).collect() } else { text })
}

/// One line on standard error, where nobody may be listening any more. Its first word is red where colours are wanted: on a
/// terminal without `NO_COLOR`, or with `CLICOLOR_FORCE`.
pub(crate) fn error(text: &str) {
    let red = AnsiColor::Red.on_default().bold();
    say(&format!("{red}error:{red:#} {}", printable(&text.replace('\n', " "))));
}

/// One line on standard error that is no error.
pub(crate) fn note(text: &str) {
    let text = lines(text);
    match text.strip_prefix("note: ") {
        Some(rest) => {
            let yellow = AnsiColor::Yellow.on_default();
            say(&format!("{yellow}note:{yellow:#} {rest}"));
        }
        None => say(&text),
    }
}

/// Writes to standard error what may be shown.
fn say(text: &str) {
    let text = with_prefix(text);
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Bytes in MiB.
pub(crate) fn mib(bytes: usize) -> String {
    format!("{:.2}", bytes as f64 / (1u64 << 20) as f64)
}

/// Shows a run: a bar with the time left on a terminal, plain lines elsewhere.
pub(crate) struct Watch {
    bar: Option<ProgressBar>,
    total: usize,
    stop: Stop,
}

impl Watch {
    /// Watches a run of `total` steps of which `done` are done; `stop` ends it after a step.
    pub(crate) fn new(done: usize, total: usize, stop: Stop) -> Self {
        let alone = PREFIX.with_borrow(String::is_empty);
        let terminal = alone && std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {eta} left  {msg}") {
                bar.set_style(style);
            }
            bar.set_position(done as u64);
            bar.reset_eta();
            bar
        });
        Self { bar, total, stop }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Says a line beside the bar.
    pub(crate) fn say(&self, text: &str) {
        // The run goes on and its folder has every number, whatever becomes of standard output.
        let say = || drop(line(text));
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}

impl Observer for Watch {
    fn step(&mut self, l: &StepLine) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("epoch {}, loss {:.4}, lr {:.1e}", l.epoch, l.loss, l.lr)),
            None => {
                let (total, loss) = (self.total, digits(l.loss));
                self.say(&format!(
                    "step {}/{total}  epoch {}  loss {loss}  lr {:.1e}",
                    l.step, l.epoch, l.lr
                ));
            }
        }
    }

    fn progress(&mut self, done: usize, _: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
        }
    }

    fn evaluation(&mut self, r: &EvaluationRecord, best: bool) {
        let best = if best && r.split == "validation" { ", best so far" } else { "" };
        let EvaluationRecord { step, split, mse, mae, windows, .. } = r;
        let scores = match r.classes {
            Some(c) => format!(
                "cross-entropy {}, accuracy {} over {windows} samples",
                digits(c.cross_entropy),
                digits(c.accuracy)
            ),
            None => format!("MSE {}, MAE {} over {windows} windows", digits(*mse), digits(*mae)),
        };
        self.say(&format!("{split} after step {step}: {scores}{best}"));
    }

    fn stop(&self) -> bool {
        self.stop.raised()
    }
}

/// Shows a backtest: a bar of its origins on a terminal, a line at most a second elsewhere.
pub(crate) struct Origins {
    bar: Option<ProgressBar>,
    done: usize,
    total: usize,
    /// When a line was last said.
    said: Option<Instant>,
    label: String,
    stop: Stop,
}

impl Origins {
    /// Watches a backtest of `total` origins of which `done` are done; `stop` ends it after a step of a training, or after
    /// an origin.
    pub(crate) fn new(done: usize, total: usize, stop: Stop) -> Self {
        let bar = (std::io::stderr().is_terminal() && std::io::stdout().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} origins, {eta} left  {msg}")
            {
                bar.set_style(style);
            }
            bar.set_position(done as u64);
            bar.reset_eta();
            bar
        });
        Self { bar, done, total, said: None, label: String::new(), stop }
    }

    /// An origin begins.
    pub(crate) fn begin(&mut self, label: &str) {
        label.clone_into(&mut self.label);
        if let Some(bar) = &self.bar {
            bar.set_message(printable(label).into_owned());
        }
    }

    /// An origin is done, with this error.
    pub(crate) fn end(&mut self, label: &str, mse: Option<String>) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
            return;
        }
        let due = self.said.is_none_or(|said| said.elapsed() >= Duration::from_secs(1));
        if due || self.done == self.total {
            self.said = Some(Instant::now());
            let mse = mse.map_or_else(|| "no forecast".to_owned(), |mse| format!("MSE {mse}"));
            // The backtest goes on, whatever becomes of standard output.
            drop(line(&format!("origin {}/{}  {label}  {mse}", self.done, self.total)));
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The training at an origin.
impl Observer for Origins {
    fn step(&mut self, _: &StepLine) {}

    fn progress(&mut self, done: usize, total: usize) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}, training step {done}/{total}", printable(&self.label)));
        }
    }

    fn evaluation(&mut self, _: &EvaluationRecord, _: bool) {}

    fn stop(&self) -> bool {
        self.stop.raised()
    }
}
