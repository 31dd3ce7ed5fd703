//! The network, on a thread of its own: what waits for it when it is free becomes its next batch.

use super::forecasts::Network;
use super::metrics::Metrics;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// One history on its way through the network.
struct Waiting<N: Network> {
    job: N::Job,
    answer: oneshot::Sender<Answer<N>>,
    /// Its place in the queue, which is free once the network takes it.
    place: OwnedSemaphorePermit,
}

/// What the network predicted of a history; or why it could not.
pub(super) type Answer<N> = Result<<N as Network>::Done, String>;

/// The queue of the network.
pub(super) struct Queue<N: Network> {
    jobs: Sender<Waiting<N>>,
    places: Arc<Semaphore>,
    length: usize,
}

/// The queue has no places for so many histories.
pub(super) struct Full {
    pub(super) length: usize,
}

impl<N: Network> Queue<N> {
    /// Starts the network's thread. It ends when the queue is dropped.
    pub(super) fn start(
        network: N,
        length: usize,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (jobs, waiting) = channel();
        let run = move || predict(network, &waiting, &metrics);
        let thread = std::thread::Builder::new().name("network".to_owned()).spawn(run)?;
        Ok((Self { jobs, places: Arc::new(Semaphore::new(length)), length }, thread))
    }

    /// Puts all of these in, or none.
    pub(super) fn put(&self, all: Vec<N::Job>) -> Result<Vec<oneshot::Receiver<Answer<N>>>, Full> {
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let full = Full { length: self.length };
        let Ok(mut places) = Arc::clone(&self.places).try_acquire_many_owned(count) else { return Err(full) };
        let mut answers = Vec::with_capacity(all.len());
        for job in all {
            let (answer, receiver) = oneshot::channel();
            if let Some(place) = places.split(1) {
                // A thread that is gone drops the job, and its receiver hears of it.
                let _ = self.jobs.send(Waiting { job, answer, place });
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
fn predict<N: Network>(mut network: N, waiting: &Receiver<Waiting<N>>, metrics: &Metrics) {
    let most = network.most();
    while let Ok(first) = waiting.recv() {
        let (mut jobs, mut answers) = (Vec::with_capacity(most), Vec::with_capacity(most));
        for Waiting { job, answer, place } in std::iter::once(first).chain(waiting.try_iter()) {
            drop(place);
            // A request that took too long is not there any more.
            if !answer.is_closed() {
                jobs.push(job);
                answers.push(answer);
            }
            if jobs.len() == most {
                break;
            }
        }
        if jobs.is_empty() {
            continue;
        }
        let predicted = network.predict(jobs);
        metrics.ran(answers.len());
        match predicted {
            Ok(all) => {
                for (answer, done) in answers.into_iter().zip(all) {
                    let _ = answer.send(Ok(done));
                }
            }
            Err(why) => {
                for answer in answers {
                    let _ = answer.send(Err(why.clone()));
                }
            }
        }
    }
}
