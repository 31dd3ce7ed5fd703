//! How the program writes settings, and the errors of a run: as arguments of its commands.

use landfall_forecast::ForecastError;
use landfall_forecast::run::{OPTIONS_WITH_FLAGS, RunError, Weights};

/// Options of the network that have an argument of their own.
pub(crate) const NETWORK_FLAGS: [(&str, &str); 2] = [
    (OPTIONS_WITH_FLAGS[0], "Patch length in rows (patchtst)"),
    (OPTIONS_WITH_FLAGS[1], "Rows from the start of one patch to the next (patchtst)"),
];

/// An error of forecasting, with the arguments that help.
pub(crate) fn worded(e: &ForecastError) -> String {
    if let ForecastError::Run(e) | ForecastError::During(e) = e {
        return of_run(e);
    }
    if let ForecastError::AtOrigin { origin, why } = e {
        return format!("at the origin {origin}: {}", worded(why));
    }
    if let ForecastError::NoSteps(run) = e {
        return format!(
            "{} has no steps to go on with: its weights were imported, or fit without steps; start another run with: landfall \
             train --config {} --out RUN",
            run.display(),
            run.join("config.toml").display()
        );
    }
    if let ForecastError::TooEarly { origin, rows, needed } = e {
        return format!(
            "the first origin, {origin}, knows {rows} rows, and a forecast needs {needed}; give later origins (--from, fewer \
             --windows) or a shorter --context"
        );
    }
    e.to_string()
}

/// An error of a run, with the arguments that help.
pub(crate) fn of_run(e: &RunError) -> String {
    if let RunError::Exists { path } = e {
        let path = path.display();
        return format!(
            "the run directory {path} already exists; choose another with --out, or resume it with --resume {path}"
        );
    }
    if let RunError::NoCheckpoint { path } = e {
        let (path, config) = (path.display(), path.join("config.toml"));
        return format!(
            "{path} has no checkpoint yet: its run ended before the first one; start it again with: landfall train --config {} \
             --out {path}",
            config.display()
        );
    }
    if let RunError::NoWeights { path, weights: Weights::Best } = e {
        let path = path.display();
        return format!("{path} is not there; the run has not been validated yet; use --weights last");
    }
    if let RunError::NoKnown { path } = e {
        let path = path.display();
        return format!(
            "{path} has no columns that are known in advance, so that --future has nothing to give; leave it out"
        );
    }
    e.to_string()
}
