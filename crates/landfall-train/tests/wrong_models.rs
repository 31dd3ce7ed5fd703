//! What a person is told of a model, its data or its predictors that cannot be: by name, with the numbers, at the line of the caller.

use landfall::{Engine, Error, Value};
use landfall_train::nn::{Context, Linear, Parameters, loss};
use landfall_train::train::{Arrays, Batch, Trainer, TrainingOptions, Weights};

fn data() -> Result<Arrays, Error> {
    Arrays::new().with("x", [16, 4], vec![0.5f32; 64])?.with("y", [16, 4], vec![1.0f32; 64])
}

fn layer(name: &str) -> (Parameters, Linear) {
    let mut parameters = Parameters::new();
    let layer = Linear::new(&mut parameters, name, 4, 4);
    (parameters, layer)
}

fn trainer(
    parameters: &Parameters,
    model: impl FnOnce(&Context<'_>, Value) -> Result<Value, Error>,
) -> Result<Trainer, Error> {
    let options = TrainingOptions { batch: 8, ..TrainingOptions::default() };
    Trainer::new(&Engine::cpu()?, parameters, &data()?, options, |cx, batch| {
        loss::mse(cx.graph, model(cx, batch.get("x")?)?, batch.get("y")?)
    })
}

fn refused<T>(result: Result<T, Error>) -> String {
    result.err().expect("a refusal").to_string()
}

/// The numbers of parameters are equal, so without a check the other layer's place would name a tensor of this model.
#[test]
fn a_layer_of_other_parameters_is_refused() -> Result<(), Error> {
    let ((parameters, _), (_, foreign)) = (layer("own"), layer("base"));
    let text = refused(trainer(&parameters, |cx, x| foreign.forward(cx, x)));
    let line = line!() - 1;
    let begin =
        "parameter(): the layer's parameter is number 0 of other Parameters; it must be of the model's own: ";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.ends_with(&format!("wrong_models.rs:{line})")), "{text}");
    // A copy has the same layers.
    let (copied, own) = layer("own");
    let mut copy = copied.clone();
    copy.add("more", [2], landfall_train::nn::Init::Constant(1.0));
    copy.freeze("more");
    trainer(&copy, |cx, x| own.forward(cx, x))?.step()
}

#[test]
fn a_model_without_trained_parameters_is_refused() {
    let (mut parameters, layer) = layer("layer");
    parameters.freeze("");
    let text = refused(trainer(&parameters, |cx, x| layer.forward(cx, x)));
    assert!(text.starts_with("minimiser(): needs a parameter, one that is not frozen"), "{text}");
}

#[test]
fn a_loss_that_is_no_scalar_is_refused_at_its_trainer() -> Result<(), Error> {
    let (parameters, layer) = layer("layer");
    let losses = |cx: &Context<'_>, batch: &Batch| layer.forward(cx, batch.get("x")?);
    let options = TrainingOptions { batch: 8, ..TrainingOptions::default() };
    let text = refused(Trainer::new(&Engine::cpu()?, &parameters, &data()?, options, losses));
    let line = line!() - 1;
    let begin = "the loss is f32[8, 4]; it must be a floating-point scalar: take its mean or sum (mean_all)";
    assert!(text.starts_with(begin) && text.ends_with(&format!("wrong_models.rs:{line})")), "{text}");
    Ok(())
}

#[test]
fn a_predictor_names_the_array_that_it_was_not_made_for() -> Result<(), Error> {
    let (parameters, layer) = layer("layer");
    let trainer = trainer(&parameters, |cx, x| layer.forward(cx, x))?;
    let given = Arrays::new().with("x", [3, 4], vec![0.0f32; 12])?;
    let mut predictor =
        trainer.predictor(&given, 8, Weights::Last, |cx, batch| layer.forward(cx, batch.get("x")?))?;
    let mut told = |data: Arrays| refused(predictor.run(&trainer, &data));
    assert_eq!(
        told(Arrays::new().with("x", [3, 5], vec![0.0f32; 15])?),
        "array x is f32[3, 4], the memory of the host is f32[3, 5]; dtype and number of elements must be equal"
    );
    // As many elements under another shape.
    assert_eq!(
        told(Arrays::new().with("x", [3, 2, 2], vec![0.0f32; 12])?),
        "array x is f32[3, 4], the memory of the host is f32[3, 2, 2]; their sizes must be equal"
    );
    assert_eq!(
        told(Arrays::new().with("x", [3, 4], vec![0.0f64; 12])?),
        "array x is f32[3, 4], the memory of the host is f64[3, 4]; dtype and number of elements must be equal"
    );
    assert_eq!(told(Arrays::new().with("z", [3, 4], vec![0.0f32; 12])?), "program has no input z; it has x");
    Ok(())
}

#[test]
fn a_predictor_of_a_scalar_is_told_to_give_a_row_for_each_sample() -> Result<(), Error> {
    let (parameters, layer) = layer("layer");
    let trainer = trainer(&parameters, |cx, x| layer.forward(cx, x))?;
    let scalar = |cx: &Context<'_>, batch: &Batch| cx.graph.mean_all(layer.forward(cx, batch.get("x")?)?);
    let text = refused(trainer.predictor(&data()?, 8, Weights::Last, scalar));
    assert!(
        text.starts_with("predictor(f32[]): value is f32[]; it must be a row for each sample of the batch"),
        "{text}"
    );
    Ok(())
}

#[test]
fn what_was_not_asked_for_says_how_to_ask() -> Result<(), Error> {
    let (parameters, layer) = layer("layer");
    let mut trainer = trainer(&parameters, |cx, x| layer.forward(cx, x))?;
    trainer.step()?;
    let average =
        trainer.predictor(&data()?, 8, Weights::Average, |cx, batch| layer.forward(cx, batch.get("x")?));
    let advice = "(): needs an average of the weights, which is kept if the option average asks for one";
    assert!(refused(average).contains(advice));
    assert!(refused(trainer.parameter("layer.weight", Weights::Average)).contains(advice));
    assert_eq!(refused(trainer.kept("scores")), "program has no kept value scores; it has none");
    Ok(())
}
