//! `PatchTSTForPrediction` of Hugging Face transformers: a directory of `config.json` and `model.safetensors`.
//!
//! It is the same model with other names, an attention without residual scores, and patches that end with the window's last
//! row. Its head flattens `[N, d]`, the official one `[d, N]`.

use super::error::{PretrainedError, forecasts_alone};
use crate::checkpoint::{CheckpointError, File, Tensor};
use crate::files::{read_text, replace};
use crate::models::{Approximation, DropoutMasks, Order, PatchTstConfig};
use crate::nn::NormKind;
use landfall::{DType, Error, HostTensor, Shape};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const OLDER: &str = "pytorch_model.bin";
const ARCHITECTURE: &str = "PatchTSTForPrediction";

/// A model that a `config.json` describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// The model.
    pub network: PatchTstConfig,
    /// Whether its positions are sinusoids, which are not trained.
    pub fixed_positions: bool,
    /// What a person has to know: none of it changes a forecast.
    pub notes: Vec<String>,
}

/// The options of `config.json` that decide what the model computes, with the defaults of transformers.
#[derive(Deserialize)]
#[serde(default)]
struct Options {
    model_type: String,
    architectures: Option<Vec<String>>,
    context_length: usize,
    prediction_length: usize,
    patch_length: usize,
    patch_stride: usize,
    num_hidden_layers: usize,
    d_model: usize,
    num_attention_heads: usize,
    ffn_dim: usize,
    share_embedding: bool,
    channel_attention: bool,
    norm_type: String,
    norm_eps: f64,
    attention_dropout: f64,
    positional_dropout: f64,
    path_dropout: f64,
    ff_dropout: f64,
    head_dropout: f64,
    bias: bool,
    activation_function: String,
    pre_norm: bool,
    positional_encoding_type: String,
    use_cls_token: bool,
    share_projection: bool,
    scaling: Value,
    minimum_scale: f64,
    scaling_dim: usize,
    keepdim: bool,
    pooling_type: Option<String>,
    loss: Option<String>,
    distribution_output: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            model_type: "patchtst".to_owned(),
            architectures: None,
            context_length: 32,
            prediction_length: 24,
            patch_length: 1,
            patch_stride: 1,
            num_hidden_layers: 3,
            d_model: 128,
            num_attention_heads: 4,
            ffn_dim: 512,
            share_embedding: true,
            channel_attention: false,
            norm_type: "batchnorm".to_owned(),
            norm_eps: 1e-5,
            attention_dropout: 0.0,
            positional_dropout: 0.0,
            path_dropout: 0.0,
            ff_dropout: 0.0,
            head_dropout: 0.0,
            bias: true,
            activation_function: "gelu".to_owned(),
            pre_norm: true,
            positional_encoding_type: "sincos".to_owned(),
            use_cls_token: false,
            share_projection: true,
            scaling: json!("std"),
            minimum_scale: 1e-5,
            scaling_dim: 1,
            keepdim: true,
            pooling_type: Some("mean".to_owned()),
            loss: Some("mse".to_owned()),
            distribution_output: "student_t".to_owned(),
        }
    }
}

impl Options {
    /// The model, and whether its head reads the mean over the patches.
    fn described(&self, path: &Path) -> Result<(Described, bool), PretrainedError> {
        let refused = |option, value: String, why| {
            Err(PretrainedError::Option { path: path.to_owned(), option, value, why })
        };
        let text = |text: &str| format!("{text:?}");
        if self.model_type != "patchtst" {
            return refused("model_type", text(&self.model_type), "only patchtst is read");
        }
        match self.architectures.as_deref() {
            None => {}
            Some([one]) if one == ARCHITECTURE => {}
            Some(other) => {
                return refused(
                    "architectures",
                    format!("{other:?}"),
                    "only PatchTSTForPrediction forecasts rows",
                );
            }
        }
        if self.loss.as_deref() != Some("mse") {
            let value =
                format!("{} with distribution_output {:?}", json!(self.loss), self.distribution_output);
            return refused("loss", value, "a head of a distribution is not supported; only mse is");
        }
        if self.channel_attention {
            return refused(
                "channel_attention",
                "true".to_owned(),
                "channels attend to their own past alone here",
            );
        }
        if self.use_cls_token {
            return refused("use_cls_token", "true".to_owned(), "it is not supported");
        }
        let one_for_all = "all channels share one map here";
        for (option, shared) in
            [("share_embedding", self.share_embedding), ("share_projection", self.share_projection)]
        {
            if !shared {
                return refused(option, "false".to_owned(), one_for_all);
            }
        }
        if !self.bias {
            return refused("bias", "false".to_owned(), "the feed-forward layers have a bias here");
        }
        let norm = match self.norm_type.as_str() {
            "batchnorm" => NormKind::Batch,
            "layernorm" => NormKind::Layer,
            other => return refused("norm_type", text(other), "batchnorm and layernorm are supported"),
        };
        if self.norm_eps != 1e-5 {
            return refused("norm_eps", format!("{:?}", self.norm_eps), "norms have 1e-5 here");
        }
        let gelu = match self.activation_function.as_str() {
            "gelu" => Approximation::Erf,
            "gelu_new" | "gelu_pytorch_tanh" => Approximation::Tanh,
            other => {
                return refused(
                    "activation_function",
                    text(other),
                    "gelu, gelu_new and gelu_pytorch_tanh are supported",
                );
            }
        };
        let revin = self.scaling == "std";
        if !(revin || self.scaling.is_null() || self.scaling == false) {
            return refused("scaling", self.scaling.to_string(), "\"std\" and null are supported");
        }
        if revin && self.minimum_scale != 1e-5 {
            return refused(
                "minimum_scale",
                format!("{:?}", self.minimum_scale),
                "the variance of a window gets 1e-5 here",
            );
        }
        if self.scaling_dim != 1 || !self.keepdim {
            let value = format!("{} with keepdim {}", self.scaling_dim, self.keepdim);
            return refused("scaling_dim", value, "a window is scaled along its rows");
        }
        let pooled = match self.pooling_type.as_deref() {
            None => false,
            Some("mean") => true,
            Some(other) => return refused("pooling_type", text(other), "null and \"mean\" are supported"),
        };
        let fixed_positions = match self.positional_encoding_type.as_str() {
            "sincos" => true,
            "random" => false,
            other => {
                return refused("positional_encoding_type", text(other), "sincos and random are supported");
            }
        };
        let (dropout, note) = self.dropout();
        let left_out = self.context_length.saturating_sub(self.patch_length) % self.patch_stride.max(1);
        let network = PatchTstConfig {
            context: self.context_length,
            horizon: self.prediction_length,
            patch: self.patch_length,
            stride: self.patch_stride,
            d_model: self.d_model,
            heads: self.num_attention_heads,
            layers: self.num_hidden_layers,
            d_ff: self.ffn_dim,
            norm,
            order: if self.pre_norm { Order::Pre } else { Order::Post },
            residual_attention: false,
            gelu,
            padding: false,
            drop_first_rows: left_out > 0,
            revin,
            dropout,
            dropout_masks: DropoutMasks::Branches,
            outputs: 1,
        };
        network.patches().map_err(|why| PretrainedError::Config { path: path.to_owned(), why })?;
        let mut notes = Vec::from_iter(note);
        if pooled {
            notes.push(
                "pooling_type \"mean\": the head reads the mean over the patches, and is written as one over all patches, \
                 which forecasts the same and has more weights to train"
                    .to_owned(),
            );
        }
        Ok((Described { network, fixed_positions, notes }, pooled))
    }

    /// The dropout rate of training, and a sentence where it is not that of `config.json`.
    fn dropout(&self) -> (f64, Option<String>) {
        let branches = self.path_dropout == self.ff_dropout;
        let others = [
            ("attention_dropout", self.attention_dropout),
            ("positional_dropout", self.positional_dropout),
            ("head_dropout", self.head_dropout),
        ];
        if branches && others.iter().all(|(_, rate)| *rate == 0.0) {
            return (self.path_dropout, None);
        }
        let all =
            [("path_dropout", self.path_dropout), ("ff_dropout", self.ff_dropout)].into_iter().chain(others);
        let set: Vec<String> =
            all.filter(|(_, rate)| *rate > 0.0).map(|(name, rate)| format!("{name} {rate}")).collect();
        let note = format!(
            "{}: training here drops at one rate on both branches and within the feed-forward, 0 unless the dropout is set",
            set.join(", ")
        );
        (0.0, Some(note))
    }
}

/// A tensor's names and its shape there.
struct Pair {
    ours: String,
    theirs: String,
    shape: Vec<usize>,
}

/// Every tensor of a model but the head's weight.
fn pairs(c: &PatchTstConfig, patches: usize) -> Vec<Pair> {
    let mut all = Vec::new();
    let mut add = |ours: String, theirs: String, shape: &[usize]| {
        all.push(Pair { ours, theirs, shape: shape.to_vec() })
    };
    let (d, f) = (c.d_model, c.d_ff);
    let mut linear = |ours: &str, theirs: &str, i: usize, o: usize| {
        add(format!("{ours}.weight"), format!("{theirs}.weight"), &[o, i]);
        add(format!("{ours}.bias"), format!("{theirs}.bias"), &[o]);
    };
    linear("model.backbone.W_P", "model.encoder.embedder.input_embedding", c.patch, d);
    for i in 0..c.layers {
        let (ours, theirs) =
            (format!("model.backbone.encoder.layers.{i}"), format!("model.encoder.layers.{i}"));
        for (own, other) in
            [("W_Q", "q_proj"), ("W_K", "k_proj"), ("W_V", "v_proj"), ("to_out.0", "out_proj")]
        {
            linear(&format!("{ours}.self_attn.{own}"), &format!("{theirs}.self_attn.{other}"), d, d);
        }
        linear(&format!("{ours}.ff.0"), &format!("{theirs}.ff.0"), d, f);
        linear(&format!("{ours}.ff.3"), &format!("{theirs}.ff.3"), f, d);
    }
    let (at, between) = match c.norm {
        NormKind::Batch => (".1", ".batchnorm"),
        NormKind::Layer => ("", ""),
    };
    for i in 0..c.layers {
        for (own, other) in [("norm_attn", "norm_sublayer1"), ("norm_ffn", "norm_sublayer3")] {
            let ours = format!("model.backbone.encoder.layers.{i}.{own}{at}");
            let theirs = format!("model.encoder.layers.{i}.{other}{between}");
            let mut parts = vec!["weight", "bias"];
            if c.norm == NormKind::Batch {
                parts.extend(["running_mean", "running_var"]);
                add(format!("{ours}.{COUNTER}"), format!("{theirs}.{COUNTER}"), &[]);
            }
            for part in parts {
                add(format!("{ours}.{part}"), format!("{theirs}.{part}"), &[d]);
            }
        }
    }
    let positions = "model.encoder.positional_encoder.position_enc";
    add("model.backbone.W_pos".to_owned(), positions.to_owned(), &[patches, d]);
    add("model.head.linear.bias".to_owned(), "head.projection.bias".to_owned(), &[c.horizon]);
    all
}

/// The number of training steps that a batch norm has seen.
const COUNTER: &str = "num_batches_tracked";
const OUR_HEAD: &str = "model.head.linear.weight";
const THEIR_HEAD: &str = "head.projection.weight";

/// Elements `[h, a, b]` in the order of `[h, b, a]`.
fn turned(tensor: &Tensor, [h, a, b]: [usize; 3]) -> Tensor {
    let width = tensor.spec.dtype.size();
    let mut bytes = Vec::with_capacity(tensor.bytes.len());
    for i in 0..h {
        for k in 0..b {
            for j in 0..a {
                bytes.extend_from_slice(&tensor.bytes[((i * a + j) * b + k) * width..][..width]);
            }
        }
    }
    Tensor { spec: tensor.spec, bytes }
}

/// The head `[H, d]` of the mean over N patches as one of all of them, `[H, d·N]`: each weight an Nth.
fn spread(tensor: &Tensor, patches: usize) -> Result<Tensor, CheckpointError> {
    let host = tensor.host().map_err(Error::from)?;
    let [h, d] = [host.dims()[0], host.dims()[1]];
    let dtype = if host.spec.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let data = host.data.iter().flat_map(|w| std::iter::repeat_n(w / patches as f64, patches)).collect();
    Ok(Tensor::from(&HostTensor::new(dtype, [h, d * patches], data).map_err(Error::from)?))
}

/// Reads a directory: the file of its weights, the weights with our names, and their model.
pub(super) fn read(folder: &Path) -> Result<(PathBuf, File, Described), PretrainedError> {
    let path = folder.join(CONFIG);
    let wrong = |why: String| PretrainedError::Config { path: path.clone(), why };
    let text = read_text(&path).map_err(|e| {
        if folder.join("config.toml").exists() {
            let best = folder.join("best.safetensors");
            return PretrainedError::Config {
                path: folder.to_owned(),
                why: format!("it is a run directory; give a file of weights, such as {}", best.display()),
            };
        }
        wrong(format!("{e}; a directory of transformers has it"))
    })?;
    let options: Options = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    let (described, pooled) = options.described(&path)?;
    let source = [WEIGHTS, OLDER].map(|name| folder.join(name)).into_iter().find(|path| path.exists());
    let source = source.unwrap_or_else(|| folder.join(WEIGHTS));
    let theirs = File::read(&source)?;
    let c = &described.network;
    let patches = c.patches().map_err(wrong)?;
    let mut file = File::default();
    let shape = |name: &str, found: &Tensor, expected: &[usize]| {
        if found.spec.shape.dims() == expected && (found.spec.dtype.is_float() || name.ends_with(COUNTER)) {
            return Ok(());
        }
        let expected = Shape::new(expected).unwrap_or(Shape::SCALAR).to_string();
        let (path, name) = (source.clone(), name.to_owned());
        Err(CheckpointError::Shape { path, name, found: found.spec.to_string(), expected })
    };
    let missing = |name: &str, expected: &[usize]| CheckpointError::Missing {
        path: source.clone(),
        name: name.to_owned(),
        expected: Shape::new(expected).unwrap_or(Shape::SCALAR).to_string(),
    };
    let all = pairs(c, patches);
    for Pair { ours, theirs: name, shape: expected } in &all {
        match theirs.tensors.get(name) {
            Some(tensor) => {
                shape(name, tensor, expected)?;
                file.tensors.insert(ours.clone(), tensor.clone());
            }
            None if name.ends_with(COUNTER) => {}
            None => return Err(missing(name, expected).into()),
        }
    }
    let expected = [c.horizon, if pooled { c.d_model } else { c.d_model.saturating_mul(patches) }];
    let head = theirs.tensors.get(THEIR_HEAD).ok_or_else(|| missing(THEIR_HEAD, &expected))?;
    shape(THEIR_HEAD, head, &expected)?;
    let head = if pooled { spread(head, patches)? } else { turned(head, [c.horizon, patches, c.d_model]) };
    file.tensors.insert(OUR_HEAD.to_owned(), head);
    let known = |name: &str| name == THEIR_HEAD || all.iter().any(|pair| pair.theirs == name);
    if let Some(name) = theirs.tensors.keys().find(|name| !known(name)) {
        return Err(CheckpointError::Unknown { path: source, name: name.clone() }.into());
    }
    Ok((source, file, described))
}

const FORM: &str = "Hugging Face's PatchTST";

/// Refuses a model that transformers cannot be configured as.
///
/// # Errors
/// [`PretrainedError::Unexpressed`] with the first option.
pub fn expresses(c: &PatchTstConfig) -> Result<(), PretrainedError> {
    forecasts_alone(FORM, c)?;
    let refused = |option: String, why: &str| {
        Err(PretrainedError::Unexpressed { form: FORM, option, why: why.to_owned() })
    };
    if c.residual_attention && c.layers > 1 {
        let why = "its layers do not add up the scores of attention; train with [network] residual-attention = false and padding = false";
        return refused("residual-attention = true".to_owned(), why);
    }
    if c.padding {
        return refused(
            "padding = true".to_owned(),
            "it does not pad a window; train with [network] padding = false and residual-attention = false",
        );
    }
    if c.rows_left_out() > 0 && !c.drop_first_rows {
        let option = format!("context {} with patch {} and stride {}", c.context, c.patch, c.stride);
        let why = format!(
            "{} rows fill no patch, and it leaves out the first rows of a window, not the last; train with [network] \
             drop-first-rows = true, or with a context that the patches fill",
            c.rows_left_out()
        );
        return refused(option, &why);
    }
    if c.context == c.patch {
        return refused(
            format!("context {0} with patch {0}", c.patch),
            "it needs a context longer than a patch",
        );
    }
    Ok(())
}

/// Writes the weights of a model as a new directory that `PatchTSTForPrediction.from_pretrained` reads. The tensors of
/// `file` have the official names; others are left out. `channels` are the columns that it forecasts: transformers wants
/// their number, the weights do not depend on it.
///
/// # Errors
/// As [`expresses`]; [`PretrainedError::Exists`]; [`CheckpointError::Missing`] for a tensor that is not in `file`;
/// [`CheckpointError::Write`].
pub fn write(folder: &Path, c: &PatchTstConfig, channels: usize, file: &File) -> Result<(), PretrainedError> {
    expresses(c)?;
    if folder.exists() {
        return Err(PretrainedError::Exists { path: folder.to_owned() });
    }
    let patches = c.patches().map_err(|why| PretrainedError::Config { path: folder.to_owned(), why })?;
    let get = |name: &str, expected: &[usize]| match file.tensors.get(name) {
        Some(tensor) if tensor.spec.shape.dims() == expected => Ok(tensor),
        _ => Err(CheckpointError::Missing {
            path: folder.to_owned(),
            name: name.to_owned(),
            expected: Shape::new(expected).unwrap_or(Shape::SCALAR).to_string(),
        }),
    };
    let mut out = File::default();
    for Pair { ours, theirs, shape } in pairs(c, patches) {
        out.tensors.insert(theirs, get(&ours, &shape)?.clone());
    }
    let head = get(OUR_HEAD, &[c.horizon, c.d_model * patches])?;
    let dtype = if head.spec.dtype == DType::F64 { "float64" } else { "float32" };
    out.tensors.insert(THEIR_HEAD.to_owned(), turned(head, [c.horizon, c.d_model, patches]));
    out.metadata.insert("format".to_owned(), "pt".to_owned());
    let mut config = serde_json::to_string_pretty(&options(c, channels, dtype)).unwrap_or_default();
    config.push('\n');
    let failed = |path: &Path, why| CheckpointError::Write { path: path.to_owned(), why };
    std::fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
    out.write(&folder.join(WEIGHTS))?;
    let path = folder.join(CONFIG);
    replace(&path, config.as_bytes()).map_err(|why| failed(&path, why))?;
    Ok(())
}

/// A model's `config.json`.
fn options(c: &PatchTstConfig, channels: usize, dtype: &str) -> Value {
    let positional = if c.dropout_masks == DropoutMasks::Official { c.dropout } else { 0.0 };
    json!({
        "architectures": [ARCHITECTURE],
        "model_type": "patchtst",
        "dtype": dtype,
        "num_input_channels": channels,
        "context_length": c.context,
        "prediction_length": c.horizon,
        "patch_length": c.patch,
        "patch_stride": c.stride,
        "num_hidden_layers": c.layers,
        "d_model": c.d_model,
        "num_attention_heads": c.heads,
        "ffn_dim": c.d_ff,
        "share_embedding": true,
        "channel_attention": false,
        "norm_type": match c.norm { NormKind::Batch => "batchnorm", NormKind::Layer => "layernorm" },
        "norm_eps": 1e-5,
        "attention_dropout": 0.0,
        "positional_dropout": positional,
        "path_dropout": c.dropout,
        "ff_dropout": c.dropout,
        "head_dropout": 0.0,
        "bias": true,
        "activation_function": match c.gelu { Approximation::Erf => "gelu", Approximation::Tanh => "gelu_pytorch_tanh" },
        "pre_norm": c.order == Order::Pre,
        // Positions that are trained; transformers trains no sinusoids.
        "positional_encoding_type": "random",
        "use_cls_token": false,
        "share_projection": true,
        "scaling": if c.revin { json!("std") } else { Value::Null },
        "pooling_type": null,
        "loss": "mse",
    })
}
