//! Weights to start from, and the settings that follow from them.

use super::network_options::NetworkOptions;
use super::presets::Preset;
use super::settings::Settings;
use super::settings_error::SettingsError;
use super::words::Text;
use crate::models::zero_shot::{LEVELS, ZeroShotConfig};
use crate::models::{Declared, DropoutMasks, ModelConfig, ModelKind, OptionValue, PatchTstConfig};
use crate::pretrained::{Origin, Pretrained, Shapes};
use std::path::Path;

/// Checks what was given against what the weights say.
struct Weights<'a> {
    /// The file that says it.
    path: &'a Path,
    /// The preset that was given, which stands for the values that it has.
    preset: Option<&'a Preset>,
}

/// A size or option of the weights: its name here, its name there, and its value there.
type Said<'a> = (&'static str, &'a str, OptionValue);

impl Weights<'_> {
    /// Refuses a value other than that of the weights, whether it was given or the preset's.
    fn agree(&self, given: Option<OptionValue>, (name, key, value): Said<'_>) -> Result<(), SettingsError> {
        let option = |value: OptionValue| match name {
            "context" | "horizon" => Text::given(name, value),
            _ => Text::option(name, Some(value.to_string())),
        };
        let conflict = |first: Text, why: &'static str| {
            Err(SettingsError::Conflict {
                first,
                second: format!("{key} {value} of {}", self.path.display()).into(),
                why: Text::from("the weights are of that model; ").and(why),
            })
        };
        let of_preset = self.preset.and_then(|preset| Some((preset.name, preset.config().value(name)?)));
        match (given, of_preset) {
            (Some(own), _) if own != value => conflict(option(own), "leave it out"),
            (None, Some((preset, own))) if own != value => conflict(
                Text::given("preset", preset).and(", with ").and(option(own)).and(","),
                "leave the preset out",
            ),
            (Some(_) | None, _) => Ok(()),
        }
    }
}

/// What the weights of a model of Hugging Face, or of a run, say, by the names that Hugging Face has for it.
const DESCRIBED: [(&str, &str); 15] = [
    ("context", "context_length"),
    ("horizon", "prediction_length"),
    ("patch", "patch_length"),
    ("stride", "patch_stride"),
    ("d_model", "d_model"),
    ("heads", "num_attention_heads"),
    ("layers", "num_hidden_layers"),
    ("d_ff", "ffn_dim"),
    ("norm", "norm"),
    ("order", "order"),
    ("residual_attention", "residual attention"),
    ("gelu", "gelu"),
    ("padding", "padding"),
    ("drop_first_rows", "rows left out at the start"),
    ("revin", "scaling"),
];

/// The learning rate of pretrained weights: of 1e-5, 3e-5, 1e-4, 3e-4 and 1e-3 the one with the smallest validation errors on ETTh1,
/// ETTh2 and the daily file of `bench/real`.
const FINE_TUNING_RATE: f64 = 1e-4;

impl Settings {
    /// These settings with those that follow from the weights that they start from, and what a person has to know of
    /// them. The sizes of a model of Hugging Face, of a run, or, without a preset, of an official checkpoint are those of
    /// the weights.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`] for a setting that contradicts the weights, with both values.
    pub fn with_weights(mut self, weights: &Pretrained) -> Result<(Self, Vec<Text>), SettingsError> {
        let forecasts = matches!(self.model, None | Some(ModelKind::Patchtst));
        let chosen = self.preset.clone().filter(|name| !name.eq_ignore_ascii_case(Preset::auto().name));
        match &weights.origin {
            Origin::HuggingFace(described) => {
                let path = weights.path.join("config.json");
                if let Some(model) = self.model.filter(|_| !forecasts) {
                    return Err(SettingsError::Conflict {
                        first: Text::given("model", model.name()),
                        second: path.display().to_string().into(),
                        why: "it describes a patchtst; leave the model out".into(),
                    });
                }
                let preset = chosen.as_deref().and_then(Preset::named);
                let preset = preset.filter(|preset| preset.model == Some(ModelKind::Patchtst));
                self.describe(&Weights { path: &path, preset }, &described.network)?;
                if self.quantiles.is_some() {
                    return Err(SettingsError::Conflict {
                        first: Text::setting("quantiles"),
                        second: path.display().to_string().into(),
                        why: "its head predicts one value for each row; leave them out".into(),
                    });
                }
                self.take_dropout(&described.network);
                let frozen = self.freeze.get_or_insert_default();
                if described.fixed_positions && !frozen.iter().any(|pattern| pattern == POSITIONS) {
                    frozen.push(POSITIONS.to_owned());
                }
                if frozen.is_empty() {
                    self.freeze = None;
                }
                Ok((self, described.notes.iter().cloned().map(Text::from).collect()))
            }
            Origin::Official(shapes) if chosen.is_none() && forecasts => {
                if let Some(settings) =
                    weights.file.metadata.get("configuration").filter(|text| !text.is_empty())
                {
                    let run = Self::parse(settings, &weights.path)?;
                    return Ok((self.of_run(&weights.path, run)?, Vec::new()));
                }
                let note = self.of_shapes(&weights.path, shapes)?;
                Ok((self, vec![note]))
            }
            Origin::ZeroShot(sizes) => Ok((self.of_zero_shot(&weights.path, sizes)?, Vec::new())),
            Origin::Official(_) | Origin::Unknown => Ok((self, Vec::new())),
        }
    }

    /// Takes the sizes that the shapes of an official checkpoint tell; what they do not tell is as the official scripts train,
    /// which the sentence says.
    fn of_shapes(&mut self, path: &Path, shapes: &Shapes) -> Result<Text, SettingsError> {
        let levels = self.quantiles.as_ref().map_or(1, Vec::len).max(1);
        let count = OptionValue::Count;
        let mut all = vec![
            ("patch", "patch length", count(shapes.patch)),
            ("d_model", "width", count(shapes.d_model)),
            ("layers", "number of layers", count(shapes.layers)),
            ("d_ff", "width of the feed-forward", count(shapes.d_ff)),
        ];
        all.extend(shapes.heads.map(|heads| ("heads", "number of heads", count(heads))));
        all.push(("norm", "norm", crate::models::OptionType::value(shapes.norm)));
        all.push(("horizon", "horizon", count(shapes.predicted / levels)));
        self.take(&Weights { path, preset: None }, &all)?;
        let network = self.network.get_or_insert_default();
        let stride = network.get_or_insert("stride", (shapes.patch / 2).max(1));
        let padding = network.get_or_insert("padding", true);
        let context = shapes.context(stride, padding);
        if let Some(given) = self.context
            && given.checked_sub(context).is_none_or(|more| more >= stride)
        {
            return Err(SettingsError::Conflict {
                first: Text::given("context", given),
                second: format!("{} patches of {}", shapes.patches, path.display()).into(),
                why: Text::plain(format!(
                    "with patches of {} rows, stride {stride} and padding {padding} they need a context of {context} to {}; ",
                    shapes.patch,
                    (context + stride).saturating_sub(1)
                ))
                .and("correct {context}, {network.stride} or {network.padding}"),
            });
        }
        let context = *self.context.get_or_insert(context);
        let paper = PatchTstConfig::default();
        network.get_or_insert("residual_attention", paper.residual_attention);
        network.get_or_insert("order", paper.order);
        network.get_or_insert("revin", paper.revin);
        network.get_or_insert("dropout_masks", DropoutMasks::Official);
        self.model = Some(ModelKind::Patchtst);
        Ok(Text::plain(format!(
            "{} does not say all of its model: taken are context {context}, stride {stride}, padding {padding}, {}, as the \
             official scripts train; ",
            path.display(),
            "residual attention, post-norm and RevIN where no setting says otherwise"
        ))
        .and("{context}, {network.stride} and {network} of a configuration file say otherwise"))
    }

    /// Takes the sizes of a forecaster of unknown series, and its quantiles where some are asked for.
    fn of_zero_shot(mut self, path: &Path, sizes: &ZeroShotConfig) -> Result<Self, SettingsError> {
        let other = |first: Text, why: &'static str| {
            let second = format!("{}", path.display()).into();
            Err(SettingsError::Conflict { first, second, why: why.into() })
        };
        let competes = self.names(ModelKind::ZeroShot);
        match self.model {
            Some(model) if model != ModelKind::ZeroShot => {
                return other(
                    Text::given("model", model.name()),
                    "the weights are of the pretrained model; leave the model out",
                );
            }
            None if !competes => self.model = Some(ModelKind::ZeroShot),
            Some(_) | None => {}
        }
        if self.quantiles.as_ref().is_some_and(|own| own[..] != LEVELS) {
            return other(
                Text::setting("quantiles"),
                "its quantiles are 0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9; give these, or leave them out",
            );
        }
        let all = [
            ("patch", "patch", sizes.patch),
            ("d_model", "width", sizes.width),
            ("heads", "heads", sizes.heads),
            ("layers", "layers", sizes.layers),
            ("longest_context", "context", sizes.context),
            ("pass", "horizon", sizes.horizon),
        ];
        let all = all.map(|(name, key, size)| (name, key, OptionValue::Count(size)));
        self.take(&Weights { path, preset: None }, &all)?;
        self.lr.get_or_insert(FINE_TUNING_RATE);
        Ok(self)
    }

    /// Takes sizes and options of the weights, which must be those that were given.
    fn take(&mut self, weights: &Weights<'_>, all: &[Said<'_>]) -> Result<(), SettingsError> {
        for &(name, key, value) in all {
            let size = match name {
                "context" => Some(&mut self.context),
                "horizon" => Some(&mut self.horizon),
                _ => None,
            };
            match (size, value) {
                (Some(size), OptionValue::Count(n)) => {
                    weights.agree(size.map(OptionValue::Count), (name, key, value))?;
                    *size = Some(n);
                }
                _ => {
                    let network = self.network.get_or_insert_default();
                    let given =
                        network.iter().find(|(option, _)| option.name == name).map(|(_, value)| value);
                    weights.agree(given, (name, key, value))?;
                    network.put(name, value);
                }
            }
        }
        Ok(())
    }

    /// Takes a model's sizes and options from `config.json`.
    fn describe(&mut self, weights: &Weights<'_>, c: &PatchTstConfig) -> Result<(), SettingsError> {
        let all: Vec<Said<'_>> =
            DESCRIBED.iter().filter_map(|&(name, key)| Some((name, key, c.value(name)?))).collect();
        self.take(weights, &all)?;
        if weights.preset.is_none() {
            self.model = Some(ModelKind::Patchtst);
        }
        Ok(())
    }

    /// Takes a model's dropout, which changes no weights.
    fn take_dropout(&mut self, c: &PatchTstConfig) {
        self.dropout.get_or_insert(c.dropout);
        let network: &mut NetworkOptions = self.network.get_or_insert_default();
        network.get_or_insert("dropout_masks", c.dropout_masks);
    }

    /// Takes a model's sizes and options from the configuration in a run's weights.
    fn of_run(mut self, path: &Path, run: Self) -> Result<Self, SettingsError> {
        if let Some(quantiles) = run.quantiles.clone() {
            let text = |levels: &[f64]| levels.iter().map(|l| format!("{l:?}")).collect::<Vec<_>>().join(",");
            if let Some(own) = self.quantiles.as_ref().filter(|own| **own != quantiles) {
                return Err(SettingsError::Conflict {
                    first: Text::given("quantiles", text(own)),
                    second: format!("quantiles {} of {}", text(&quantiles), path.display()).into(),
                    why: "the weights are of that model; leave it out".into(),
                });
            }
            self.quantiles = Some(quantiles);
        }
        let resolved =
            Self { init: None, ..run }.resolve().map_err(|e| SettingsError::Network(e.to_string()))?;
        if let ModelConfig::Patchtst(config) = &resolved.network {
            self.describe(&Weights { path, preset: None }, config)?;
            self.take_dropout(config);
        }
        Ok(self)
    }
}

/// What the name of the positions contains.
const POSITIONS: &str = "W_pos";
