//! Experts that are shared out among ranks: results, gradients and dropped pairs are those of the layer on one rank.

use landfall::rng::Rng;
use landfall::{DType, Engine, Error, Graph, Program, State, StateSpec, Value, World, grad};
use landfall_train::nn::{Context, Mode, MoeConfig, MoeFeedForward, MoeOutput, Parameters};
use std::sync::Arc;
use std::time::Duration;

/// Tokens of all ranks together, divided by 1, 2, 4 and 8 ranks.
const TOKENS: usize = 48;
const CONFIG: MoeConfig =
    MoeConfig { experts: 8, chosen: 3, features: 5, hidden: 6, capacity: None, align: 1, balance: 0.0 };

/// What a rank computed of its tokens.
#[derive(Debug, Clone)]
struct Computed {
    y: Vec<f64>,
    /// Of a weighted sum of `y`, by the tokens.
    by_tokens: Vec<f64>,
    /// By router, up and down.
    by_weights: Vec<Vec<f64>>,
    load: Vec<i32>,
    dropped: i32,
}

/// The part of `all` that is rank `rank`'s.
fn part(all: &[f64], rank: usize, ranks: usize) -> &[f64] {
    let each = all.len() / ranks;
    &all[rank * each..][..each]
}

fn computed(world: &World, config: MoeConfig) -> Result<Computed, Error> {
    let (rank, ranks) = (world.rank(), world.size());
    let engine = Engine::cpu_with_threads(1)?;
    engine.join(world.clone())?;
    let mut p = Parameters::new();
    let layer = MoeFeedForward::new(&mut p, "moe", config);
    let mut spec = StateSpec::new();
    let entries: Vec<_> = p.list().iter().map(|p| (p.name.clone(), p.shape)).collect();
    spec.add("parameters", DType::F64, &entries)?;
    let spec = Arc::new(spec);
    let mut state = State::new(&engine, &spec)?;
    p.initialise(&mut state, 7)?;
    let g = Graph::new(&spec);
    let shape = [TOKENS / ranks, config.features];
    let (x, weights) = (g.input("x", DType::F64, shape), g.input("weights", DType::F64, shape));
    let cx = Context::new(&g, &p, Mode::Evaluate);
    let MoeOutput { y, load, dropped, .. } = match ranks {
        1 => layer.forward(&cx, x)?,
        _ => layer.across(world)?.forward(&cx, x)?,
    };
    let loss = g.sum(g.mul(y, weights)?, [0, 1])?;
    let mut wrt: Vec<(String, Value)> =
        entries.iter().map(|(name, _)| Ok((name.clone(), g.entry(name)?))).collect::<Result<_, Error>>()?;
    wrt.push(("x".to_owned(), x));
    for (gradient, (name, _)) in grad(&g, loss, &wrt)?.iter().zip(&wrt) {
        g.output(&format!("gradient of {name}"), *gradient);
    }
    for (name, value) in [("y", y), ("load", load), ("dropped", dropped)] {
        g.output(name, value);
    }
    let mut program = Program::compile(&engine, &state, "moe", &g)?;
    let mut rng = Rng::new(3, 1);
    for name in ["x", "weights"] {
        let all: Vec<f64> = (0..TOKENS * config.features).map(|_| rng.normal()).collect();
        program.write(name, part(&all, rank, ranks))?;
    }
    program.run(&mut state)?;
    let by = |name: &String| program.read::<f64>(&format!("gradient of {name}"));
    Ok(Computed {
        y: program.read("y")?,
        by_tokens: program.read("gradient of x")?,
        by_weights: entries.iter().map(|(name, _)| by(name)).collect::<Result<_, _>>()?,
        load: program.read("load")?,
        dropped: program.read::<i32>("dropped")?[0],
    })
}

fn across(ranks: usize, config: MoeConfig) -> Vec<Computed> {
    std::thread::scope(|s| {
        let threads: Vec<_> = World::threads(ranks, Duration::from_secs(60))
            .into_iter()
            .map(|world| s.spawn(move || computed(&world, config)))
            .collect();
        threads.into_iter().map(|t| t.join().expect("a rank").expect("a result")).collect()
    })
}

fn near(got: &[f64], want: &[f64], what: &str) {
    let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let worst = got.iter().zip(want).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
    assert!(
        got.len() == want.len() && largest > 0.0 && worst <= 1e-12 * largest,
        "{what}: {worst} of {largest}"
    );
}

#[test]
fn results_and_gradients_are_those_of_one_rank() {
    let one = computed(&World::single(), CONFIG).expect("one rank");
    assert_eq!(one.dropped, 0);
    for ranks in [2, 4, 8] {
        let all = across(ranks, CONFIG);
        for (rank, own) in all.iter().enumerate() {
            near(&own.y, part(&one.y, rank, ranks), "y");
            near(&own.by_tokens, part(&one.by_tokens, rank, ranks), "the gradient by the tokens");
            assert_eq!(own.dropped, 0);
        }
        for weights in 0..one.by_weights.len() {
            let sum = all.iter().fold(vec![0.0; one.by_weights[weights].len()], |mut sum, own| {
                sum.iter_mut().zip(&own.by_weights[weights]).for_each(|(s, x)| *s += x);
                sum
            });
            near(&sum, &one.by_weights[weights], "the gradient by weights");
        }
        let load = |e: usize| all.iter().map(|own| own.load[e]).sum::<i32>();
        assert_eq!((0..8).map(load).collect::<Vec<_>>(), one.load);
        // A rank has gradients of its own experts alone.
        let own = part(&all[1].by_weights[1], 1, ranks);
        let others = all[1].by_weights[1].iter().filter(|x| **x != 0.0).count();
        assert_eq!(others, own.iter().filter(|x| **x != 0.0).count());
    }
}

/// Rows beyond a rank's buffer are dropped: what is left is computed, and the number of dropped pairs is told.
#[test]
fn what_finds_no_room_is_counted() {
    for ranks in [2, 4] {
        let room = 4;
        let all = across(ranks, MoeConfig { capacity: Some(room * ranks), ..CONFIG });
        let (whole, mut dropped) = (across(ranks, CONFIG), 0);
        for (own, full) in all.iter().zip(&whole) {
            let kept: i32 = own.load.iter().sum();
            assert_eq!(own.dropped, (TOKENS / ranks * CONFIG.chosen) as i32 - kept);
            let for_rank =
                |load: &[i32], rank: usize| load[rank * 8 / ranks..][..8 / ranks].iter().sum::<i32>();
            for rank in 0..ranks {
                assert_eq!(for_rank(&own.load, rank), for_rank(&full.load, rank).min(room as i32));
            }
            assert!(own.y.iter().all(|y| y.is_finite()) && own.y != full.y);
            dropped += own.dropped;
        }
        assert!(dropped > 0);
    }
}
