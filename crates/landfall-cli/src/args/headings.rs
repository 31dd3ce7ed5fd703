//! Under which heading the help of a command lists each of its flags.

use super::Args;
use clap::{Command, CommandFactory, FromArgMatches};
use landfall_forecast::run::{Group, SETTINGS};
use std::ffi::OsString;

/// Headings and their flags, of those that are no settings.
const HEADINGS: [(&str, &[&str]); 7] = [
    (Group::Covariates.heading(), &["future"]),
    (Group::Model.heading(), &["patch", "stride", "contenders"]),
    (
        Group::Training.heading(),
        &["seeds", "tuned", "steps", "every", "shortest", "adapter", "rank", "alpha"],
    ),
    (Group::Uncertainty.heading(), &["no_interval"]),
    (Group::Ranks.heading(), &["rank_timeout"]),
    ("Access", &["host", "port", "allow_host", "token", "token_file", "no_token"]),
    ("Limits", &["max_batch", "max_body", "max_histories", "queue", "connections", "timeout"]),
];

/// The heading of a flag in whatever command has it. A heading of a struct would hold for all flags that follow it in others
/// too.
fn heading(id: &str) -> Option<&'static str> {
    let group = SETTINGS.iter().find(|setting| setting.name == id).map(|setting| setting.facts.group);
    match group {
        // What a command computes on stands with its own flags.
        Some(Group::Computing | Group::Run) => None,
        Some(group) => Some(group.heading()),
        None => HEADINGS.iter().find(|(_, flags)| flags.contains(&id)).map(|(heading, _)| *heading),
    }
}

/// The command line, with the flags of each command under their headings.
pub(crate) fn command() -> Command {
    let mut all = Args::command();
    for command in all.get_subcommands_mut() {
        // A command of few flags is read at a glance.
        if command.get_opts().count() < FEW {
            continue;
        }
        let ids: Vec<String> = command.get_opts().map(|flag| flag.get_id().to_string()).collect();
        // Help has the headings in the order in which they are given.
        let others = ["Access", "Limits"];
        for name in Group::ALL.map(Group::heading).into_iter().chain(others) {
            for id in ids.iter().filter(|id| heading(id) == Some(name)) {
                *command = std::mem::take(command).mut_arg(id, |flag| flag.help_heading(name));
            }
        }
    }
    all
}

/// Flags from which on a command has headings.
const FEW: usize = 12;

/// Reads a command line, whose first word is the program's name.
pub(crate) fn parse(line: &[OsString]) -> Result<Args, clap::Error> {
    let matches = command().try_get_matches_from(line)?;
    Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The flags of a command by their headings, as its help lists them.
    fn listed(name: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut all = command();
        let help = all.find_subcommand_mut(name).expect(name).render_long_help().to_string();
        let (mut headings, mut heading) = (BTreeMap::<String, BTreeSet<String>>::new(), String::new());
        for line in help.lines() {
            if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
                heading = name.to_owned();
            }
            if let Some(at) = line.find("--").filter(|at| *at <= 6) {
                let flag = line[at + 2..].split([' ', '[', '=']).next().expect("a name");
                headings.entry(heading.clone()).or_default().insert(flag.to_owned());
            }
        }
        headings
    }

    #[test]
    fn flags_stand_under_what_they_are() {
        let train = listed("train");
        let under = |heading: &str| train[heading].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(under("Covariates"), ["calendar", "categorical", "known-future", "static"]);
        assert_eq!(
            under("Several processes"),
            ["rank-order", "rank-timeout", "shard-optimizer", "sync-batch-norm"]
        );
        assert_eq!(
            under("Options"),
            ["config", "device", "help", "json", "log-every", "out", "resume", "threads"]
        );
        assert!(under("Training").contains(&"lr") && under("Data").contains(&"split"));
        let backtest = listed("backtest");
        assert_eq!(backtest["Covariates"].len(), 4);
        assert!(backtest["Options"].contains("report"), "{backtest:?}");
        // A command of few flags has one list.
        assert_eq!(listed("predict").keys().collect::<Vec<_>>(), ["Options"]);
    }

    #[test]
    fn every_flag_under_a_heading_is_there() {
        let all = command();
        let ids: BTreeSet<&str> =
            all.get_subcommands().flat_map(Command::get_opts).map(|flag| flag.get_id().as_str()).collect();
        for (heading, flags) in HEADINGS {
            for flag in flags {
                assert!(ids.contains(flag), "{flag}, under {heading}");
            }
        }
    }
}
