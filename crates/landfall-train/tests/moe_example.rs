//! The example of a mixture of experts: it learns what can be learnt, and its counts of load and of dropped tokens add up.

#[path = "../examples/moe.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main runs as an example; here its parts are used")]
mod example;

use example::{BATCH, Classifier, PAIRS, TOKENS, session};
use landfall_train::data::{Segment, synthetic};

type Check = Result<(), Box<dyn std::error::Error>>;

#[test]
fn the_example_is_short() {
    let lines = include_str!("../examples/moe.rs").lines().count();
    assert!(lines <= 90, "{lines} lines");
}

/// A classifier that sees each token alone is right 77 times of 100, the best 88: it must be near the best. The step
/// is one captured program.
#[test]
fn it_learns_and_drops_nothing_where_there_is_room() -> Check {
    let data = synthetic::assets(4000, TOKENS, 8, 1)?;
    let mut session = session(None, &data)?;
    session.step()?;
    let before = session.engine.counters();
    (0..300).try_for_each(|_| session.step())?;
    let after = session.engine.counters();
    assert_eq!((after.replays - before.replays, after.host_transfers - before.host_transfers), (300, 0));
    assert_eq!(after.allocations, before.allocations);
    let accuracy = session.evaluate(Segment::Test)?.classes.ok_or("scores")?.accuracy;
    let best = data.bayes.ok_or("known")?;
    assert!(accuracy > best - 0.04, "{accuracy} of {best}");
    let load = Classifier::new(None).load(&mut session, &data.inputs[..BATCH * TOKENS * 8])?;
    assert_eq!(load.len(), 8);
    assert_eq!(load.iter().sum::<i32>() as usize, PAIRS, "{load:?}");
    Ok(())
}

/// Rows for as many pairs as there are, but each expert's rows begin at a multiple of 16: the last expert has fewer rows
/// than tokens. More room drops fewer, and what the other experts take stays the same.
#[test]
fn a_full_layer_drops_what_is_left_over() -> Check {
    let data = synthetic::assets(1000, TOKENS, 8, 1)?;
    let batch = &data.inputs[..BATCH * TOKENS * 8];
    let load = |capacity| -> Result<Vec<i32>, Box<dyn std::error::Error>> {
        Ok(Classifier::new(capacity).load(&mut session(capacity, &data)?, batch)?)
    };
    let (all, some, few) = (load(None)?, load(Some(PAIRS))?, load(Some(PAIRS / 2))?);
    let sum = |load: &[i32]| load.iter().sum::<i32>() as usize;
    assert!(
        sum(&few) < sum(&some) && sum(&some) < sum(&all) && sum(&all) == PAIRS,
        "{all:?} {some:?} {few:?}"
    );
    assert!(some.iter().zip(&all).all(|(some, all)| some <= all), "{all:?} {some:?}");
    assert_eq!(some[..4], all[..4], "{all:?} {some:?}");
    Ok(())
}
