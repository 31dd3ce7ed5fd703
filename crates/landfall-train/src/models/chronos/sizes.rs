//! Sizes of a Chronos-2.

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

/// Patches that a context has at most, so that sizes of a stranger's file are no sizes of memory.
const MOST: usize = 1 << 20;

impl Chronos2Config {
    /// Refuses sizes that do not fit each other.
    ///
    /// # Errors
    /// A sentence that says which.
    pub fn check(&self) -> Result<(), String> {
        let c = self;
        for (name, size) in [
            ("input_patch_size", c.patch),
            ("context_length", c.context),
            ("max_output_patches", c.patches),
            ("d_model", c.width),
            ("d_kv", c.features),
            ("num_heads", c.heads),
            ("d_ff", c.hidden),
            ("num_layers", c.layers),
        ] {
            if size == 0 || size > MOST {
                return Err(format!("{name} is {size}; it must be 1 to {MOST}"));
            }
        }
        if !c.features.is_multiple_of(2) {
            return Err(format!("d_kv is {}; it must be even, for rotary positions", c.features));
        }
        for (name, value) in
            [("time_encoding_scale", c.time_scale), ("layer_norm_epsilon", c.eps), ("rope_theta", c.rope)]
        {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{name} is {value}; it must be above 0"));
            }
        }
        levels_fit(&c.levels)?;
        crate::models::layers_fit(c.layers)
    }

    /// Rows that are forecast in one pass at most.
    #[must_use]
    pub fn pass(&self) -> usize {
        self.patch * self.patches
    }
}

/// Levels of a stranger's list that are shown.
const SHOWN: usize = 20;

/// Refuses levels of quantiles that are none.
pub(super) fn levels_fit(levels: &[f64]) -> Result<(), String> {
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
