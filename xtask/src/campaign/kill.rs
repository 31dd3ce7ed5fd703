//! `kill -9` at any moment: the run goes on from its last checkpoint to the same bytes.

use super::options::Options;
use super::random::Random;
use super::runs::Bench;
use super::tally::Tally;

/// Most kills of one run.
const CHAIN: usize = 3;

pub(super) fn run(options: &Options) -> Result<Tally, String> {
    let bench = Bench::new(options.program()?)?;
    let mut tally = Tally::default();
    let (mut cases, mut before, mut through) = (0, 0, 0);
    while tally.count < options.count {
        cases += 1;
        let mut random = Random::of(options.seed, cases);
        let recipe = bench.moment(&mut random).0;
        let chain = (1 + random.below(CHAIN)).min(options.count - tally.count);
        tally.count += chain;
        for _ in 0..chain {
            let time = bench.straight[recipe].time.mul_f64(1.1 * random.share());
            let mut running = bench.start(&bench.command(recipe, "run"))?;
            bench.wait(&mut running, time)?;
            running.kill()?;
            match bench.sound("run") {
                Ok(Some(_)) => through += 1,
                Ok(None) => before += 1,
                Err(why) => tally.finding(format!("kill case {cases}, recipe {recipe}: {why}")),
            }
        }
        if let Err(why) = bench.finish(recipe, "run") {
            let kept = bench.keep("run", &format!("kill-{}-{cases}", options.seed));
            tally.finding(format!("kill case {cases}, recipe {recipe}: {why}{kept}"));
        }
        bench.remove("run");
    }
    tally.note(format!("{cases} runs; {before} kills before the first checkpoint, {through} after it"));
    Ok(tally)
}
