//! Pretraining on simulated series: resumed, it gives the bytes of a run without a break, and it learns.

use landfall::Engine;
use landfall_forecast::zero_shot::{Forecaster, Point, Pretraining, Recipe, Verdict, Weights};
use std::path::Path;

/// A recipe of seconds.
fn small() -> Recipe {
    Recipe::parse(
        r#"
        seed = 5
        steps = 12
        network = { patch = 4, context = 32, horizon = 8, width = 24, layers = 2, heads = 3 }
        optimizer = { lr = 5e-3, warm_up = 3, constant = 0.3, betas = { first = 0.9, second = 0.98 }, weight_decay = 0.01, clip = 1.0, average = 0.5, dtype = "f32" }
        simulation = { seed = 1, without = ["maps"], rows = 48, series = 24, steps = 5 }
        validation = { seed = 2, series = 20, horizon = 8, every = 4 }
        [crops]
        hidden_crops = 0.5
        hidden_rows = 0.3
        logarithms = 0.5
        decay = 8.0
        lengths = [
            { windows = 4, shortest = 3, context = 8, horizon = 4 },
            { windows = 4, shortest = 8, context = 32, horizon = 8 },
        ]
        "#,
    )
    .expect("a sound recipe")
}

fn pretraining(recipe: Recipe, folder: &Path) -> Pretraining {
    Pretraining::new(&Engine::cpu_with_threads(1).expect("a CPU"), recipe, folder, 1).expect("a pretraining")
}

fn curve(folder: &Path) -> Vec<Point> {
    let text = std::fs::read_to_string(folder.join("curve.jsonl")).expect("a curve");
    text.lines().map(|line| serde_json::from_str(line).expect("a point")).collect()
}

#[test]
fn a_stopped_pretraining_goes_on_to_the_same_bytes() {
    let place = tempfile::tempdir().expect("a folder");
    let (whole, broken) = (place.path().join("whole"), place.path().join("broken"));
    let mut points = Vec::new();
    let verdict = pretraining(small(), &whole).run(|_| false, |p| points.push(*p)).expect("a run");
    assert_eq!((verdict, points.len()), (Verdict::Complete, 3));
    assert_eq!(curve(&whole), points);
    assert!(
        points.iter().all(|p| p.loss.is_finite() && p.validation.is_finite() && p.loss > 0.0),
        "{points:?}"
    );

    // It is asked after its first step already: steps may be slow.
    let mut asked = pretraining(small(), &place.path().join("asked"));
    assert_eq!(asked.run(|_| true, |_| ()).expect("a run"), Verdict::Stopped);
    assert_eq!(asked.step().expect("a step"), 1);

    let mut first = pretraining(small(), &broken);
    // Looks after 1, 3 and 4 steps.
    let looks = std::cell::Cell::new(0);
    let third = |_| looks.replace(looks.get() + 1) == 2;
    assert_eq!(first.run(third, |_| ()).expect("a run"), Verdict::Stopped);
    assert_eq!(first.step().expect("a step"), 4);
    drop(first);
    // Steps behind the checkpoint, and a line that was not finished.
    let line = std::fs::read_to_string(broken.join("curve.jsonl")).expect("a curve");
    std::fs::write(broken.join("curve.jsonl"), format!("{line}{{\"step\": 8, \"sec")).expect("a curve");
    let mut second = pretraining(small(), &broken);
    assert_eq!(second.run(|_| false, |_| ()).expect("a run"), Verdict::Complete);
    let steps: Vec<usize> = curve(&broken).iter().map(|p| p.step).collect();
    assert_eq!(steps, [4, 8, 12]);
    for (a, b) in curve(&broken).iter().zip(&points) {
        assert_eq!((a.loss, a.validation, a.lr), (b.loss, b.validation, b.lr));
    }
    let weights = |folder: &Path| Weights::read(&folder.join("weights.safetensors")).expect("weights");
    assert_eq!(weights(&whole).values, weights(&broken).values);

    let other = Recipe { seed: 6, ..small() };
    let engine = Engine::cpu_with_threads(1).expect("a CPU");
    let told = Pretraining::new(&engine, other, &whole, 1).expect_err("another recipe").to_string();
    assert!(told.contains("`seed = 5`, now `seed = 6`"), "{told}");

    let mut forecaster = Forecaster::new(&engine, &weights(&whole)).expect("a forecaster");
    let rows = forecaster.forecast(&[[1.0, 2.0, 1.5, 3.0]], 10).expect("a forecast").remove(0);
    assert!(rows.len() == 10 && rows.iter().flatten().all(|x| x.is_finite()));
}

#[test]
fn the_loss_falls() {
    for dtype in ["f32", "bf16"] {
        let place = tempfile::tempdir().expect("a folder");
        let mut recipe = Recipe { steps: 240, ..small() };
        recipe.validation.every = 8;
        recipe.optimizer.dtype = dtype.to_owned();
        let mut points = Vec::new();
        pretraining(recipe, place.path()).run(|_| false, |p| points.push(*p)).expect("a run");
        let (first, last) = (points[0], points[points.len() - 1]);
        assert!(last.validation < 0.97 * first.validation && last.loss < first.loss, "{dtype}: {points:?}");
    }
}
