//! Sizes of both models.

use super::activation::Activation;

/// Sizes of a [`Chronos2`](super::Chronos2), by what its authors' `config.json` calls them.
#[derive(Debug, Clone, PartialEq)]
pub struct Chronos2Config {
    /// Rows of a patch P, of the context and of the forecast: `input_patch_size`.
    pub patch: usize,
    /// Rows of the context that are read at most: `context_length`.
    pub context: usize,
    /// Patches that are forecast in one pass at most: `max_output_patches`.
    pub patches: usize,
    /// Levels of the quantiles, ascending: `quantiles`.
    pub levels: Vec<f64>,
    /// Width of the model D: `d_model`.
    pub width: usize,
    /// Features of a head: `d_kv`.
    pub features: usize,
    /// Heads: `num_heads`.
    pub heads: usize,
    /// Width of the feed-forward and of the hidden layers of both embeddings: `d_ff`.
    pub hidden: usize,
    /// Layers: `num_layers`.
    pub layers: usize,
    /// Whether scaled values go through asinh: `use_arcsinh`.
    pub arcsinh: bool,
    /// Rows that are one unit of time: `time_encoding_scale`.
    pub time_scale: f64,
    /// Of the norms: `layer_norm_epsilon`.
    pub eps: f64,
    /// Base of the rotary positions: `rope_theta`.
    pub rope: f64,
}

/// The largest count, so that sizes of a stranger's file are no sizes of memory.
const MOST: usize = 1 << 20;

impl Chronos2Config {
    /// Refuses sizes that do not fit each other.
    ///
    /// # Errors
    /// A sentence that says which.
    pub fn check(&self) -> Result<(), String> {
        let c = self;
        counts_fit(&[
            ("input_patch_size", c.patch),
            ("context_length", c.context),
            ("max_output_patches", c.patches),
            ("d_model", c.width),
            ("d_kv", c.features),
            ("num_heads", c.heads),
            ("d_ff", c.hidden),
            ("num_layers", c.layers),
        ])?;
        if !c.features.is_multiple_of(2) {
            return Err(format!("d_kv is {}; it must be even, for rotary positions", c.features));
        }
        above_zero(&[
            ("time_encoding_scale", c.time_scale),
            ("layer_norm_epsilon", c.eps),
            ("rope_theta", c.rope),
        ])?;
        levels_fit(&c.levels)?;
        crate::models::layers_fit(c.layers)
    }

    /// Rows that are forecast in one pass at most.
    #[must_use]
    pub fn pass(&self) -> usize {
        self.patch * self.patches
    }
}

/// Sizes of a [`ChronosBolt`](super::ChronosBolt), by what its authors' `config.json` calls them.
#[derive(Debug, Clone, PartialEq)]
pub struct ChronosBoltConfig {
    /// Rows of a patch P: `input_patch_size`.
    pub patch: usize,
    /// Rows of the context that are read at most: `context_length`.
    pub context: usize,
    /// Rows that are forecast in one pass: `prediction_length`.
    pub horizon: usize,
    /// Levels of the quantiles, ascending: `quantiles`.
    pub levels: Vec<f64>,
    /// Width of the model D: `d_model`.
    pub width: usize,
    /// Features of a head: `d_kv`.
    pub features: usize,
    /// Heads: `num_heads`.
    pub heads: usize,
    /// Width of the feed-forward and of the hidden layers of both embeddings: `d_ff`.
    pub hidden: usize,
    /// Layers of the encoder: `num_layers`.
    pub layers: usize,
    /// Layers of the decoder: `num_decoder_layers`.
    pub decoder_layers: usize,
    /// Rows of the table of biases: `relative_attention_num_buckets`.
    pub buckets: usize,
    /// Distance of two tokens from which on all have one bias: `relative_attention_max_distance`.
    pub distance: usize,
    /// Of the feed-forward and both embeddings: `feed_forward_proj`.
    pub activation: Activation,
    /// Whether the feed-forward is gated: `feed_forward_proj`.
    pub gated: bool,
    /// Whether a token of its own stands behind the patches: `use_reg_token`.
    pub register: bool,
    /// The token that the decoder begins with: `decoder_start_token_id`.
    pub start: usize,
    /// Of the norms: `layer_norm_epsilon`.
    pub eps: f64,
}

impl ChronosBoltConfig {
    /// The token behind the patches.
    pub(super) const REGISTER: usize = 1;

    /// Refuses sizes that do not fit each other.
    ///
    /// # Errors
    /// A sentence that says which.
    pub fn check(&self) -> Result<(), String> {
        let c = self;
        counts_fit(&[
            ("input_patch_size", c.patch),
            ("context_length", c.context),
            ("prediction_length", c.horizon),
            ("d_model", c.width),
            ("d_kv", c.features),
            ("num_heads", c.heads),
            ("d_ff", c.hidden),
            ("num_layers", c.layers),
            ("num_decoder_layers", c.decoder_layers),
            ("relative_attention_num_buckets", c.buckets),
            ("relative_attention_max_distance", c.distance),
        ])?;
        above_zero(&[("layer_norm_epsilon", c.eps)])?;
        if c.buckets < 4 {
            return Err(format!("relative_attention_num_buckets is {}; it must be at least 4", c.buckets));
        }
        if c.distance <= c.exact() {
            return Err(format!(
                "relative_attention_max_distance is {}; it must be above {}, a quarter of the buckets",
                c.distance,
                c.exact()
            ));
        }
        if c.start >= c.tokens() {
            let (start, tokens) = (c.start, c.tokens());
            return Err(format!(
                "decoder_start_token_id is {start}; the model has {tokens} tokens, from 0 on"
            ));
        }
        levels_fit(&c.levels)?;
        crate::models::layers_fit(c.layers.max(c.decoder_layers))
    }

    /// Tokens that are no patches.
    pub(super) fn tokens(&self) -> usize {
        1 + usize::from(self.register)
    }

    /// Distances that have a bucket each.
    fn exact(&self) -> usize {
        self.buckets / 4
    }

    /// The bucket of a distance backwards, that of the same distance forwards being half of all buckets further: small distances have one each, and
    /// larger ones share those that are left, as logarithms do, up to the largest distance.
    ///
    /// ```
    /// # use landfall_train::models::chronos::{Activation, ChronosBoltConfig};
    /// # let config = ChronosBoltConfig { patch: 4, context: 32, horizon: 6, levels: vec![0.5], width: 8, features: 4, heads: 2, hidden: 16,
    /// #     layers: 1, decoder_layers: 1, buckets: 32, distance: 128, activation: Activation::Relu, gated: false, register: true, start: 0,
    /// #     eps: 1e-6 };
    /// // Of 32 buckets and a largest distance of 128.
    /// assert_eq!([0, 1, 7, 8, 11, 12, 16, 64, 127, 1000].map(|d| config.bucket(d)), [0, 1, 7, 8, 8, 9, 10, 14, 15, 15]);
    /// ```
    #[must_use]
    pub fn bucket(&self, distance: usize) -> usize {
        let (exact, half) = (self.exact(), self.buckets / 2);
        if distance < exact {
            return distance;
        }
        // In f32, as the authors have it: where a bucket begins may be a matter of rounding.
        let share = (distance as f32 / exact as f32).ln();
        let whole = (self.distance as f64 / exact as f64).ln() as f32;
        (exact + (share / whole * (half - exact) as f32) as usize).min(half - 1)
    }
}

/// Refuses counts that are 0, or of which sizes of memory cannot be made.
fn counts_fit(counts: &[(&str, usize)]) -> Result<(), String> {
    match counts.iter().find(|(_, count)| *count == 0 || *count > MOST) {
        Some((name, count)) => Err(format!("{name} is {count}; it must be 1 to {MOST}")),
        None => Ok(()),
    }
}

fn above_zero(numbers: &[(&str, f64)]) -> Result<(), String> {
    match numbers.iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
        Some((name, value)) => Err(format!("{name} is {value}; it must be above 0")),
        None => Ok(()),
    }
}

/// Levels of a stranger's list that are shown.
const SHOWN: usize = 20;

/// Refuses levels of quantiles that are none.
fn levels_fit(levels: &[f64]) -> Result<(), String> {
    let inside = levels.iter().all(|level| 0.0 < *level && *level < 1.0);
    if levels.is_empty() || levels.len() > 1000 || !inside || !levels.is_sorted_by(|a, b| a < b) {
        let (shown, count) = (&levels[..levels.len().min(SHOWN)], levels.len());
        let more = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
        return Err(format!(
            "quantiles are {shown:?}{more}; they must be 1 to 1,000 levels above 0 and below 1, ascending"
        ));
    }
    Ok(())
}
