//! Many series on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::LocalError;
use crate::fitted::Fitted;
use crate::model::Model;
use crate::rows::Prediction;

/// A series to be fit and forecast.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The model.
    pub model: Model,
    /// The rows.
    pub values: &'a [f64],
    /// Rows of a season, 1 without one.
    pub season: usize,
    /// Steps to forecast.
    pub horizon: usize,
}

impl Task<'_> {
    fn run(&self) -> Result<(Fitted, Prediction), LocalError> {
        let fitted = Fitted::new(self.model, self.values, self.season)?;
        let found = fitted.predict(self.values, 0, self.horizon)?;
        Ok((fitted, found))
    }
}

/// Fits and forecasts each task, in their order; the results are the same on any number of threads (0 counts as 1). The error of one
/// is its own.
///
/// ```
/// use landfall_local::{Model, Task, forecast_all};
/// let sales = [3.0, 4.0, 5.0, 4.0, 6.0, 7.0];
/// let tasks = [Model::Theta, Model::Naive2].map(|model| Task { model, values: &sales, season: 1, horizon: 2 });
/// for found in forecast_all(&tasks, 2) {
///     let (fitted, ahead) = found?;
///     println!("{}: {:?}", fitted.name(), ahead.values);
/// }
/// # Ok::<(), landfall_local::LocalError>(())
/// ```
pub fn forecast_all(tasks: &[Task], threads: usize) -> Vec<Result<(Fitted, Prediction), LocalError>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((i, task)) = take(tasks, &next) {
            done.push((i, task.run()));
        }
        done
    };
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.clamp(1, tasks.len().max(1))).map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for other in others {
            match other.join() {
                Ok(done) => found.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        found
    });
    found.sort_by_key(|(i, _)| *i);
    found.into_iter().map(|(_, one)| one).collect()
}

/// The next task that no thread has taken.
fn take<'a, 'b>(tasks: &'a [Task<'b>], next: &AtomicUsize) -> Option<(usize, &'a Task<'b>)> {
    let i = next.fetch_add(1, Ordering::Relaxed);
    tasks.get(i).map(|task| (i, task))
}
