//! Small models of each kind, with data, for tests that run many sessions.

use landfall::Engine;
use landfall_train::data::{Split, TokenSegments, synthetic};
use landfall_train::models::{CrossAssetConfig, ModelConfig, Order, PatchTstConfig, Reads};
use landfall_train::nn::NormKind;
use landfall_train::train::{Dataset, Loss, OptimizerKind, Session, TrainingOptions};

pub(crate) fn patchtst(norm: NormKind, dropout: f64) -> Result<ModelConfig, &'static str> {
    Ok(ModelConfig::Patchtst(PatchTstConfig {
        context: 32,
        horizon: 8,
        patch: 8,
        stride: 4,
        d_model: 16,
        heads: 2,
        layers: 2,
        d_ff: 32,
        norm,
        order: Order::Post,
        dropout,
        ..PatchTstConfig::default()
    }))
}

pub(crate) fn cross_asset(dropout: f64) -> ModelConfig {
    ModelConfig::CrossAsset(CrossAssetConfig {
        tokens: 3,
        features: 7,
        classes: 3,
        d_model: 16,
        heads: 2,
        layers: 2,
        d_ff: 32,
        dropout,
    })
}

/// Data for a model, and the loss that it is trained by.
pub(crate) fn data(model: &ModelConfig) -> Result<(Dataset, Loss), Box<dyn std::error::Error>> {
    match model.reads() {
        Reads::Tokens(tokens) => {
            let data = synthetic::assets(200, tokens, model.context(), 3)?;
            let segments = TokenSegments::new(&data, Split::ratio(0.7, 0.1, 0.2)?)?;
            Ok((Dataset::classification(&data, segments), Loss::CrossEntropy))
        }
        Reads::Labelled => Ok((Dataset::regression(&synthetic::walk(64, 3, model.context(), 1)?), Loss::Mse)),
        Reads::EachColumn | Reads::Together(_) => {
            let (series, split) = (synthetic::demo(300, 2, 5)?, Split::ratio(0.7, 0.1, 0.2)?);
            Ok((Dataset::forecast(series, split, model.context(), model.horizon())?.0, Loss::Mse))
        }
    }
}

pub(crate) fn session(
    engine: &Engine,
    model: &ModelConfig,
    options: TrainingOptions,
) -> Result<Session, Box<dyn std::error::Error>> {
    let (dataset, loss) = data(model)?;
    let options = TrainingOptions {
        epochs: 100,
        optimizer: OptimizerKind::AdamW,
        weight_decay: 0.01,
        clip: Some(1.0),
        loss,
        ..options
    };
    let (context, values) = (model.context(), model.predicts().values());
    Ok(Session::new(engine, model.build()?, &dataset, context, values, options)?)
}
