//! A user's own model: the example trains, its checkpoint loads back, and its mistakes are named with their line.

#[path = "../examples/own_model.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main runs as an example; here its parts are used")]
mod example;

use example::{Drift, cauchy};
use landfall::{Engine, Error, Value};
use landfall_train::checkpoint::{read_weights, write_weights};
use landfall_train::data::{Segment, Split, synthetic};
use landfall_train::models::Model;
use landfall_train::nn::{Context, Init, ParameterId, Parameters};
use landfall_train::train::{Dataset, Draws, Session, TrainingOptions};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn data() -> Result<Dataset> {
    Ok(Dataset::forecast(synthetic::demo(2000, 3, 1)?, Split::ratio(0.7, 0.1, 0.2)?, 48, 12)?.0)
}

fn session(model: impl Model + 'static) -> Result<Session> {
    let options = TrainingOptions::default();
    Ok(Session::with_loss(&Engine::cpu()?, Box::new(model), &data()?, 48, 12, options, &cauchy)?)
}

/// The example's model, its weight starting at `value`.
fn drift(value: f64) -> Drift {
    let mut p = Parameters::new();
    let weight = p.add("drift.weight", [12, 48], Init::Constant(value));
    Drift(p, weight)
}

#[test]
fn the_example_fits_on_a_page() {
    let lines = include_str!("../examples/own_model.rs").lines().count();
    assert!(lines <= 40, "{lines} lines");
}

#[test]
fn it_trains_and_its_checkpoint_loads_back() -> Result<()> {
    let mut trained = session(drift(0.0))?;
    let before = trained.evaluate(Segment::Test)?.errors().0;
    for _ in 0..200 {
        trained.step()?;
    }
    let after = trained.evaluate(Segment::Test)?.errors().0;
    assert!(after < 0.8 * before, "{before} {after}");
    let file = tempfile::tempdir()?.path().join("drift.safetensors");
    assert!(write_weights(&file, &trained).is_err(), "its folder is gone");
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("drift.safetensors");
    write_weights(&file, &trained)?;
    let mut loaded = session(drift(1.0))?;
    assert_ne!(loaded.evaluate(Segment::Test)?.errors().0, after);
    read_weights(&file, &mut loaded)?;
    assert_eq!(loaded.evaluate(Segment::Test)?.errors().0, after);
    assert_eq!(loaded.state.read::<f32>("drift.weight")?, trained.state.read::<f32>("drift.weight")?);
    Ok(())
}

/// A model with a parameter that its prediction does not use, or of a shape that does not fit.
struct Mistaken(Parameters, Vec<ParameterId>);

impl Model for Mistaken {
    fn parameters(&self) -> &Parameters {
        &self.0
    }
    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.0
    }
    fn forward(&self, cx: &Context<'_>, x: Value) -> std::result::Result<Value, Error> {
        cx.graph.matmul(x, cx.parameter(self.1[0])?)
    }
}

fn refused(model: Mistaken) -> String {
    session(model).err().map_or_else(String::new, |e| e.to_string())
}

#[test]
fn mistakes_are_named_with_their_line() {
    let here = file!();
    let mut p = Parameters::new();
    let wrong = p.add("wrong", [40, 12], Init::Constant(0.0));
    let text = refused(Mistaken(p, vec![wrong]));
    // The line of the product in `forward`.
    let line =
        include_str!("own_model.rs").lines().position(|l| l.contains("cx.graph.matmul(x")).unwrap_or(0) + 1;
    assert_eq!(
        text,
        format!(
            "matmul(f32[32, 3, 48], f32[40, 12]): arg 0 axis 2 is 48, arg 1 axis 0 is 40; they must be equal  ({here}:{line})"
        )
    );
    let mut p = Parameters::new();
    let used = p.add("used", [48, 12], Init::Constant(0.0));
    let (unused, line) = (p.add("unused", [3], Init::Constant(0.0)), line!());
    let text = refused(Mistaken(p, vec![used, unused]));
    assert_eq!(
        text,
        format!(
            "parameter unused is trainable, but no gradient path leads from the loss to it; use it or freeze it  ({here}:{line})"
        )
    );
    // What PyTorch draws is not known of values that begin normally distributed; the line is that of the session.
    let mut p = Parameters::new();
    let normal = p.add("normal", [48, 12], Init::kaiming_normal(48));
    let options = TrainingOptions { draws: Draws::PyTorch, ..TrainingOptions::default() };
    let (engine, model) = (Engine::cpu().expect("a processor"), Box::new(Mistaken(p, vec![normal])));
    let data = data().expect("data");
    let (made, line) = (Session::new(&engine, model, &data, 48, 12, options), line!());
    let text = made.err().map_or_else(String::new, |e| e.to_string());
    assert!(
        text.contains("PyTorch's draws are asked for") && text.ends_with(&format!("({here}:{line})")),
        "{text}"
    );
}
