//! How much memory values share makes no difference to whole training steps, to the last bit, for every model; and none
//! of their launches touches what is not its own.

#[path = "../../landfall/tests/device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::plan::Reuse;
use landfall::sanitize::agree;
use landfall::{DType, Engine};
use landfall_forecast::run::Preset;
use landfall_train::data::{Segment, Split, TokenSegments, synthetic};
use landfall_train::models::{Columns, ModelConfig, ModelKind, OptionValue, Predicts};
use landfall_train::train::{Betas, Dataset, Loss, Session, TrainingOptions};

type Check<T = ()> = Result<T, Box<dyn std::error::Error>>;
/// Entries of a state and their bits.
type Bits = Vec<(String, Vec<u64>)>;

/// A preset with its structure and small sizes.
fn small(preset: &Preset) -> ModelConfig {
    let rows = if preset.config().forecasts() { 8 } else { 1 };
    let sizes = [
        ("context", 32),
        ("horizon", rows),
        ("patch", 8),
        ("stride", 4),
        ("d_model", 16),
        ("heads", 2),
        ("layers", 2),
        ("d_ff", if preset.kind() == ModelKind::Tsmixer { 8 } else { 32 }),
        ("kernel", 5),
        ("d_decoder", 4),
        ("tokens", 4),
        ("features", 16),
    ];
    let small =
        |config: ModelConfig, &(name, size): &(&str, usize)| config.with(name, OptionValue::Count(size));
    sizes.iter().fold(preset.config(), small).with_columns(Columns::only(3))
}

/// A session whose batches are cut into `accumulate` parts.
fn session(engine: &Engine, preset: &Preset, dtype: DType, accumulate: usize) -> Check<Session> {
    let (config, recipe) = (small(preset), preset.recipe);
    let (context, values) = (config.context(), config.predicts().values());
    let dataset = match config.predicts() {
        Predicts::Rows(horizon) => {
            let series = synthetic::demo(200, 3, 5)?;
            Dataset::forecast(series, Split::ratio(0.6, 0.2, 0.2)?, context, horizon)?.0
        }
        Predicts::Value => Dataset::regression(&synthetic::walk(64, 3, context, 1)?),
        Predicts::Classes(_) => {
            let data = synthetic::assets(64, config.tokens().unwrap_or(1), context, 1)?;
            Dataset::classification(&data, TokenSegments::new(&data, Split::ratio(0.6, 0.2, 0.2)?)?)
        }
    };
    let loss = if config.tokens().is_some() { Loss::CrossEntropy } else { Loss::Mse };
    let options = TrainingOptions {
        batch: 8,
        epochs: 2,
        lr: recipe.lr,
        schedule: recipe.schedule,
        optimizer: recipe.optimizer,
        betas: Betas { first: 0.9, second: 0.999 },
        weight_decay: 0.01,
        clip: recipe.clip,
        accumulate,
        dtype,
        loss,
        seed: 11,
        ..TrainingOptions::default()
    };
    Ok(Session::new(engine, config.build()?, &dataset, context, values, options)?)
}

/// The bits of every entry of the state.
fn bits(session: &Session) -> Check<Bits> {
    let entries = session.state.spec().slabs().iter().flat_map(|s| &s.entries);
    let of = |name: &str| -> Check<Vec<u64>> {
        Ok(session.state.read_host(name)?.data.iter().map(|x| x.to_bits()).collect())
    };
    entries.map(|e| Ok((e.name.clone(), of(&e.name)?))).collect()
}

/// Steps of training replayed and issued, and an evaluation: parameters, moments, statistics, losses and scores.
fn trained(engine: &Engine, preset: &Preset, dtype: DType, accumulate: usize) -> Check<(Bits, usize)> {
    let mut s = session(engine, preset, dtype, accumulate)?;
    s.step()?;
    s.issue()?;
    s.step()?;
    s.evaluate(Segment::Test)?;
    let [train, ..] = s.programs();
    Ok((bits(&s)?, train.report().arena_bytes))
}

fn whole_steps_do_not_depend_on_reuse(engine: &Engine) -> Check {
    // Of the plans with the most sharing: some may be as small as the tightest.
    let mut other_plans = 0;
    for preset in Preset::ALL {
        for (dtype, accumulate) in [(DType::F32, 1), (DType::BF16, 1), (DType::F32, 2)] {
            let (want, tight) = trained(&engine.with_reuse(Reuse::Tight), preset, dtype, accumulate)?;
            let loss = want.iter().find(|(name, _)| name == "ring").map(|(_, ring)| f64::from_bits(ring[0]));
            assert!(loss.is_some_and(|l| l.is_finite() && l > 0.0), "{}: {loss:?}", preset.name);
            for reuse in [Reuse::Most, Reuse::Nothing] {
                let (got, arena) = trained(&engine.with_reuse(reuse), preset, dtype, accumulate)?;
                for ((name, want), (_, got)) in want.iter().zip(&got) {
                    let differ = want.iter().zip(got).filter(|(a, b)| a != b).count();
                    let what = format!("{} in {dtype}, {reuse:?}", preset.name);
                    assert!(differ == 0, "{what}: {differ} of {} elements of {name} differ", want.len());
                }
                let larger = arena > tight || reuse == Reuse::Most;
                assert!(larger, "{} in {dtype}: {arena} bytes with none, {tight} with reuse", preset.name);
                other_plans += usize::from(reuse == Reuse::Most && arena != tight);
            }
        }
    }
    assert!(other_plans >= Preset::ALL.len(), "{other_plans} plans with the most sharing have another size");
    Ok(())
}

/// One replayed step, one issued and an evaluation.
fn whole_steps_pass_the_sanitizer(engine: &Engine) -> Check {
    for name in ["patchtst-42", "patchtst-deep", "window-regressor", "dlinear", "cross-asset"] {
        let preset = Preset::named(name).ok_or(name)?;
        let work = |engine: &Engine| -> Check<Vec<Vec<u8>>> {
            let mut s = session(engine, preset, DType::F32, 2)?;
            s.step()?;
            s.issue()?;
            s.evaluate(Segment::Test)?;
            Ok(bits(&s)?.into_iter().map(|(_, b)| b.iter().flat_map(|b| b.to_le_bytes()).collect()).collect())
        };
        let sanitized = agree(engine, work).map_err(|e| format!("{}: {e}", preset.name))?;
        assert!(sanitized == work(engine)?, "{}: the sanitizer changes results", preset.name);
    }
    Ok(())
}

on_each_device!(whole_steps_do_not_depend_on_reuse, whole_steps_pass_the_sanitizer);
