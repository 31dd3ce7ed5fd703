//! Data that is replaced while a trainer runs.

use landfall::{Engine, Error};
use landfall_train::nn::{Linear, Parameters, loss};
use landfall_train::train::{Arrays, Order, Pool, Trainer, TrainingOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROWS: usize = 8;

/// Samples that depend on a number alone.
fn filling(number: u64) -> Result<Arrays, Error> {
    let x: Vec<f32> = (0..ROWS * 2).map(|i| ((i as u64 * 7 + number * 3) % 11) as f32 / 5.0 - 1.0).collect();
    let y = x.chunks_exact(2).map(|x| number as f32 + x[0] - 2.0 * x[1]).collect();
    Arrays::new().with("x", [ROWS, 2], x)?.with("y", [ROWS, 1], y)
}

fn trainer(order: Order) -> Result<Trainer, Error> {
    let mut parameters = Parameters::default();
    let layer = Linear::new(&mut parameters, "layer", 2, 1);
    let options = TrainingOptions {
        batch: 4,
        max_steps: Some(20),
        average: Some(0.9),
        order,
        ..TrainingOptions::default()
    };
    Trainer::new(&Engine::cpu_with_threads(1)?, &parameters, &filling(0)?, options, move |cx, batch| {
        loss::mse(cx.graph, layer.forward(cx, batch.get("x")?)?, batch.get("y")?)
    })
}

fn weights(trainer: &Trainer) -> Result<Vec<f32>, Error> {
    let mut all = trainer.state.read::<f32>("layer.weight")?;
    all.extend(trainer.state.read::<f32>("layer.bias")?);
    all.extend(trainer.state.read::<f32>("average.layer.weight")?);
    Ok(all)
}

#[test]
fn steps_see_what_was_replaced_before_them() -> Result<(), Error> {
    // A step on replaced data is one of a trainer that was made with it.
    let (mut one, mut other) = (trainer(Order::Sequential)?, trainer(Order::Sequential)?);
    one.step()?;
    one.replace(&filling(1)?)?;
    other.step()?;
    other.step()?;
    one.step()?;
    assert_ne!(weights(&one)?, weights(&other)?);
    let losses =
        |t: &mut Trainer| Ok::<_, Error>(t.records(1, 2)?.iter().map(|r| r.loss).collect::<Vec<_>>());
    let (of_one, of_other) = (losses(&mut one)?, losses(&mut other)?);
    assert_eq!(of_one[0], of_other[0]);
    assert!((of_one[1] - of_other[1]).abs() > 1e-3, "{of_one:?} {of_other:?}");
    Ok(())
}

#[test]
fn a_pool_gives_each_step_its_filling() -> Result<(), Error> {
    let mut by_hand = trainer(Order::Shuffle)?;
    for step in 0..20 {
        by_hand.replace(&filling(step / 3)?)?;
        by_hand.step()?;
    }
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let mut pool = Pool::new(3, move |number| {
        count.fetch_add(1, Ordering::Relaxed);
        filling(number)
    })?;
    let mut pooled = trainer(Order::Shuffle)?;
    assert_eq!(pool.advance(&mut pooled, 5)?.len(), 5);
    assert_eq!(pool.advance(&mut pooled, 100)?.len(), 15);
    assert_eq!(weights(&pooled)?, weights(&by_hand)?);
    assert_eq!(made.load(Ordering::Relaxed), 7, "each of the fillings 0 to 6 once");
    Ok(())
}

#[test]
fn a_run_that_is_resumed_has_the_same_bytes() -> Result<(), Box<dyn std::error::Error>> {
    let mut whole = trainer(Order::Shuffle)?;
    Pool::new(3, filling)?.advance(&mut whole, 20)?;
    let folder = std::env::temp_dir().join(format!("landfall-pool-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("trainer.safetensors");
    // In the middle of a filling, and at the end of one.
    for at in [7, 9] {
        let mut first = trainer(Order::Shuffle)?;
        Pool::new(3, filling)?.advance(&mut first, at)?;
        first.save(&path)?;
        let mut second = trainer(Order::Shuffle)?;
        second.load(&path)?;
        Pool::new(3, filling)?.advance(&mut second, 100)?;
        assert_eq!(weights(&second)?, weights(&whole)?, "resumed after step {at}");
        // A pool goes on after a load too, from whatever step it is.
        let mut pool = Pool::new(3, filling)?;
        pool.advance(&mut first, 5)?;
        first.load(&path)?;
        pool.advance(&mut first, 100)?;
        assert_eq!(weights(&first)?, weights(&whole)?, "loaded again after step {at}");
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn other_arrays_are_refused_and_nothing_is_written() -> Result<(), Error> {
    let mut t = trainer(Order::Sequential)?;
    let told = |t: &mut Trainer, data: &Arrays| t.replace(data).expect_err("other arrays").to_string();
    let y = || vec![9.0f32; ROWS];
    let short = Arrays::new().with("x", [4, 2], vec![9.0f32; 8])?.with("y", [4, 1], vec![9.0f32; 4])?;
    let said = told(&mut t, &short);
    assert!(said.contains("array x is f32[8, 2], the memory of the host is f32[4, 2]"), "{said}");
    let wide = Arrays::new().with("x", [ROWS, 2], vec![9.0f64; 16])?.with("y", [ROWS, 1], y())?;
    let said = told(&mut t, &wide);
    assert!(said.contains("f64[8, 2]"), "{said}");
    let said = told(&mut t, &Arrays::new().with("y", [ROWS, 1], y())?);
    assert!(said.contains('x') && said.contains('y'), "{said}");
    let more = filling(3)?.with("z", [ROWS], y())?;
    let said = told(&mut t, &more);
    assert!(said.contains('z') && said.contains("x, y"), "{said}");
    assert_eq!(
        t.state.read::<f32>("data.y")?[0],
        trainer(Order::Sequential)?.state.read::<f32>("data.y")?[0]
    );
    assert!(Pool::new(0, filling).is_err());
    Ok(())
}

#[test]
fn what_a_filling_fails_with_is_told() -> Result<(), Error> {
    let mut pool =
        Pool::new(
            3,
            |number| if number == 1 { Arrays::new().with("x", [2], vec![0.0f32]) } else { filling(number) },
        )?;
    let mut t = trainer(Order::Sequential)?;
    let said = pool.advance(&mut t, 20).expect_err("filling 1 cannot be made").to_string();
    assert!(said.contains("arrays"), "{said}");
    assert_eq!(t.position()?, 3);
    Ok(())
}
