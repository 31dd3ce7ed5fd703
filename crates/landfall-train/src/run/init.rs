//! Weights to start from, and the settings that follow from them.

use super::kinds::ModelKind;
use super::settings::{Settings, SettingsError};
use crate::models::{DropoutMasks, PatchTstConfig, Preset, Task};
use crate::pretrained::{Origin, Pretrained};
use serde::Serialize;
use std::path::Path;

/// Checks what was given against what the weights say, and fills in the rest.
struct Fill<'a> {
    /// The file that says it.
    path: &'a Path,
    /// The preset that was given, which stands for the values that it has.
    preset: Option<(&'a str, PatchTstConfig)>,
}

impl Fill<'_> {
    /// `given` is the option's value, `preset` that of the preset, `value` that of the weights under the name `key`.
    fn same<T: Clone + PartialEq + Serialize>(
        &self,
        (option, given): (&str, &mut Option<T>),
        preset: impl Fn(&PatchTstConfig) -> T,
        (key, value): (&str, T),
    ) -> Result<(), SettingsError> {
        let text = |value: &T| serde_json::to_string(value).unwrap_or_default().replace('"', "");
        let conflict = |first: String, why: &str| SettingsError::Conflict {
            first,
            second: format!("{key} {} of {}", text(&value), self.path.display()),
            why: format!("the weights are of that model; {why}"),
        };
        match (&given, &self.preset) {
            (Some(own), _) if *own != value => {
                return Err(conflict(format!("{option} {}", text(own)), "leave it out"));
            }
            (None, Some((name, config))) if preset(config) != value => {
                let own = text(&preset(config));
                return Err(conflict(
                    format!("--preset {name}, with {option} {own},"),
                    "leave the preset out",
                ));
            }
            (Some(_) | None, _) => *given = Some(value),
        }
        Ok(())
    }
}

impl Settings {
    /// These settings with those that follow from the weights that they start from, and what a person has to know of
    /// them. The sizes of a model of Hugging Face, of a run, or, without a preset, of an official checkpoint are those of
    /// the weights.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`] for a setting that contradicts the weights, with both values.
    pub fn with_weights(mut self, weights: &Pretrained) -> Result<(Self, Vec<String>), SettingsError> {
        let forecasts = matches!(self.model, None | Some(ModelKind::Patchtst));
        let chosen = self.preset.clone().filter(|name| !name.eq_ignore_ascii_case(Preset::Auto.name()));
        match &weights.origin {
            Origin::HuggingFace(described) => {
                let path = weights.path.join("config.json");
                if let Some(model) = self.model.filter(|_| !forecasts) {
                    return Err(SettingsError::Conflict {
                        first: format!("--model {}", model.name()),
                        second: path.display().to_string(),
                        why: "it describes a patchtst; leave the model out".to_owned(),
                    });
                }
                let preset = chosen.as_deref().and_then(|name| {
                    let config = Preset::parse(name)?.config().patchtst()?;
                    Some((name, config))
                });
                self.describe(&Fill { path: &path, preset }, &described.network)?;
                if self.quantiles.is_some() {
                    return Err(SettingsError::Conflict {
                        first: "--quantiles".to_owned(),
                        second: path.display().to_string(),
                        why: "its head predicts one value for each row; leave them out".to_owned(),
                    });
                }
                self.dropout.get_or_insert(described.network.dropout);
                let network = self.network.get_or_insert_default();
                network.dropout_masks.get_or_insert(described.network.dropout_masks);
                let frozen = self.freeze.get_or_insert_default();
                if described.fixed_positions && !frozen.iter().any(|pattern| pattern == POSITIONS) {
                    frozen.push(POSITIONS.to_owned());
                }
                if frozen.is_empty() {
                    self.freeze = None;
                }
                Ok((self, described.notes.clone()))
            }
            Origin::Official(shapes) if chosen.is_none() && forecasts => {
                if let Some(settings) =
                    weights.file.metadata.get("configuration").filter(|text| !text.is_empty())
                {
                    let run = Self::parse(settings, &weights.path)?;
                    return Ok((self.of_run(&weights.path, run)?, Vec::new()));
                }
                let fill = Fill { path: &weights.path, preset: None };
                let levels = self.quantiles.as_ref().map_or(1, Vec::len).max(1);
                let mut network = self.network.take().unwrap_or_default();
                let none = |_: &PatchTstConfig| 0;
                fill.same(("--patch", &mut network.patch), none, ("patch length", shapes.patch))?;
                fill.same(("[network] d-model", &mut network.d_model), none, ("width", shapes.d_model))?;
                fill.same(
                    ("[network] layers", &mut network.layers),
                    none,
                    ("number of layers", shapes.layers),
                )?;
                fill.same(
                    ("[network] d-ff", &mut network.d_ff),
                    none,
                    ("width of the feed-forward", shapes.d_ff),
                )?;
                if let Some(heads) = shapes.heads {
                    fill.same(("[network] heads", &mut network.heads), none, ("number of heads", heads))?;
                }
                let norm = |c: &PatchTstConfig| c.norm;
                fill.same(("[network] norm", &mut network.norm), norm, ("norm", shapes.norm))?;
                let horizon = ("horizon", shapes.predicted / levels);
                fill.same(("--horizon", &mut self.horizon), none, horizon)?;
                let stride = *network.stride.get_or_insert((shapes.patch / 2).max(1));
                let padding = *network.padding.get_or_insert(true);
                let context = shapes.context(stride, padding);
                if let Some(given) = self.context
                    && given.checked_sub(context).is_none_or(|more| more >= stride)
                {
                    return Err(SettingsError::Conflict {
                        first: format!("--context {given}"),
                        second: format!("{} patches of {}", shapes.patches, weights.path.display()),
                        why: format!(
                            "with patches of {} rows, stride {stride} and padding {padding} they need a context of {context} \
                             to {}; correct --context, --stride or [network] padding",
                            shapes.patch,
                            (context + stride).saturating_sub(1)
                        ),
                    });
                }
                let context = *self.context.get_or_insert(context);
                let paper = PatchTstConfig::paper();
                network.residual_attention.get_or_insert(paper.residual_attention);
                network.order.get_or_insert(paper.order);
                network.revin.get_or_insert(paper.revin);
                network.dropout_masks.get_or_insert(DropoutMasks::Official);
                let note = format!(
                    "{} does not say all of its model: taken are context {context}, stride {stride}, padding {padding}, {}, as \
                     the official scripts train; --context, --stride and [network] of a configuration file say otherwise",
                    weights.path.display(),
                    "residual attention, post-norm and RevIN where no setting says otherwise"
                );
                self.network = Some(network);
                self.model = Some(ModelKind::Patchtst);
                Ok((self, vec![note]))
            }
            Origin::Official(_) | Origin::Unknown => Ok((self, Vec::new())),
        }
    }

    /// Takes a model's sizes and options from `config.json`.
    fn describe(&mut self, fill: &Fill<'_>, c: &PatchTstConfig) -> Result<(), SettingsError> {
        let mut network = self.network.take().unwrap_or_default();
        let n = &mut network;
        fill.same(("--context", &mut self.context), |p| p.context, ("context_length", c.context))?;
        fill.same(("--horizon", &mut self.horizon), |p| p.horizon, ("prediction_length", c.horizon))?;
        fill.same(("--patch", &mut n.patch), |p| p.patch, ("patch_length", c.patch))?;
        fill.same(("--stride", &mut n.stride), |p| p.stride, ("patch_stride", c.stride))?;
        fill.same(("[network] d-model", &mut n.d_model), |p| p.d_model, ("d_model", c.d_model))?;
        fill.same(("[network] heads", &mut n.heads), |p| p.heads, ("num_attention_heads", c.heads))?;
        fill.same(("[network] layers", &mut n.layers), |p| p.layers, ("num_hidden_layers", c.layers))?;
        fill.same(("[network] d-ff", &mut n.d_ff), |p| p.d_ff, ("ffn_dim", c.d_ff))?;
        fill.same(("[network] norm", &mut n.norm), |p| p.norm, ("norm", c.norm))?;
        fill.same(("[network] order", &mut n.order), |p| p.order, ("order", c.order))?;
        let residual = ("residual attention", c.residual_attention);
        fill.same(
            ("[network] residual-attention", &mut n.residual_attention),
            |p| p.residual_attention,
            residual,
        )?;
        fill.same(("[network] gelu", &mut n.gelu), |p| p.gelu, ("gelu", c.gelu))?;
        fill.same(("[network] padding", &mut n.padding), |p| p.padding, ("padding", c.padding))?;
        let first = ("rows left out at the start", c.drop_first_rows);
        fill.same(("[network] drop-first-rows", &mut n.drop_first_rows), |p| p.drop_first_rows, first)?;
        fill.same(("[network] revin", &mut n.revin), |p| p.revin, ("scaling", c.revin))?;
        self.network = Some(network);
        if fill.preset.is_none() {
            self.model = Some(ModelKind::Patchtst);
        }
        Ok(())
    }

    /// Takes a model's sizes and options from the configuration in a run's weights.
    fn of_run(mut self, path: &Path, run: Self) -> Result<Self, SettingsError> {
        if let Some(quantiles) = run.quantiles.clone() {
            let fill = Fill { path, preset: None };
            fill.same(("--quantiles", &mut self.quantiles), |_| Vec::new(), ("quantiles", quantiles))?;
        }
        let resolved =
            Self { init: None, ..run }.resolve().map_err(|e| SettingsError::Network(e.to_string()))?;
        if let Some(config) = resolved.network.patchtst().filter(|config| config.task == Task::Forecast) {
            self.describe(&Fill { path, preset: None }, &config)?;
            self.dropout.get_or_insert(config.dropout);
            self.network.get_or_insert_default().dropout_masks.get_or_insert(config.dropout_masks);
        }
        Ok(self)
    }
}

/// What the name of the positions contains.
const POSITIONS: &str = "W_pos";
