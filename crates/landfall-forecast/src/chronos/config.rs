//! `config.json` of the authors' package.

use super::error::ChronosError;
use crate::files::read_text;
use crate::models::chronos::Chronos2Config;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

const ARCHITECTURE: &str = "Chronos2Model";

/// What decides what the model computes, with the defaults of the authors' package.
#[derive(Deserialize)]
#[serde(default)]
struct Options {
    architectures: Option<Vec<String>>,
    d_model: usize,
    d_kv: usize,
    d_ff: usize,
    num_layers: usize,
    num_heads: usize,
    layer_norm_epsilon: f64,
    feed_forward_proj: String,
    rope_theta: f64,
    chronos_config: Option<Forecasting>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            architectures: None,
            d_model: 512,
            d_kv: 64,
            d_ff: 2048,
            num_layers: 6,
            num_heads: 8,
            layer_norm_epsilon: 1e-6,
            feed_forward_proj: "relu".to_owned(),
            rope_theta: 1e4,
            chronos_config: None,
        }
    }
}

#[derive(Deserialize)]
struct Forecasting {
    context_length: usize,
    output_patch_size: usize,
    input_patch_size: usize,
    input_patch_stride: usize,
    quantiles: Vec<f64>,
    #[serde(default)]
    use_reg_token: bool,
    #[serde(default)]
    use_arcsinh: bool,
    #[serde(default = "one")]
    max_output_patches: usize,
    time_encoding_scale: Option<f64>,
}

fn one() -> usize {
    1
}

/// Whether a folder's `config.json` is that of one of the Chronos models, those that are not read among them.
#[must_use]
pub fn is_chronos(folder: &Path) -> bool {
    let options = read_text(&folder.join("config.json")).ok();
    let options = options.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    options.is_some_and(|options| options.get("chronos_config").is_some())
}

/// Reads what a folder's `config.json` says of the model; its text, too.
pub(super) fn read(path: &Path) -> Result<(Chronos2Config, String), ChronosError> {
    let text = read_text(path).map_err(|why| ChronosError::Read { path: path.to_owned(), why })?;
    let unread = |why: String| ChronosError::Config { path: path.to_owned(), why };
    let options: Options = serde_json::from_str(&text).map_err(|e| unread(e.to_string()))?;
    let refused =
        |option, value: String, why| Err(ChronosError::Option { path: path.to_owned(), option, value, why });
    match options.architectures.as_deref() {
        Some([one]) if one == ARCHITECTURE => {}
        other => {
            let value = other.map_or("not there".to_owned(), |names| format!("{names:?}"));
            return refused("architectures", value, "only Chronos2Model is read");
        }
    }
    let Some(own) = options.chronos_config else {
        return refused(
            "chronos_config",
            "not there".to_owned(),
            "a Chronos-2 has context and quantiles there",
        );
    };
    if options.feed_forward_proj != "relu" {
        return refused(
            "feed_forward_proj",
            format!("{:?}", options.feed_forward_proj),
            "only relu is supported",
        );
    }
    if !own.use_reg_token {
        return refused("use_reg_token", "false".to_owned(), "the authors' program needs the token, too");
    }
    for (option, size) in
        [("output_patch_size", own.output_patch_size), ("input_patch_stride", own.input_patch_stride)]
    {
        if size != own.input_patch_size {
            return refused(option, size.to_string(), "only that of input_patch_size is supported");
        }
    }
    let config = Chronos2Config {
        patch: own.input_patch_size,
        context: own.context_length,
        patches: own.max_output_patches,
        time_scale: own.time_encoding_scale.unwrap_or(own.context_length as f64),
        levels: own.quantiles,
        width: options.d_model,
        features: options.d_kv,
        heads: options.num_heads,
        hidden: options.d_ff,
        layers: options.num_layers,
        arcsinh: own.use_arcsinh,
        eps: options.layer_norm_epsilon,
        rope: options.rope_theta,
    };
    config.check().map_err(unread)?;
    Ok((config, text))
}

/// The text of a `config.json` that says these sizes, as the authors' package reads it.
pub(super) fn text(c: &Chronos2Config) -> String {
    let options = json!({
        "architectures": [ARCHITECTURE],
        "d_model": c.width,
        "d_kv": c.features,
        "d_ff": c.hidden,
        "num_layers": c.layers,
        "num_heads": c.heads,
        "layer_norm_epsilon": c.eps,
        "feed_forward_proj": "relu",
        "rope_theta": c.rope,
        "chronos_config": {
            "context_length": c.context,
            "input_patch_size": c.patch,
            "input_patch_stride": c.patch,
            "output_patch_size": c.patch,
            "max_output_patches": c.patches,
            "quantiles": c.levels,
            "use_reg_token": true,
            "use_arcsinh": c.arcsinh,
            "time_encoding_scale": c.time_scale
        }
    });
    format!("{options:#}\n")
}
