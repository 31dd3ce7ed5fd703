//! Two processes that resume one run at once: one goes on, the other is refused.

use super::options::Options;
use super::random::Random;
use super::runs::{Bench, Ended, INTERVAL};
use super::tally::Tally;
use std::time::Duration;

pub(super) fn run(options: &Options) -> Result<Tally, String> {
    let bench = Bench::new(options.program()?)?;
    let mut tally = Tally::default();
    let mut complete = 0;
    for case in 0..options.count {
        let mut random = Random::of(options.seed, case as u64);
        // Those that train, and so have something to resume.
        let (recipe, _) = bench.moment(&mut random);
        let recipe = recipe % 2;
        let time = bench.straight[recipe].time.mul_f64(random.share());
        begin(&bench, recipe, time.mul_f64(0.6))?;
        let first = bench.start(&bench.command(recipe, "run"))?;
        std::thread::sleep(Duration::from_millis(random.below(4) as u64 * random.below(20) as u64));
        let second = bench.start(&bench.command(recipe, "run"))?;
        let ended = [bench.end(first)?, bench.end(second)?];
        complete += usize::from(ended.iter().any(Ended::was_complete));
        let judged = one_went_on(&ended).and_then(|()| bench.sound("run").map(|_| ()));
        if let Err(why) = judged.and_then(|()| bench.finish(recipe, "run")) {
            let kept = bench.keep("run", &format!("race-{}-{case}", options.seed));
            tally.finding(format!("race case {case}, recipe {recipe}: {why}{kept}"));
        }
        bench.remove("run");
        tally.count += 1;
    }
    tally.note(format!("{complete} found the run complete, the others were refused"));
    Ok(tally)
}

/// A run that was ended at some moment after its first checkpoint.
fn begin(bench: &Bench, recipe: usize, time: Duration) -> Result<(), String> {
    let mut running = bench.start(&bench.command(recipe, "run"))?;
    bench.wait(&mut running, time)?;
    let checkpoint = bench.path("run").join("checkpoint.safetensors");
    for _ in 0..5000 {
        if checkpoint.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    running.kill()?;
    if checkpoint.exists() { Ok(()) } else { Err(format!("no checkpoint of {INTERVAL} steps in 10 s")) }
}

/// Whether one of two processes went on, and the other said why it does not.
fn one_went_on(ended: &[Ended; 2]) -> Result<(), String> {
    let refused = |e: &Ended| -> Result<(), String> {
        let line = e.error()?;
        let named = line.contains("run") && e.code == Some(2);
        if named { Ok(()) } else { Err(format!("refused with {:?}: {line}", e.code)) }
    };
    match (ended[0].code, ended[1].code) {
        (Some(0), Some(0)) => Err("both went on".to_owned()),
        (Some(0), _) => refused(&ended[1]),
        (_, Some(0)) => refused(&ended[0]),
        // It was through before.
        _ if ended.iter().all(Ended::was_complete) => Ok(()),
        (a, b) => Err(format!("none went on: {a:?} {:?}, {b:?} {:?}", ended[0].err, ended[1].err)),
    }
}
