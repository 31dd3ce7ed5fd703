//! Opens the folder of a run: its settings, and sessions with its weights.

use super::RunError;
use super::resolve::{Data, Resolved, Source};
use super::settings::Settings;
use crate::checkpoint::{File, load_weights};
use crate::data::{DataError, Scaler, Segments, Series};
use crate::models::Task;
use crate::train::{Dataset, Session};
use landfall::Engine;
use std::path::{Path, PathBuf};

/// Which weights of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Those of the best validation error.
    Best,
    /// Those of the last checkpoint.
    Last,
}

/// A run on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    path: PathBuf,
    resolved: Resolved,
    scaler: Option<Scaler>,
}

/// Opens a run and a session with its weights, ready to predict: see [`Run::forecast`].
///
/// # Errors
/// As [`Run::open`] and [`Run::predictor`].
pub fn open(path: &Path, weights: Weights, engine: &Engine) -> Result<(Run, Session), RunError> {
    let run = Run::open(path)?;
    let session = run.predictor(engine, weights)?;
    Ok((run, session))
}

impl Run {
    /// Reads a run's settings.
    ///
    /// # Errors
    /// [`RunError::NotARun`] for a folder without them; settings that do not fit together.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let file = path.join("config.toml");
        let not_a_run = |why: std::io::Error| RunError::NotARun {
            path: path.to_owned(),
            why: format!("config.toml: {why}"),
        };
        let text = std::fs::read_to_string(&file).map_err(not_a_run)?;
        let resolved = Settings::parse(&text, &file)?.resolve()?;
        let table = resolved.settings.scaler.clone();
        let scaler = table.map(|s| Scaler::new(s.mean, s.std)).transpose()?;
        if let (Some(scaler), Some(columns)) = (&scaler, &resolved.settings.columns)
            && scaler.channels() != columns.len()
        {
            let (series, scaler) = (columns.len(), scaler.channels());
            return Err(DataError::ScalerChannels { file: file.display().to_string(), series, scaler }.into());
        }
        Ok(Self { path: path.to_owned(), resolved, scaler })
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its settings and what they amount to.
    #[must_use]
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The scaler of its training rows; none for windows with labels.
    #[must_use]
    pub fn scaler(&self) -> Option<&Scaler> {
        self.scaler.as_ref()
    }

    /// Names of its columns.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        self.resolved.settings.columns.as_deref().unwrap_or_default()
    }

    /// Its data, or the same columns of another file.
    ///
    /// # Errors
    /// A column that is not there; whatever keeps the file from being a series.
    pub fn load(&self, data: Option<&Path>, fill: Option<crate::data::Fill>) -> Result<Data, RunError> {
        let mut resolved = self.resolved.clone();
        match (&mut resolved.source, data) {
            (Source::File { path, read }, data) => {
                read.columns = self.resolved.settings.columns.clone();
                read.fill = fill.or(read.fill);
                if let Some(other) = data {
                    other.clone_into(path);
                }
            }
            (source, Some(other)) => {
                let read = crate::data::ReadOptions { columns: self.resolved.settings.columns.clone(), fill };
                *source = Source::File { path: other.to_owned(), read };
            }
            (Source::Demo { .. } | Source::Walk { .. }, None) => {}
        }
        resolved.load()
    }

    /// Windows over a series under the run's split and scaler.
    ///
    /// # Errors
    /// When the series is too short or has other columns.
    pub fn dataset(&self, series: &Series) -> Result<(Dataset, Segments), RunError> {
        let n = &self.resolved.network;
        let segments = Segments::new(self.resolved.split, series.rows(), n.context, n.horizon)?;
        let dataset = Dataset::scaled(series, self.need_scaler()?, &segments)?;
        Ok((dataset, segments))
    }

    /// A session over this data with the run's weights.
    ///
    /// # Errors
    /// [`RunError::NoWeights`]; a damaged or foreign file; as [`Session::new`].
    pub fn session(&self, engine: &Engine, dataset: &Dataset, weights: Weights) -> Result<Session, RunError> {
        let (name, hint) = match weights {
            Weights::Best => ("best.safetensors", "the run has not been validated yet; use --weights last"),
            Weights::Last => ("checkpoint.safetensors", "the run has written no checkpoint yet"),
        };
        let path = self.path.join(name);
        if !path.exists() {
            return Err(RunError::NoWeights { path, hint });
        }
        let file = File::read(&path)?;
        let mut session = self.resolved.session(engine, dataset)?;
        load_weights(&path, &file, &mut session)?;
        Ok(session)
    }

    /// A session that predicts and holds no data.
    ///
    /// # Errors
    /// As [`Run::session`].
    pub fn predictor(&self, engine: &Engine, weights: Weights) -> Result<Session, RunError> {
        let n = &self.resolved.network;
        let channels = self.need_scaler()?.channels();
        self.session(engine, &Dataset::blank(channels, n.context, n.horizon, 1), weights)
    }

    /// The rows after the last one of a series, one `Vec` for each column, in the units of the data.
    ///
    /// # Errors
    /// When the series is shorter than the context or has other columns; a device fault.
    pub fn forecast(&self, session: &mut Session, series: &Series) -> Result<Vec<Vec<f64>>, RunError> {
        let n = &self.resolved.network;
        let scaler = self.need_scaler()?;
        let scaled = scaler.scale_f64(&series.last_rows(n.context)?)?;
        let predicted = session.predict(&scaled)?;
        let column = |(c, values): (usize, &[f64])| values.iter().map(|&x| scaler.inverse(c, x)).collect();
        Ok(predicted.chunks_exact(n.horizon).enumerate().map(column).collect())
    }

    fn need_scaler(&self) -> Result<&Scaler, RunError> {
        match (&self.scaler, self.resolved.network.task) {
            (Some(scaler), _) => Ok(scaler),
            (None, Task::Regress) => Err(RunError::NoFuture { path: self.path.clone() }),
            (None, Task::Forecast) => Err(RunError::NotARun {
                path: self.path.clone(),
                why: "its config.toml has no [scaler]".to_owned(),
            }),
        }
    }
}
