//! The network of a run, from a preset and what is set beside it.

use super::kinds::ModelKind;
use super::resolve::Source;
use super::settings::{Network, Settings, SettingsError};
use crate::choice::Sizes;
use crate::models::{
    CrossAssetConfig, DLinearConfig, ModelConfig, NLinearConfig, PatchTstConfig, Preset, Task, TideConfig,
    TsMixerConfig,
};
use crate::train::TrainingOptions;

impl Settings {
    pub(super) fn network(
        &self,
        model: ModelKind,
        preset: Preset,
        outputs: usize,
    ) -> Result<ModelConfig, SettingsError> {
        let n = self.network.clone().unwrap_or_default();
        let config = match self.base(model, preset) {
            ModelConfig::Patchtst(base) => {
                foreign(
                    preset,
                    &[
                        ("[network] kernel", n.kernel.is_some()),
                        ("[network] tokens", n.tokens.is_some()),
                        ("[network] features", n.features.is_some()),
                        ("[network] classes", n.classes.is_some()),
                    ],
                )?;
                ModelConfig::Patchtst(PatchTstConfig {
                    context: self.context.unwrap_or(base.context),
                    horizon: self.horizon.unwrap_or(base.horizon),
                    patch: n.patch.unwrap_or(base.patch),
                    stride: n.stride.unwrap_or(base.stride),
                    d_model: n.d_model.unwrap_or(base.d_model),
                    heads: n.heads.unwrap_or(base.heads),
                    layers: n.layers.unwrap_or(base.layers),
                    d_ff: n.d_ff.unwrap_or(base.d_ff),
                    norm: n.norm.unwrap_or(base.norm),
                    order: n.order.unwrap_or(base.order),
                    residual_attention: n.residual_attention.unwrap_or(base.residual_attention),
                    gelu: n.gelu.unwrap_or(base.gelu),
                    padding: n.padding.unwrap_or(base.padding),
                    drop_first_rows: n.drop_first_rows.unwrap_or(base.drop_first_rows),
                    revin: n.revin.unwrap_or(base.revin),
                    dropout: self.dropout.unwrap_or(base.dropout),
                    dropout_masks: n.dropout_masks.unwrap_or(base.dropout_masks),
                    outputs,
                    task: base.task,
                })
            }
            ModelConfig::Dlinear(base) => {
                let others = Network { kernel: None, columns: None, ..n.clone() } != Network::default();
                foreign(
                    preset,
                    &[("--dropout", self.dropout.is_some()), ("an option of [network]", others)],
                )?;
                ModelConfig::Dlinear(DLinearConfig {
                    context: self.context.unwrap_or(base.context),
                    horizon: self.horizon.unwrap_or(base.horizon),
                    kernel: n.kernel.unwrap_or(base.kernel),
                    outputs,
                })
            }
            ModelConfig::Nlinear(base) => {
                let others = Network { columns: None, ..n.clone() } != Network::default();
                foreign(
                    preset,
                    &[("--dropout", self.dropout.is_some()), ("an option of [network]", others)],
                )?;
                ModelConfig::Nlinear(NLinearConfig {
                    context: self.context.unwrap_or(base.context),
                    horizon: self.horizon.unwrap_or(base.horizon),
                    outputs,
                })
            }
            ModelConfig::Tide(base) => {
                let sizes = Network {
                    columns: n.columns,
                    d_model: n.d_model,
                    layers: n.layers,
                    d_decoder: n.d_decoder,
                    d_temporal: n.d_temporal,
                    layer_norm: n.layer_norm,
                    temporal_norm: n.temporal_norm,
                    revin: n.revin,
                    ..Network::default()
                };
                foreign(preset, &[("another option of [network]", sizes != n)])?;
                ModelConfig::Tide(TideConfig {
                    context: self.context.unwrap_or(base.context),
                    horizon: self.horizon.unwrap_or(base.horizon),
                    columns: n.columns.unwrap_or(base.columns),
                    d_model: n.d_model.unwrap_or(base.d_model),
                    layers: n.layers.unwrap_or(base.layers),
                    d_decoder: n.d_decoder.unwrap_or(base.d_decoder),
                    d_temporal: n.d_temporal.unwrap_or(base.d_temporal),
                    layer_norm: n.layer_norm.unwrap_or(base.layer_norm),
                    temporal_norm: n.temporal_norm.unwrap_or(base.temporal_norm),
                    revin: n.revin.unwrap_or(base.revin),
                    dropout: self.dropout.unwrap_or(base.dropout),
                    outputs,
                })
            }
            ModelConfig::Tsmixer(base) => {
                let sizes = Network {
                    columns: n.columns,
                    layers: n.layers,
                    d_ff: n.d_ff,
                    norm: n.norm,
                    revin: n.revin,
                    ..Network::default()
                };
                foreign(preset, &[("another option of [network]", sizes != n)])?;
                ModelConfig::Tsmixer(TsMixerConfig {
                    context: self.context.unwrap_or(base.context),
                    horizon: self.horizon.unwrap_or(base.horizon),
                    columns: n.columns.unwrap_or(base.columns),
                    layers: n.layers.unwrap_or(base.layers),
                    d_ff: n.d_ff.unwrap_or(base.d_ff),
                    norm: n.norm.unwrap_or(base.norm),
                    revin: n.revin.unwrap_or(base.revin),
                    dropout: self.dropout.unwrap_or(base.dropout),
                    outputs,
                })
            }
            ModelConfig::CrossAsset(base) => {
                let sizes = Network {
                    tokens: n.tokens,
                    features: n.features,
                    classes: n.classes,
                    d_model: n.d_model,
                    heads: n.heads,
                    layers: n.layers,
                    d_ff: n.d_ff,
                    ..Network::default()
                };
                foreign(
                    preset,
                    &[
                        ("--context", self.context.is_some()),
                        ("--horizon", self.horizon.is_some()),
                        ("another option of [network]", sizes != n),
                    ],
                )?;
                ModelConfig::CrossAsset(CrossAssetConfig {
                    tokens: n.tokens.unwrap_or(base.tokens),
                    features: n.features.unwrap_or(base.features),
                    classes: n.classes.unwrap_or(base.classes),
                    d_model: n.d_model.unwrap_or(base.d_model),
                    heads: n.heads.unwrap_or(base.heads),
                    layers: n.layers.unwrap_or(base.layers),
                    d_ff: n.d_ff.unwrap_or(base.d_ff),
                    dropout: self.dropout.unwrap_or(base.dropout),
                })
            }
        };
        config.check().map_err(SettingsError::Network)?;
        if config.task() == Task::Regress && config.horizon() != 1 {
            let value = config.horizon().to_string();
            return Err(SettingsError::Range {
                key: "--horizon",
                value,
                rule: "a window-regressor predicts one value; leave it out",
            });
        }
        Ok(config)
    }

    /// The sizes that a network starts from: the preset's; by the default recipe those of the model that was asked for,
    /// with patches that fit its context.
    fn base(&self, model: ModelKind, preset: Preset) -> ModelConfig {
        match (preset, model, preset.config()) {
            (Preset::Auto, ModelKind::Dlinear, _) => Preset::DLinear.config(),
            (Preset::Auto, ModelKind::Tide, _) => match Preset::Tide.config() {
                // Of data of its own the model reads more than a linear map does.
                ModelConfig::Tide(of) => ModelConfig::Tide(TideConfig { temporal_norm: false, ..of }),
                of @ (ModelConfig::Patchtst(_)
                | ModelConfig::Dlinear(_)
                | ModelConfig::Nlinear(_)
                | ModelConfig::Tsmixer(_)
                | ModelConfig::CrossAsset(_)) => of,
            },
            (Preset::Auto, ModelKind::Tsmixer, _) => Preset::TsMixer.config(),
            (Preset::Auto, ModelKind::Nlinear, of) => {
                let (context, horizon) = (of.context(), of.horizon());
                ModelConfig::Nlinear(NLinearConfig { context, horizon, outputs: 1 })
            }
            (Preset::Auto, _, ModelConfig::Patchtst(of)) => {
                let (patch, stride) = Sizes::patch(self.context.unwrap_or(of.context));
                ModelConfig::Patchtst(PatchTstConfig { patch, stride, ..of })
            }
            (_, _, of) => of,
        }
    }

    /// Every option of the network with its value. Of samples in a file only the sizes that were given: the file has the
    /// others.
    pub(super) fn filled(&self, n: &ModelConfig, source: &Source) -> Network {
        let columns = self.network.as_ref().and_then(|n| n.columns);
        Network { columns, ..self.sizes(n, source) }
    }

    fn sizes(&self, n: &ModelConfig, source: &Source) -> Network {
        match n {
            ModelConfig::Patchtst(n) => Network {
                patch: Some(n.patch),
                stride: Some(n.stride),
                d_model: Some(n.d_model),
                heads: Some(n.heads),
                layers: Some(n.layers),
                d_ff: Some(n.d_ff),
                norm: Some(n.norm),
                order: Some(n.order),
                residual_attention: Some(n.residual_attention),
                gelu: Some(n.gelu),
                padding: Some(n.padding),
                drop_first_rows: n.drop_first_rows.then_some(true),
                revin: Some(n.revin),
                dropout_masks: Some(n.dropout_masks),
                ..Network::default()
            },
            ModelConfig::Dlinear(n) => Network { kernel: Some(n.kernel), ..Network::default() },
            ModelConfig::Nlinear(_) => Network::default(),
            ModelConfig::Tide(n) => Network {
                d_model: Some(n.d_model),
                layers: Some(n.layers),
                d_decoder: Some(n.d_decoder),
                d_temporal: Some(n.d_temporal),
                layer_norm: Some(n.layer_norm),
                temporal_norm: Some(n.temporal_norm),
                revin: Some(n.revin),
                ..Network::default()
            },
            ModelConfig::Tsmixer(n) => Network {
                layers: Some(n.layers),
                d_ff: Some(n.d_ff),
                norm: Some(n.norm),
                revin: Some(n.revin),
                ..Network::default()
            },
            ModelConfig::CrossAsset(n) => {
                let given = self.network.clone().unwrap_or_default();
                let open = matches!(source, Source::Files { .. });
                let size = |given: Option<usize>, size| if open { given } else { Some(size) };
                Network {
                    tokens: size(given.tokens, n.tokens),
                    features: size(given.features, n.features),
                    classes: size(given.classes, n.classes),
                    d_model: Some(n.d_model),
                    heads: Some(n.heads),
                    layers: Some(n.layers),
                    d_ff: Some(n.d_ff),
                    ..Network::default()
                }
            }
        }
    }
}

/// Refuses `--sync-batch-norm` where nothing has such statistics, or where no step has them at once.
pub(super) fn has_statistics(
    model: ModelKind,
    network: &ModelConfig,
    training: &TrainingOptions,
) -> Result<(), SettingsError> {
    let conflict = |second: String, why: &str| {
        let (first, why) = ("--sync-batch-norm".to_owned(), why.to_owned());
        Err(SettingsError::Conflict { first, second, why })
    };
    if !training.sync_batch_norm {
        return Ok(());
    }
    if training.accumulate > 1 {
        let second = format!("--accumulate {}", training.accumulate);
        return conflict(
            second,
            "micro-batches run one after another, so none has the statistics of all; leave one of them out",
        );
    }
    if training.rank_order {
        let why =
            "the sums of its statistics' gradients have the order of the transport; leave one of them out";
        return conflict("--rank-order".to_owned(), why);
    }
    if !network.has_batch_norm() {
        let second = format!("--model {}", model.name());
        return conflict(second, "it has no batch norm as it is set; leave it out");
    }
    Ok(())
}

/// Refuses options that a preset's model does not have.
fn foreign(preset: Preset, given: &[(&str, bool)]) -> Result<(), SettingsError> {
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(SettingsError::Conflict {
            first: (*option).to_owned(),
            second: format!("--preset {}", preset.name()),
            why: "that model has no such option; leave it out".to_owned(),
        }),
    }
}
