//! Data that is replaced while a trainer runs: one filling trains while host threads make the next.

use super::arrays::Arrays;
use super::session::StepRecord;
use super::trainer::Trainer;
use landfall::{Error, Rule};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

impl Trainer {
    /// Writes other values over the arrays that the trainer was made with. The copy is ordered on the device: steps issued before see
    /// the old values, steps issued after it the new ones, and the compiled step stays as it is. Data is no part of a file
    /// of [`Trainer::save`]: after [`Trainer::load`] write what the steps to come are to see, or let a [`Pool`] do it.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Trainer, TrainingOptions, Weights};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, epochs: 3, ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// trainer.step()?;
    /// let other = Arrays::new().with("x", [8, 2], vec![0.5f32; 16])?.with("y", [8, 1], vec![2.0f32; 8])?;
    /// trainer.replace(&other)?;
    /// trainer.step()?;
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoBinding`] for another set of names, [`Error::HostData`] for another dtype or shape, and then nothing is written; a
    /// device fault.
    pub fn replace(&mut self, data: &Arrays) -> Result<(), Error> {
        data.rewrite(&mut self.state)
    }
}

/// Steps between two looks at what ends a run at most; fewer where they take longer than [`LOOK`].
const STRIDE: usize = 64;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// What makes the filling of a number.
type Make = dyn Fn(u64) -> Result<Arrays, Error> + Send + Sync;

/// The samples of a [`Trainer`], replaced every so many steps: while the device trains on filling `n`, a thread of the host makes
/// filling `n + 1`.
///
/// Step `s`, counted from 0, trains on filling `⌊s / steps⌋`, whatever came before: a run that is interrupted, loaded and
/// continued sees what one without a break sees, as long as a filling depends on its number alone.
///
/// ```
/// use landfall::Engine;
/// use landfall_train::nn::{Linear, Parameters, loss};
/// use landfall_train::train::{Arrays, Pool, Trainer, TrainingOptions};
///
/// // Filling n has eight samples of y = n·x.
/// let filling = |n: u64| {
///     let x: Vec<f32> = (0..8).map(|i| i as f32).collect();
///     let y = x.iter().map(|x| x * n as f32).collect();
///     Arrays::new().with("x", [8, 1], x)?.with("y", [8, 1], y)
/// };
/// let mut parameters = Parameters::default();
/// let layer = Linear::new(&mut parameters, "layer", 1, 1);
/// let options = TrainingOptions { batch: 4, max_steps: Some(10), ..TrainingOptions::default() };
/// let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &filling(0)?, options, |cx, batch| {
///     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
/// })?;
/// let mut pool = Pool::new(4, filling)?; // four steps on each
/// assert_eq!(pool.advance(&mut trainer, 100)?.len(), 10);
/// # Ok::<(), landfall::Error>(())
/// ```
pub struct Pool {
    steps: usize,
    make: Arc<Make>,
    /// The filling that the trainer has, if this pool wrote it.
    current: Option<u64>,
    /// The filling that is being made.
    next: Option<(u64, JoinHandle<Result<Arrays, Error>>)>,
    waited: Duration,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = self.next.as_ref().map(|(number, _)| number);
        f.debug_struct("Pool")
            .field("steps", &self.steps)
            .field("current", &self.current)
            .field("next", &next)
            .finish()
    }
}

impl Pool {
    /// A pool whose fillings `make` makes from their numbers, each for so many steps. It is called on a thread of its own, and may
    /// start more.
    ///
    /// # Errors
    /// No steps.
    #[track_caller]
    pub fn new(
        steps: usize,
        make: impl Fn(u64) -> Result<Arrays, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        if steps == 0 {
            let rule = Rule::Attribute { name: "steps of a filling", value: 0.0, expected: "at least 1" };
            return Err(rule.of("pool", &[], None, Some(std::panic::Location::caller())).into());
        }
        Ok(Self { steps, make: Arc::new(make), current: None, next: None, waited: Duration::ZERO })
    }

    /// As [`Trainer::advance`], on the fillings of these steps.
    ///
    /// # Errors
    /// As of [`Trainer::advance`] and [`Trainer::replace`]; what making a filling returns.
    pub fn advance(&mut self, trainer: &mut Trainer, count: usize) -> Result<Vec<StepRecord>, Error> {
        let mut done = trainer.position()?;
        let end = done.saturating_add(count).min(trainer.steps());
        let mut all = Vec::new();
        while done < end {
            let number = done / self.steps;
            self.provide(trainer, number as u64)?;
            let last = (number + 1).saturating_mul(self.steps).min(end);
            all.extend(trainer.advance(last - done)?);
            done = trainer.position()?;
        }
        Ok(all)
    }

    /// Trains up to the step of this number, or less where `stop` says so, which is asked about twice a second at least, and between
    /// steps that take longer; and whether it said so.
    ///
    /// ```
    /// # use landfall::{Engine, Error};
    /// # use landfall_train::nn::{Linear, Parameters, loss};
    /// # use landfall_train::train::{Arrays, Pool, Trainer, TrainingOptions};
    /// # let data = Arrays::new().with("x", [8, 2], vec![1.0f32; 16])?.with("y", [8, 1], vec![1.0f32; 8])?;
    /// # let mut parameters = Parameters::new();
    /// # let layer = Linear::new(&mut parameters, "layer", 2, 1);
    /// # let options = TrainingOptions { batch: 4, max_steps: Some(9), ..TrainingOptions::default() };
    /// # let mut trainer = Trainer::new(&Engine::cpu()?, &parameters, &data, options, |cx, batch| {
    /// #     loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// # })?;
    /// let mut pool = Pool::new(2, move |_| Ok(data.clone()))?;
    /// let (steps, stopped) = pool.advance_until(&mut trainer, 5, || false)?;
    /// assert_eq!((steps.len(), stopped), (5, false));
    /// let (steps, stopped) = pool.advance_until(&mut trainer, 9, || true)?; // a signal, or a limit of time
    /// assert_eq!((steps.len(), stopped), (1, true));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Pool::advance`].
    pub fn advance_until(
        &mut self,
        trainer: &mut Trainer,
        to: usize,
        mut stop: impl FnMut() -> bool,
    ) -> Result<(Vec<StepRecord>, bool), Error> {
        let (mut done, mut all, mut stopped, mut stride) = (trainer.position()?, Vec::new(), false, 1);
        let to = to.min(trainer.steps());
        while done < to && !stopped {
            let look = Instant::now();
            all.extend(self.advance(trainer, stride.min(to - done))?);
            done = trainer.position()?;
            stopped = stop();
            stride = if look.elapsed() < LOOK { (2 * stride).min(STRIDE) } else { (stride / 2).max(1) };
        }
        Ok((all, stopped))
    }

    /// How long steps waited for their data: for the host to make it, and for the copy to the device.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Lets the trainer have a filling, and begins to make the one after it if there are steps for it.
    fn provide(&mut self, trainer: &mut Trainer, number: u64) -> Result<(), Error> {
        if self.current == Some(number) {
            return Ok(());
        }
        let start = Instant::now();
        let data = match self.next.take() {
            Some((made, handle)) if made == number => joined(handle)?,
            // After a load the number may be any.
            Some((_, other)) => {
                drop(joined(other));
                (self.make)(number)?
            }
            None => (self.make)(number)?,
        };
        self.current = None;
        trainer.replace(&data)?;
        drop(data);
        self.waited += start.elapsed();
        self.current = Some(number);
        let next = number + 1;
        if next.saturating_mul(self.steps as u64) < trainer.steps() as u64 {
            let make = Arc::clone(&self.make);
            self.next = Some((next, thread::spawn(move || make(next))));
        }
        Ok(())
    }
}

/// What a thread made; its panic goes on here.
fn joined(handle: JoinHandle<Result<Arrays, Error>>) -> Result<Arrays, Error> {
    handle.join().unwrap_or_else(|panic| resume_unwind(panic))
}
