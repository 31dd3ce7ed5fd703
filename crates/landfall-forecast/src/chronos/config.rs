//! `config.json` of the authors' package.

use super::error::ChronosError;
use crate::files::read_text;
use crate::models::chronos::{Activation, Chronos2, Chronos2Config, ChronosBolt, ChronosBoltConfig, Network};
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

const CHRONOS_2: &str = "Chronos2Model";
const BOLT: &str = "ChronosBoltModelForForecasting";

/// What decides what the model computes, with the defaults of the authors' package, which are the same for both.
#[derive(Deserialize)]
#[serde(default)]
struct Options {
    architectures: Option<Vec<String>>,
    d_model: usize,
    d_kv: usize,
    d_ff: usize,
    num_layers: usize,
    num_decoder_layers: Option<usize>,
    num_heads: usize,
    layer_norm_epsilon: f64,
    feed_forward_proj: String,
    /// Of these two, what `feed_forward_proj` says is written beside it.
    dense_act_fn: Option<String>,
    is_gated_act: Option<bool>,
    rope_theta: f64,
    relative_attention_num_buckets: usize,
    relative_attention_max_distance: usize,
    decoder_start_token_id: Option<usize>,
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
            num_decoder_layers: None,
            num_heads: 8,
            layer_norm_epsilon: 1e-6,
            feed_forward_proj: "relu".to_owned(),
            dense_act_fn: None,
            is_gated_act: None,
            rope_theta: 1e4,
            relative_attention_num_buckets: 32,
            relative_attention_max_distance: 128,
            decoder_start_token_id: None,
            chronos_config: None,
        }
    }
}

#[derive(Deserialize)]
struct Forecasting {
    context_length: usize,
    input_patch_size: usize,
    input_patch_stride: usize,
    quantiles: Vec<f64>,
    /// Of a Chronos-2.
    output_patch_size: Option<usize>,
    /// Of a Chronos-Bolt.
    prediction_length: Option<usize>,
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

/// An option that is not supported: its name, its value, and what is.
type Refused = (&'static str, String, &'static str);

const ABSENT: &str = "not there";

/// Whether a folder's `config.json` is that of one of the Chronos models, those that are not read among them.
#[must_use]
pub fn is_chronos(folder: &Path) -> bool {
    let options = read_text(&folder.join("config.json")).ok();
    let options = options.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    options.is_some_and(|options| options.get("chronos_config").is_some())
}

/// The network that a folder's `config.json` describes, and its text.
pub(super) fn read(path: &Path) -> Result<(Network, String), ChronosError> {
    let text = read_text(path).map_err(|why| ChronosError::Read { path: path.to_owned(), why })?;
    let unread = |why: String| ChronosError::Config { path: path.to_owned(), why };
    let refused = |(option, value, why)| ChronosError::Option { path: path.to_owned(), option, value, why };
    let options: Options = serde_json::from_str(&text).map_err(|e| unread(e.to_string()))?;
    let network = match options.architectures.as_deref() {
        Some([one]) if one == CHRONOS_2 => {
            let config = options.chronos2().map_err(refused)?;
            Network::Chronos2(Chronos2::new(config).map_err(unread)?)
        }
        Some([one]) if one == BOLT => {
            let config = options.bolt().map_err(refused)?;
            Network::Bolt(ChronosBolt::new(config).map_err(unread)?)
        }
        other => {
            let value = other.map_or(ABSENT.to_owned(), |names| format!("{names:?}"));
            let why = "only Chronos2Model and ChronosBoltModelForForecasting are read";
            return Err(refused(("architectures", value, why)));
        }
    };
    Ok((network, text))
}

impl Options {
    /// What is under `chronos_config`, whose patches are those of the context.
    fn own(&self) -> Result<&Forecasting, Refused> {
        let why = "a Chronos has context and quantiles there";
        let own = self.chronos_config.as_ref().ok_or(("chronos_config", ABSENT.to_owned(), why))?;
        whole_patches("input_patch_stride", own.input_patch_stride, own)?;
        Ok(own)
    }

    fn chronos2(&self) -> Result<Chronos2Config, Refused> {
        let own = self.own()?;
        if self.feed_forward_proj != "relu" {
            return Err((
                "feed_forward_proj",
                format!("{:?}", self.feed_forward_proj),
                "only relu is supported",
            ));
        }
        if !own.use_reg_token {
            return Err(("use_reg_token", "false".to_owned(), "the authors' program needs the token, too"));
        }
        let why = "a Chronos-2 has the rows of its patches there";
        let output = own.output_patch_size.ok_or(("output_patch_size", ABSENT.to_owned(), why))?;
        whole_patches("output_patch_size", output, own)?;
        Ok(Chronos2Config {
            patch: own.input_patch_size,
            context: own.context_length,
            patches: own.max_output_patches,
            time_scale: own.time_encoding_scale.unwrap_or(own.context_length as f64),
            levels: own.quantiles.clone(),
            width: self.d_model,
            features: self.d_kv,
            heads: self.num_heads,
            hidden: self.d_ff,
            layers: self.num_layers,
            arcsinh: own.use_arcsinh,
            eps: self.layer_norm_epsilon,
            rope: self.rope_theta,
        })
    }

    fn bolt(&self) -> Result<ChronosBoltConfig, Refused> {
        let own = self.own()?;
        let (activation, gated) = self.feed_forward()?;
        if own.use_arcsinh {
            return Err(("use_arcsinh", "true".to_owned(), "a Chronos-Bolt has no such option"));
        }
        let why = "a Chronos-Bolt has the rows that it forecasts there";
        let horizon = own.prediction_length.ok_or(("prediction_length", ABSENT.to_owned(), why))?;
        let why = "the decoder of a Chronos-Bolt begins with a token";
        let start = self.decoder_start_token_id.ok_or(("decoder_start_token_id", ABSENT.to_owned(), why))?;
        Ok(ChronosBoltConfig {
            patch: own.input_patch_size,
            context: own.context_length,
            horizon,
            levels: own.quantiles.clone(),
            width: self.d_model,
            features: self.d_kv,
            heads: self.num_heads,
            hidden: self.d_ff,
            layers: self.num_layers,
            decoder_layers: self.num_decoder_layers.unwrap_or(self.num_layers),
            buckets: self.relative_attention_num_buckets,
            distance: self.relative_attention_max_distance,
            activation,
            gated,
            register: own.use_reg_token,
            start,
            eps: self.layer_norm_epsilon,
        })
    }

    /// The activation, and whether it is a gate.
    fn feed_forward(&self) -> Result<(Activation, bool), Refused> {
        let own = self.feed_forward_proj.as_str();
        let (name, gated) = match own.strip_prefix("gated-") {
            // As transformers has it.
            Some("gelu") => ("gelu_new", true),
            Some(name) => (name, true),
            None => (own, false),
        };
        let why = "relu, gelu, gelu_new and silu are supported, with gated- in front or without";
        let known = Activation::parse(name).ok_or(("feed_forward_proj", format!("{own:?}"), why))?;
        if let Some(other) = self.dense_act_fn.as_deref().filter(|other| *other != name) {
            return Err((
                "dense_act_fn",
                format!("{other:?}"),
                "only what feed_forward_proj says is supported",
            ));
        }
        if let Some(other) = self.is_gated_act.filter(|other| *other != gated) {
            return Err(("is_gated_act", other.to_string(), "only what feed_forward_proj says is supported"));
        }
        Ok((known, gated))
    }
}

fn whole_patches(option: &'static str, size: usize, own: &Forecasting) -> Result<(), Refused> {
    if size == own.input_patch_size {
        return Ok(());
    }
    Err((option, size.to_string(), "only that of input_patch_size is supported"))
}

/// The text of a `config.json` that says these sizes, as the authors' package reads it.
pub(super) fn text(c: &Chronos2Config) -> String {
    let options = json!({
        "architectures": [CHRONOS_2],
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
