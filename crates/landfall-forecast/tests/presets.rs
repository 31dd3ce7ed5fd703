//! Every preset: its number of parameters, and the memory plan of its programs.

use landfall::ops::Precision;
use landfall::{DType, Engine};
use landfall_forecast::run::{Preset, Recipe};
use landfall_train::data::{Split, synthetic};
use landfall_train::models::{Columns, DropoutMasks, ModelKind, PatchTst, PatchTstConfig, Predicts};
use landfall_train::train::{Dataset, Loss, Session, TrainingOptions};
use std::error::Error;

fn options(recipe: &Recipe) -> TrainingOptions {
    TrainingOptions { epochs: 1, seed: 1, ..recipe.options() }
}

/// A session of a preset over data of its shape.
fn session(engine: &Engine, preset: &Preset, options: TrainingOptions) -> Result<Session, Box<dyn Error>> {
    let config = preset.config().with_columns(Columns::only(7));
    let dataset = match config.predicts() {
        Predicts::Rows(_) => {
            let series = synthetic::demo(4 * (config.context() + config.horizon()), 7, 1)?;
            Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, config.context(), config.horizon())?.0
        }
        Predicts::Classes(classes) => {
            Dataset::blank_classes(config.tokens().unwrap_or(1), config.context(), classes, 640)
        }
        Predicts::Value => Dataset::regression(&synthetic::walk(640, 10, config.context(), 1)?),
    };
    let loss = if config.tokens().is_some() { Loss::CrossEntropy } else { Loss::Mse };
    let options = TrainingOptions { loss, ..options };
    let (context, horizon) = (config.context(), config.predicts().values());
    Ok(Session::new(engine, config.build()?, &dataset, context, horizon, options)?)
}

/// No plan can be smaller than the bytes that live at one time; ours stay within 15 % of it. Planned on the null device,
/// which needs no memory for the large ones.
#[test]
fn plans_are_tight() -> Result<(), Box<dyn Error>> {
    for preset in Preset::ALL {
        let session = session(&Engine::null(), preset, options(&preset.recipe))?;
        for program in session.programs() {
            let r = program.report();
            let ratio = r.arena_bytes as f64 / r.live_peak_bytes.max(1) as f64;
            println!(
                "{} {}: arena {} bytes, {ratio:.3} of what lives at one time",
                preset.name,
                program.name(),
                r.arena_bytes
            );
            assert!(ratio <= 1.15, "{} {}: {ratio}", preset.name, program.name());
            assert!(r.live_peak_bytes > 0);
        }
    }
    Ok(())
}

/// The graph that a GPU would capture of each program implies every edge that the plan has proved; the engine shows it as
/// it records a program, and refuses otherwise. No GPU is needed.
#[test]
fn captured_graphs_imply_their_plans() -> Result<(), Box<dyn Error>> {
    let engine = Engine::planning_for_cuda();
    for preset in Preset::ALL {
        for (dtype, products) in
            [(DType::F32, Precision::Strict), (DType::F32, Precision::Tf32), (DType::BF16, Precision::Strict)]
        {
            for accumulate in [1, 4] {
                let options = TrainingOptions { dtype, products, accumulate, ..options(&preset.recipe) };
                let made = session(&engine, preset, options)
                    .map_err(|e| format!("{} {dtype} {products:?} x{accumulate}: {e}", preset.name))?;
                assert!(made.programs().iter().all(|p| p.report().rows.len() > 1), "{}", preset.name);
            }
        }
    }
    Ok(())
}

/// The official model has 13 masks in three layers; without those of the embedding and the second of each attention
/// there are 9. The backward pass draws each mask again.
#[test]
fn dropout_masks() -> Result<(), Box<dyn Error>> {
    for (dropout_masks, masks) in [(DropoutMasks::Official, 13), (DropoutMasks::Branches, 9)] {
        let config = PatchTstConfig { dropout_masks, ..PatchTstConfig::default() };
        let dataset = Dataset::blank(7, config.context, config.horizon, 128);
        let (context, horizon) = (config.context, config.horizon);
        let options = options(&Preset::of(ModelKind::Patchtst).recipe);
        let model = PatchTst::new(config)?;
        let session = Session::new(&Engine::null(), Box::new(model), &dataset, context, horizon, options)?;
        let [train, evaluate, _] = session.programs();
        let drawn = |p: &landfall::Program| p.report().rows.iter().filter(|r| r.op == "dropout").count();
        assert_eq!((drawn(train), drawn(evaluate)), (2 * masks, 0), "{dropout_masks:?}");
    }
    Ok(())
}
