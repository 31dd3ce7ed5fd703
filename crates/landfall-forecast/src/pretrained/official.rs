//! The official implementation's state dict (github.com/yuqinie98/PatchTST, `PatchTST_supervised`).
//!
//! Its names are this crate's. It holds no configuration: sizes follow from shapes, heads from the scale of attention, and
//! the rest has to be known.

use super::error::{PretrainedError, forecasts_alone};
use crate::checkpoint::{CheckpointError, File};
use crate::models::{Approximation, Order, PatchTstConfig};
use crate::nn::NormKind;
use std::path::Path;

const EMBED: &str = "model.backbone.W_P.weight";
const POSITIONS: &str = "model.backbone.W_pos";
const HEAD: &str = "model.head.linear.weight";

/// What the shapes of the official names say of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shapes {
    /// Patches N.
    pub patches: usize,
    /// Rows of a patch.
    pub patch: usize,
    /// Width of the model.
    pub d_model: usize,
    /// Attention heads, where the file has the scale of attention.
    pub heads: Option<usize>,
    /// Encoder layers.
    pub layers: usize,
    /// Width of the feed-forward.
    pub d_ff: usize,
    /// Which norm.
    pub norm: NormKind,
    /// Values that the head predicts for each channel: horizon times quantiles.
    pub predicted: usize,
}

/// A state dict of `DataParallel` without the name of that wrapper.
pub(super) fn without_wrapper(mut file: File) -> File {
    let wrapped = !file.tensors.is_empty() && file.tensors.keys().all(|name| name.starts_with("module."));
    if wrapped {
        let bare = |name: String| name.strip_prefix("module.").map(str::to_owned).unwrap_or(name);
        file.tensors = file.tensors.into_iter().map(|(name, tensor)| (bare(name), tensor)).collect();
    }
    file
}

impl Shapes {
    /// Those of a file; none where its names are of no PatchTST.
    pub(super) fn of(path: &Path, file: &File) -> Result<Option<Self>, PretrainedError> {
        let refused = |option, value: &str, why| {
            Err(PretrainedError::Option { path: path.to_owned(), option, value: value.to_owned(), why })
        };
        let has = |part: &str| file.tensors.keys().find(|name| name.contains(part));
        if let Some(name) = has("model_trend.") {
            return refused(
                "decomposition",
                name,
                "a model of trend and remainder is two PatchTST, and one is read",
            );
        }
        let dims = |name: &str| file.tensors.get(name).map(|t| t.spec.shape.dims().to_vec());
        let (Some(embed), Some(positions)) = (dims(EMBED), dims(POSITIONS)) else { return Ok(None) };
        if let Some(name) = has("model.head.linears.") {
            return refused(
                "individual",
                name,
                "a head for each channel is not supported; all channels share one here",
            );
        }
        if let Some(name) = has("revin_layer.affine_") {
            return refused(
                "affine",
                name,
                "learned factors of RevIN are not supported; the official scripts train without",
            );
        }
        let two = |name: &str, found: Option<Vec<usize>>| match found.as_deref() {
            Some(&[rows, columns]) => Ok((rows, columns)),
            Some(_) | None => Err(CheckpointError::Shape {
                path: path.to_owned(),
                name: name.to_owned(),
                found: found.map_or("missing".to_owned(), |dims| format!("{dims:?}")),
                expected: "a matrix".to_owned(),
            }),
        };
        let (d_model, patch) = two(EMBED, Some(embed))?;
        let (patches, _) = two(POSITIONS, Some(positions))?;
        let layer = |i: usize, part: &str| format!("model.backbone.encoder.layers.{i}.{part}");
        let layers = (0..).take_while(|&i| file.tensors.contains_key(&layer(i, "ff.0.weight"))).count();
        let (first, norm) = (layer(0, "ff.0.weight"), layer(0, "norm_attn.1.weight"));
        let (d_ff, _) = two(&first, dims(&first))?;
        let norm = if file.tensors.contains_key(&norm) { NormKind::Batch } else { NormKind::Layer };
        let (predicted, _) = two(HEAD, dims(HEAD))?;
        let scale = file.tensors.get(&layer(0, "self_attn.sdp_attn.scale")).and_then(|t| t.host().ok());
        // The scale is the square root of heads / d_model.
        let heads =
            scale.and_then(|scale| scale.data.first().map(|s| (s * s * d_model as f64).round() as usize));
        Ok(Some(Self { patches, patch, d_model, heads, layers, d_ff, norm, predicted }))
    }

    /// Rows of the shortest window with so many patches.
    #[must_use]
    pub const fn context(&self, stride: usize, padding: bool) -> usize {
        let strides = self.patches.saturating_sub(1 + padding as usize);
        strides.saturating_mul(stride).saturating_add(self.patch)
    }
}

const FORM: &str = "the official PatchTST";

/// Refuses a model that the official implementation cannot be configured as.
///
/// # Errors
/// [`PretrainedError::Unexpressed`] with the first option.
pub fn expresses(config: &PatchTstConfig) -> Result<(), PretrainedError> {
    forecasts_alone(FORM, config)?;
    let refused = |option: &str, why: &str| {
        Err(PretrainedError::Unexpressed { form: FORM, option: option.to_owned(), why: why.to_owned() })
    };
    if config.order == Order::Pre {
        return refused(
            "order = \"pre\"",
            "its pre_norm adds a branch to the normalized values, not to the values before",
        );
    }
    if config.norm == NormKind::Layer {
        return refused("norm = \"layer\"", "its encoder has batch norms whatever its argument `norm` says");
    }
    if config.gelu == Approximation::Tanh {
        return refused("gelu = \"tanh\"", "it has the exact GELU");
    }
    if config.drop_first_rows && config.rows_left_out() > 0 {
        return refused(
            "drop-first-rows = true",
            "it leaves out the last rows of a window that fill no patch",
        );
    }
    Ok(())
}

/// Writes the weights of a model: safetensors where the name ends in `.safetensors`, else a state dict that
/// `torch.load(path, weights_only=True)` reads. The tensors of `file` have the official names; others are left out.
///
/// # Errors
/// As [`expresses`]; [`PretrainedError::Exists`]; [`CheckpointError::Write`].
pub fn write(path: &Path, config: &PatchTstConfig, file: &File) -> Result<(), PretrainedError> {
    expresses(config)?;
    if path.exists() {
        return Err(PretrainedError::Exists { path: path.to_owned() });
    }
    let own = file.tensors.iter().filter(|(name, _)| name.starts_with("model."));
    let mut out = File::default();
    out.tensors.extend(own.map(|(name, tensor)| (name.clone(), tensor.clone())));
    if path.extension().is_some_and(|e| e == "safetensors") {
        out.metadata.insert("format".to_owned(), "pt".to_owned());
        return Ok(out.write(path)?);
    }
    Ok(out.write_torch(path)?)
}

/// How the official model is configured as this one: the flags of `run_longExp.py`, and, where they are not its own
/// defaults, arguments of its class `Model`.
#[must_use]
pub fn flags(c: &PatchTstConfig) -> String {
    let (padding, revin) = (if c.padding { "end" } else { "None" }, usize::from(c.revin));
    let flags = format!(
        "--seq_len {} --pred_len {} --patch_len {} --stride {} --padding_patch {padding} --d_model {} --n_heads {} \
         --e_layers {} --d_ff {} --revin {revin} --affine 0 --subtract_last 0 --decomposition 0 --individual 0",
        c.context, c.horizon, c.patch, c.stride, c.d_model, c.heads, c.layers, c.d_ff
    );
    if c.residual_attention { flags } else { flags + ", and Model(.., res_attention=False)" }
}
