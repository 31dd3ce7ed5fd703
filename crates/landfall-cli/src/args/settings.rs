//! Arguments that are settings of a run, made of their declaration.

use crate::wording::NETWORK_FLAGS;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use landfall_forecast::run::{Arity, Group, NetworkOptions, SETTINGS, Setting, Settings};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::PathBuf;

/// Which settings a command takes.
pub(crate) trait Selection: Debug {
    /// Whether it takes this one.
    fn takes(setting: &Setting) -> bool;
}

/// What decides the shapes of a step.
#[derive(Debug)]
pub(crate) struct OfShapes;

impl Selection for OfShapes {
    fn takes(setting: &Setting) -> bool {
        setting.facts.shapes
    }
}

/// The columns of a plan, which has no data.
#[derive(Debug)]
pub(crate) struct OfChannels;

impl Selection for OfChannels {
    fn takes(setting: &Setting) -> bool {
        setting.name == "channels"
    }
}

/// How series are read that no run knows, and which columns are forecast.
fn reads(setting: &Setting) -> bool {
    let of_series = setting.facts.of_files && setting.facts.group == Group::Data;
    of_series || ["data", "columns", "target"].contains(&setting.name)
}

/// What covariates pretrained weights read. One value for each series is none: they scale each covariate by its own rows.
fn covariates(setting: &Setting) -> bool {
    setting.facts.group == Group::Covariates && setting.name != "static"
}

/// What pretrained weights have a use for in a backtest.
pub(crate) fn of_pretrained(setting: &Setting) -> bool {
    let own = ["context", "horizon", "period", "device", "threads"];
    reads(setting) || covariates(setting) || own.contains(&setting.name)
}

/// How series are read that no run knows, and what is forecast of them.
#[derive(Debug)]
pub(crate) struct OfReading;

impl Selection for OfReading {
    fn takes(setting: &Setting) -> bool {
        reads(setting) || covariates(setting) || ["horizon", "quantiles"].contains(&setting.name)
    }
}

/// How series are read, and on which windows a baseline or pretrained weights are scored.
#[derive(Debug)]
pub(crate) struct OfBaseline;

impl Selection for OfBaseline {
    fn takes(setting: &Setting) -> bool {
        let own = ["context", "horizon", "split", "batch", "period"];
        reads(setting) || covariates(setting) || own.contains(&setting.name)
    }
}

/// How series are read, and how pretrained weights are trained on them.
#[derive(Debug)]
pub(crate) struct OfFineTuning;

impl Selection for OfFineTuning {
    fn takes(setting: &Setting) -> bool {
        let own = ["context", "horizon", "split", "period", "lr", "weight_decay", "clip", "dtype", "seed"];
        reads(setting) || covariates(setting) || own.contains(&setting.name)
    }
}

/// How series are read that imported weights forecast, and what the weights may not say.
#[derive(Debug)]
pub(crate) struct OfImport;

impl Selection for OfImport {
    fn takes(setting: &Setting) -> bool {
        reads(setting) || ["context", "split"].contains(&setting.name)
    }
}

/// What processes that train together agree on.
#[derive(Debug)]
pub(crate) struct OfRanks;

impl Selection for OfRanks {
    fn takes(setting: &Setting) -> bool {
        setting.facts.group == Group::Ranks
    }
}

/// The rest of what a run is: data, recipe, device.
#[derive(Debug)]
pub(crate) struct OfRun;

impl Selection for OfRun {
    fn takes(setting: &Setting) -> bool {
        setting.by_person() && !setting.facts.shapes && setting.facts.group != Group::Ranks
    }
}

/// As [`OfRun`], where `--pretrained` names weights that are tested as they are. A file of settings may name an ensemble's.
#[derive(Debug)]
pub(crate) struct OfBacktest;

impl Selection for OfBacktest {
    fn takes(setting: &Setting) -> bool {
        OfRun::takes(setting) && setting.name != "pretrained"
    }
}

/// What all runs of a comparison share: data, training, device. Each candidate has its own model.
#[derive(Debug)]
pub(crate) struct OfCompared;

impl Selection for OfCompared {
    fn takes(setting: &Setting) -> bool {
        let own = ["model", "preset", "candidates", "ensemble", "init"];
        setting.by_person() && setting.facts.group != Group::Ranks && !own.contains(&setting.name)
    }
}

/// The settings of a selection as arguments, and what was given of them.
#[derive(Debug)]
pub(crate) struct Given<S> {
    /// What was given.
    pub(crate) settings: Settings,
    selection: PhantomData<S>,
}

/// The settings of a selection that have an argument: a table of options has none.
fn listed<S: Selection>() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| S::takes(setting) && setting.name != "network")
}

/// The argument of a setting.
fn argument(setting: &'static Setting) -> Arg {
    let facts = &setting.facts;
    let arg = Arg::new(setting.name).long(setting.key()).help(setting.help());
    if facts.arity == Arity::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    let checked = move |text: &str| setting.check(text).map(|()| text.to_owned());
    let capitals = || setting.name.to_uppercase();
    let placeholder = facts.placeholder.map_or_else(capitals, str::to_owned);
    let arg = arg.value_name(placeholder).value_parser(checked).allow_negative_numbers(setting.is_number);
    match facts.arity {
        Arity::One | Arity::Flag => arg,
        Arity::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(["true", "false"]),
        Arity::List => arg.value_delimiter(',').action(ArgAction::Append),
        Arity::ListOrNone => arg.value_delimiter(',').action(ArgAction::Append).num_args(0..),
        Arity::Repeated => arg.action(ArgAction::Append),
    }
}

impl<S> Given<S> {
    /// The first flag that was given of those that a run has itself: it may be told other data and how to fill them.
    pub(crate) fn own(&self) -> Option<String> {
        let others = |setting: &&Setting| !["data", "fill"].contains(&setting.name);
        self.settings.given().find(others).map(|setting| format!("--{}", setting.key()))
    }

    /// The files of data that were given.
    pub(crate) fn data(&self) -> &[PathBuf] {
        self.settings.data.as_ref().map_or(&[], |files| &files.0)
    }
}

impl<S: Selection> Args for Given<S> {
    fn augment_args(command: Command) -> Command {
        command.args(listed::<S>().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Selection> FromArgMatches for Given<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Self { settings: Settings::default(), selection: PhantomData };
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for setting in listed::<S>() {
            let texts: Vec<String> = match setting.facts.arity {
                Arity::Flag if matches.get_flag(setting.name) => Vec::new(),
                Arity::Flag => continue,
                Arity::One | Arity::Switch | Arity::List | Arity::ListOrNone | Arity::Repeated => {
                    if !matches.contains_id(setting.name) {
                        continue;
                    }
                    matches.get_many::<String>(setting.name).into_iter().flatten().cloned().collect()
                }
            };
            self.settings.set(setting.name, &texts).map_err(|why| {
                Error::raw(ErrorKind::ValueValidation, format!("--{}: {why}\n", setting.key()))
            })?;
        }
        Ok(())
    }
}

/// Options of the network that have an argument.
#[derive(Debug, Default)]
pub(crate) struct NetworkArgs(Option<NetworkOptions>);

impl Args for NetworkArgs {
    fn augment_args(command: Command) -> Command {
        let arg = |(name, help): (&'static str, &'static str)| {
            Arg::new(name).long(name).value_name("N").help(help).value_parser(clap::value_parser!(usize))
        };
        command.args(NETWORK_FLAGS.map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for NetworkArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for (name, _) in NETWORK_FLAGS {
            if let Some(value) = matches.get_one::<usize>(name) {
                self.0.get_or_insert_default().set(name, *value);
            }
        }
        Ok(())
    }
}

/// What decides the shapes of a step.
#[derive(Debug, Args)]
pub(crate) struct Shapes {
    #[command(flatten)]
    given: Given<OfShapes>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Read settings from this TOML file; flags override it.
    #[arg(long, value_name = "F.toml")]
    pub(crate) config: Option<PathBuf>,
}

impl Shapes {
    /// The settings that were given.
    pub(crate) fn settings(&self) -> Settings {
        Settings { network: self.network.0.clone(), ..self.given.settings.clone() }
    }
}

/// What a run is: data, model, recipe, device.
#[derive(Debug, Args)]
pub(crate) struct Setup<S: Selection = OfRun> {
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    #[command(flatten)]
    given: Given<S>,
}

impl<S: Selection> Setup<S> {
    /// The settings that were given.
    pub(crate) fn settings(&self) -> Settings {
        let base = self.given.settings.clone();
        // The two have no setting in common.
        self.shapes.settings().or(base)
    }
}
