//! Ranks of a test: threads that train together.

use landfall::{Engine, World};
use std::time::Duration;

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What each of `ranks` threads makes of an engine of its own.
pub(crate) fn together<T: Send>(
    ranks: usize,
    work: impl Fn(&Engine) -> Result<T, Failed> + Sync,
) -> Vec<Result<T, Failed>> {
    let work = &work;
    std::thread::scope(|s| {
        let rank = move |world: World| {
            let engine = Engine::cpu_with_threads(1)?;
            engine.join(world)?;
            work(&engine)
        };
        let threads: Vec<_> = World::threads(ranks, Duration::from_secs(60))
            .into_iter()
            .map(|world| s.spawn(move || rank(world)))
            .collect();
        threads.into_iter().map(|t| t.join().expect("a rank")).collect()
    })
}
