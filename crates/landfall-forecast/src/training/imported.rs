//! A run of weights that were trained elsewhere.

use super::begun::{Begun, Finished};
use super::comparison::Comparison;
use super::ready::Ready;
use crate::checkpoint::{Progress, save};
use crate::data::Segment;
use crate::error::ForecastError;
use crate::run::{EvaluationRecord, TestScoring, Units};
use std::sync::Arc;

impl Begun {
    /// Keeps the weights that the run starts from as its best ones, without a step, and scores them on the test windows.
    ///
    /// # Errors
    /// A file that cannot be written, a device fault.
    pub fn import(self) -> Result<Finished, ForecastError> {
        let Self { ready, mut folder, configuration } = self;
        let Ready { resolved, mut session, comparison, .. } = ready;
        save(&folder.best(), &session, &configuration, &Progress::default(), false)?;
        let mut records = Vec::new();
        if let Comparison::Series(panel) = &comparison {
            let engine = session.engine.clone();
            let scored = engine.enter(|| session.evaluate(Segment::Test))?;
            let mut record = EvaluationRecord::new(0, Segment::Test, &scored, &Units::of(panel));
            let test =
                TestScoring { panel: Arc::clone(panel), period: resolved.period, segment: Segment::Test };
            test.add_to(&mut record, &mut session, None).map_err(ForecastError::During)?;
            folder.log(&record).map_err(ForecastError::During)?;
            records.push(record);
        }
        Ok(Finished { resolved, session, comparison, chosen: None, records, steps: 0 })
    }
}
