//! What is compared, on which data.

use super::contenders::Contender;
use crate::choice::Metric;
use crate::error::ForecastError;
use crate::files::{read_text, replace};
use crate::models::ModelKind;
use crate::run::{RunError, SameWindows, Settings, SettingsError, Text};
use crate::training::{Comparison, KeptFrame, NewRun, Ready};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file of a comparison's directory that says what its runs are.
pub const PLAN: &str = "compare.toml";

/// Settings that each candidate has itself.
const OWN: [&str; 5] = ["model", "preset", "candidates", "ensemble", "init"];

/// The runs of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// Names of the candidates.
    pub candidates: Vec<String>,
    /// Whether the lookback window was asked for, so that all networks have it.
    pub same_context: bool,
    /// Whether the data is a frame, which each run keeps.
    #[serde(default)]
    pub of_frame: bool,
    /// What all runs share: the data and how it is divided, which windows choose, the metric.
    pub settings: Settings,
}

/// A plan, and what was found when it was made.
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The default recipe on this data.
    pub ready: Ready,
}

impl Plan {
    /// Compares these forecasters on the data of these settings, or on a frame: horizon, split, lookback window, metric and the
    /// windows that choose are those of the default recipe, for all.
    ///
    /// # Errors
    /// Settings that each candidate has itself; data that is no series, or has no row to test; as [`Ready::new`].
    pub fn made(
        settings: Settings,
        contenders: &[Contender],
        frame: Option<&KeptFrame>,
    ) -> Result<Planned, ForecastError> {
        Self::check(&settings)?;
        let ready =
            Ready::new(NewRun { settings: settings.clone(), frame: frame.cloned(), ..NewRun::default() })?;
        if ready.only_counts() {
            let why = "it computes nothing, so that there is nothing to compare; choose another device";
            return Err(conflict(Text::given("device", "null"), why).into());
        }
        let (Some((folds, _)), Comparison::Series(panel)) = (&ready.choice, &ready.comparison) else {
            let why = "only forecasters of the next rows of series are compared";
            return Err(conflict("this data".into(), why).into());
        };
        let resolved = &ready.resolved;
        if resolved.untested || folds.scored() == 0 {
            let why = Text::from(
                "no window is left before the test rows to compare them by; {split last}, or a shorter {horizon}, needs fewer rows",
            );
            return Err(SettingsError::Conflict {
                first: "so few rows".into(),
                second: "a comparison".into(),
                why,
            }
            .into());
        }
        let members: Vec<_> = contenders.iter().filter_map(|one| one.members()).collect();
        let every = resolved.scored_every(panel, folds, &members);
        let found = &resolved.settings;
        let columns = panel.members().len() * panel.targets();
        let metric: Metric = resolved.metric(columns);
        let shared = Settings {
            data: found.data.clone().filter(|_| frame.is_none()),
            horizon: found.horizon,
            context: found.context,
            split: found.split.clone(),
            metric: Some(metric),
            compared: Some(SameWindows { every, rolling: folds.rolling }),
            ..settings.clone()
        };
        let candidates = contenders.iter().map(|one| one.name().to_owned()).collect();
        let plan = Self {
            candidates,
            same_context: settings.context.is_some(),
            of_frame: frame.is_some(),
            settings: shared,
        };
        Ok(Planned { plan, ready })
    }

    /// Refuses settings that each candidate has itself.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`].
    pub fn check(settings: &Settings) -> Result<(), SettingsError> {
        if let Some(own) = settings.given().find(|setting| OWN.contains(&setting.name)) {
            return Err(conflict(Text::setting(own.name), "each candidate has its own; leave it out"));
        }
        match settings.network {
            Some(_) => Err(conflict("options of a network".into(), "its networks differ; leave them out")),
            None => Ok(()),
        }
    }

    /// The settings of a candidate's run. A pretrained network that is trained further has its own lookback window, unless one was
    /// asked for.
    #[must_use]
    pub fn settings(&self, contender: Contender) -> Settings {
        let mut own = contender.settings(&self.settings);
        if contender == Contender::Network(ModelKind::ZeroShot) && !self.same_context {
            own.context = None;
        }
        own
    }

    /// The candidates.
    ///
    /// # Errors
    /// As [`Contender::named`].
    pub fn contenders(&self) -> Result<Vec<Contender>, SettingsError> {
        Contender::named(&self.candidates)
    }

    /// Whether a directory is that of a comparison.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(PLAN).is_file()
    }

    /// Writes it into a new directory.
    ///
    /// # Errors
    /// [`RunError::Exists`]; a file that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ForecastError> {
        if folder.exists() {
            return Err(RunError::Exists { path: folder.to_owned() }.into());
        }
        let text = toml::to_string(self).map_err(|e| SettingsError::Unwritable(e.to_string()))?;
        let path = folder.join(PLAN);
        let written = std::fs::create_dir_all(folder).and_then(|()| replace(&path, text.as_bytes()));
        Ok(written.map_err(|why| RunError::Write { path, why })?)
    }

    /// The plan of a directory.
    ///
    /// # Errors
    /// [`RunError::NotARun`] for a directory that has none, or one that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ForecastError> {
        let unreadable =
            |why: String| RunError::NotARun { path: folder.to_owned(), why: format!("{PLAN}: {why}") };
        let text = read_text(&folder.join(PLAN)).map_err(|why| unreadable(why.to_string()))?;
        Ok(toml::from_str(&text).map_err(|why| unreadable(why.message().replace('\n', " ")))?)
    }
}

/// What does not go with a comparison.
fn conflict(first: Text, why: &'static str) -> SettingsError {
    SettingsError::Conflict { first, second: "a comparison".into(), why: why.into() }
}
