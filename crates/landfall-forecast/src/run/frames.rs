//! Runs on data frames: read in place of files, and kept in the run's folder.

use super::folder::{KEPT_DATA, KEPT_FRAME};
use super::{Resolved, Run, RunError, RunFolder, Source};
use crate::data::{Frame, Panel, Purpose, ReadOptions};
use crate::files::Draft;
use std::io::{BufWriter, Write};

impl Resolved {
    /// The series of a frame, read as the files of the settings would be; `source` is what messages call it.
    ///
    /// # Errors
    /// Whatever keeps it from being series, with its place.
    pub fn load_frame(&self, frame: &Frame, source: &str) -> Result<Panel, RunError> {
        let read = match &self.source {
            Source::Files { read, .. } => (**read).clone(),
            Source::Demo { .. } | Source::Walk { .. } | Source::Assets { .. } => ReadOptions::default(),
        };
        self.of_frame(frame, source, &read)
    }

    fn of_frame(&self, frame: &Frame, source: &str, read: &ReadOptions) -> Result<Panel, RunError> {
        let panel = frame.panel(source, read)?.with_period(self.settings.period);
        Ok(self.arranged(panel)?)
    }
}

impl Run {
    /// The same columns of a frame as those of the run's data; `source` is what messages call it.
    ///
    /// # Errors
    /// A column that is not there; whatever keeps it from being series.
    pub fn load_frame(&self, frame: &Frame, source: &str) -> Result<Panel, RunError> {
        let read = ReadOptions { purpose: Purpose::Run, ..self.read_options() };
        self.resolved().of_frame(frame, source, &read)
    }

    /// The values of the columns known in advance, from a frame with rows after the last of the data.
    ///
    /// # Errors
    /// As [`Run::load_future`].
    pub fn load_future_frame(&self, frame: &Frame, source: &str) -> Result<Panel, RunError> {
        let Some(read) = self.future_options() else {
            return Err(RunError::NoKnown { path: self.path().to_owned() });
        };
        Ok(frame.panel(source, &read)?)
    }
}

impl RunFolder {
    /// Keeps a frame as the data of the run, with what is to be known of it, so that nothing outside of the folder is needed.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn keep(&self, frame: &Frame, description: &str) -> Result<(), RunError> {
        let path = self.path().join(KEPT_DATA);
        let write = || {
            let mut draft = Draft::of(&path)?;
            let mut buffer = BufWriter::new(&mut draft);
            frame.write_arrow(&mut buffer).map_err(std::io::Error::other)?;
            buffer.flush()?;
            drop(buffer);
            draft.replace()
        };
        write().map_err(|why| RunError::Write { path: path.clone(), why })?;
        self.write(KEPT_FRAME, description)
    }
}
