//! Signals that ask a run to end, at any moment: it keeps its last step, says so, and goes on to the same bytes.

use super::options::Options;
use super::random::Random;
use super::runs::{Bench, Ended};
use super::tally::Tally;

/// Signals, and the exit code of a run that one of them ended: 128 and its number.
const SIGNALS: [(&str, i32); 3] = [("TERM", 143), ("HUP", 129), ("INT", 130)];

pub(super) fn run(options: &Options) -> Result<Tally, String> {
    let bench = Bench::new(options.program()?)?;
    let mut tally = Tally::default();
    let mut ended_by = [0; 3];
    for case in 0..options.count {
        let mut random = Random::of(options.seed, case as u64);
        let (recipe, time) = bench.moment(&mut random);
        let which = case % SIGNALS.len();
        let (name, code) = SIGNALS[which];
        let mut running = bench.start(&bench.command(recipe, "run"))?;
        bench.wait(&mut running, time)?;
        running.signal(name)?;
        let ended = bench.end(running)?;
        ended_by[which] += usize::from(ended.code == Some(code));
        let kept = kept(&bench, &ended, code);
        if let Err(why) = kept.and_then(|()| bench.finish(recipe, "run")) {
            let kept = bench.keep("run", &format!("signal-{}-{case}", options.seed));
            tally.finding(format!("signal case {case}, SIG{name}, recipe {recipe}: {why}{kept}"));
        }
        bench.remove("run");
        tally.count += 1;
    }
    let [term, hup, int] = ended_by;
    tally.note(format!("ended by SIGTERM {term}, SIGHUP {hup}, SIGINT {int}; the others were not training"));
    Ok(tally)
}

/// What must hold after the signal, before the run goes on.
fn kept(bench: &Bench, ended: &Ended, code: i32) -> Result<(), String> {
    let at = bench.sound("run")?;
    match (ended.code, at) {
        // It was through already.
        (Some(0), _) => Ok(()),
        (Some(c), Some(step)) if c == code => {
            let says = format!("interrupted after step {step};");
            if ended.err.contains(&says) {
                Ok(())
            } else {
                Err(format!("the checkpoint holds step {step}, and the run says {:?}", ended.err.trim()))
            }
        }
        // Before the run began there is nothing to keep, and the system may end the process.
        (None, None) => Ok(()),
        (Some(c), None) if c == code => Ok(()),
        (other, _) => Err(format!("it ends with {other:?} and not {code}: {:?}", ended.err.trim())),
    }
}
