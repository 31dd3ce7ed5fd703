//! The network, on a thread of its own: what waits for it when it is free becomes its next batch.

use super::metrics::Metrics;
use landfall_forecast::run::Prepared;
use landfall_train::train::{Batches, Seen, Session};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// One history on its way through the network.
struct Job {
    prepared: Prepared,
    answer: oneshot::Sender<Answer>,
    /// Its place in the queue, which is free once the network takes it.
    place: OwnedSemaphorePermit,
}

/// What the network predicted of a history; or why it could not.
pub(super) type Answer = Result<(Prepared, Vec<f64>), String>;

/// The queue of the network.
#[derive(Clone)]
pub(super) struct Queue {
    jobs: Sender<Job>,
    places: Arc<Semaphore>,
    length: usize,
}

/// The queue has no places for so many histories.
pub(super) struct Full {
    pub(super) length: usize,
}

impl Queue {
    /// Starts the network's thread. It ends when the queue is dropped.
    pub(super) fn start(
        session: Session,
        batches: Batches,
        length: usize,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (jobs, waiting) = channel();
        let run = move || predict(session, batches, &waiting, &metrics);
        let thread = std::thread::Builder::new().name("network".to_owned()).spawn(run)?;
        Ok((Self { jobs, places: Arc::new(Semaphore::new(length)), length }, thread))
    }

    /// Puts all of these in, or none.
    pub(super) fn put(&self, all: Vec<Prepared>) -> Result<Vec<oneshot::Receiver<Answer>>, Full> {
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let full = Full { length: self.length };
        let Ok(mut places) = Arc::clone(&self.places).try_acquire_many_owned(count) else { return Err(full) };
        let mut answers = Vec::with_capacity(all.len());
        for prepared in all {
            let (answer, receiver) = oneshot::channel();
            if let Some(place) = places.split(1) {
                // A thread that is gone drops the job, and its receiver hears of it.
                let _ = self.jobs.send(Job { prepared, answer, place });
            }
            answers.push(receiver);
        }
        Ok(answers)
    }

    /// Histories that wait.
    pub(super) fn waiting(&self) -> usize {
        self.length.saturating_sub(self.places.available_permits())
    }
}

/// Takes what waits, up to a batch, until nobody can put more in.
fn predict(mut session: Session, mut batches: Batches, waiting: &Receiver<Job>, metrics: &Metrics) {
    let (engine, most) = (session.engine.clone(), batches.most());
    let mut taken: Vec<(Prepared, oneshot::Sender<Answer>)> = Vec::with_capacity(most);
    while let Ok(first) = waiting.recv() {
        for Job { prepared, answer, place } in std::iter::once(first).chain(waiting.try_iter()) {
            drop(place);
            // A request that took too long is not there any more.
            if !answer.is_closed() {
                taken.push((prepared, answer));
            }
            if taken.len() == most {
                break;
            }
        }
        if taken.is_empty() {
            continue;
        }
        let windows: Vec<Seen<'_>> =
            taken.iter().map(|(prepared, _)| (prepared.scaled(), prepared.known())).collect();
        let predicted = engine.enter(|| batches.predict(&mut session, &windows));
        metrics.ran(taken.len());
        match predicted {
            Ok(all) => {
                for ((prepared, answer), predicted) in taken.drain(..).zip(all) {
                    let _ = answer.send(Ok((prepared, predicted)));
                }
            }
            Err(why) => {
                for (_, answer) in taken.drain(..) {
                    let _ = answer.send(Err(why.to_string()));
                }
            }
        }
    }
}
