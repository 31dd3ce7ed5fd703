//! The program `landfall` as a library: [`program`] is all of it, for a command line. It parses, calls [`landfall_forecast`], and prints.
#![deny(unsafe_code)]

mod args;
mod commands;
mod error;
mod output;
mod signals;
mod wording;

pub use error::CliError;

use args::headings;
use args::{Args, Command};
use clap::error::{ContextKind, ContextValue};
use landfall_train::data::Spelling;
use std::ffi::OsString;

/// Runs the program with a command line, whose first word is the program's name; its exit code. It prints to standard output
/// and standard error, and watches for the signals that end a run.
pub fn program(line: impl IntoIterator<Item = OsString>) -> u8 {
    // What reaches this hook is a defect of the program; it is said in one line, like every other error.
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("no message");
        let at = info.location().map(ToString::to_string).unwrap_or_default();
        output::error(&format!("internal error at {at}: {what}; please report it with the command you ran"));
    }));
    Spelling::Flag.of_process();
    signals::survive_file_limits();
    let line: Vec<OsString> = line.into_iter().collect();
    let code = std::panic::catch_unwind(|| match headings::parse(&line) {
        Ok(args) => run(&args),
        Err(e) => refused(&e, &line),
    });
    code.unwrap_or(1)
}

fn run(args: &Args) -> u8 {
    let done = match &args.command {
        Command::Train(train) => commands::train::run(train),
        Command::Compare(compare) => commands::compare::run(compare),
        Command::Evaluate(evaluate) => commands::evaluate::run(evaluate).map(|()| 0),
        Command::Backtest(backtest) => commands::backtest::run(backtest),
        Command::Forecast(forecast) => commands::forecast::run(forecast).map(|()| 0),
        Command::Import(import) => commands::import::run(import).map(|()| 0),
        Command::Report(report) => commands::report::run(report).map(|()| 0),
        Command::Predict(predict) => commands::predict::run(predict).map(|()| 0),
        Command::Serve(serve) => commands::serve::run(serve).map(|()| 0),
        Command::Export(export) => commands::export::run(export).map(|()| 0),
        Command::Plan(plan) => commands::plan::run(plan).map(|()| 0),
        Command::Tune(tune) => commands::tune::run(tune).map(|()| 0),
        Command::Simulate(simulate) => commands::simulate::run(simulate).map(|()| 0),
        Command::Pretrain(pretrain) => commands::pretrain::run(pretrain),
        Command::FineTune(tune) => commands::fine_tune::run(tune),
        Command::Doctor(doctor) => commands::doctor::run(doctor).map(|()| 0),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut headings::command(), "landfall", &mut text);
            output::line(String::from_utf8_lossy(&text).trim_end()).map(|()| 0)
        }
    };
    done.unwrap_or_else(|e| {
        let of_several = commands::seeds::of_several(&e).or_else(|| commands::compare::of_several(&e));
        output::error(&of_several.unwrap_or_else(|| e.to_string()));
        e.code()
    })
}

/// A command line that does not parse, in one line; or the help that was asked for.
fn refused(e: &clap::Error, words: &[OsString]) -> u8 {
    if !e.use_stderr() || e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A reader that went away has read enough.
        let _ = e.print();
        return u8::try_from(e.exit_code()).unwrap_or(2);
    }
    let text = e.to_string();
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    // The advice to pass an argument as a value helps nobody here: no command takes values that begin with dashes.
    let said = lines.filter(|l| {
        !l.starts_with("Usage:") && !l.starts_with("For more information") && !l.starts_with("tip: to pass")
    });
    let line = said.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
    // What the parsers of numbers of the standard library say.
    let line = line
        .replace("invalid digit found in string", "give a whole number")
        .replace("invalid float literal", "give a number");
    let line = line.strip_prefix("error: ").unwrap_or(&line).trim_end_matches('.');
    let data = misplaced(e, words).map_or_else(String::new, |file| format!("; give data as --data {file}"));
    let train = of_training(e, words)
        .map_or_else(String::new, |flag| format!("; {flag} is set when a run is trained"));
    output::error(&format!("{line}{data}{train}; --help lists what there is"));
    2
}

/// An argument of `train` that another command does not have.
fn of_training<'e>(e: &'e clap::Error, words: &[OsString]) -> Option<&'e str> {
    let Some(ContextValue::String(word)) = e.get(ContextKind::InvalidArg) else { return None };
    let all = headings::command();
    let name = word.strip_prefix("--")?.split('=').next()?;
    let has = |command: &str| {
        let arguments = all.find_subcommand(command).into_iter().flat_map(clap::Command::get_arguments);
        arguments.into_iter().any(|argument| argument.get_long() == Some(name))
    };
    let command = words.get(1)?.to_str()?;
    (all.find_subcommand(command).is_some() && has("train") && !has(command)).then_some(word.as_str())
}

/// A file of data that stands without its flag, in a command that has it.
fn misplaced<'e>(e: &'e clap::Error, words: &[OsString]) -> Option<&'e str> {
    let Some(ContextValue::String(word)) = e.get(ContextKind::InvalidArg) else { return None };
    let all = headings::command();
    let command = all.find_subcommand(words.get(1)?)?;
    let takes = command.get_arguments().any(|argument| argument.get_long() == Some("data"));
    (takes && [".csv", ".parquet"].iter().any(|ending| word.ends_with(ending))).then_some(word)
}
