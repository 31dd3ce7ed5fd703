//! Chronos-2.

use super::activation::Activation;
use super::parts::{Attention, FeedForward, ResidualBlock, Sight, Sizes, there};
use super::scale::{Scale, scale};
use super::sizes::Chronos2Config;
use crate::nn::{Context, Embedding, Parameters, RmsNorm};
use landfall::{Error, Graph, Rule, Shape, Value};

/// A layer: attention over time, attention over the series of a group, and a feed-forward.
#[derive(Debug, Clone, Copy)]
struct Layer {
    time: Attention,
    group: Attention,
    feed_forward: FeedForward,
}

/// Chronos-2: patches of context and future are tokens of one sequence for each series. Each layer attends over the tokens of a series, then
/// over those that the series of one group have at the same place, and the future's tokens become quantiles.
///
/// Between context and future stands a token of its own. A patch is described by its time, its scaled values and which of them are known; of the future the values of covariates are known.
/// Names and shapes of the parameters are those of the authors' checkpoints. In a training nothing is dropped at random.
#[derive(Debug, Clone)]
pub struct Chronos2 {
    config: Chronos2Config,
    parameters: Parameters,
    tokens: Embedding,
    embed: ResidualBlock,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: ResidualBlock,
}

/// What is known of a batch of series.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Values of the context `[B, R]`, oldest first, R a multiple of the patch. NaN may stand where one is missing.
    pub context: Value,
    /// 1 where a value of the context is known, else 0: `[B, R]`.
    pub known: Value,
    /// Values of the future `[B, F]`, F a multiple of the patch, and 1 where they are known, of covariates, else 0; none if left out.
    pub future: Option<[Value; 2]>,
    /// Patches to forecast, F/P.
    pub patches: usize,
    /// Series of a group M, which lie one behind the other; B is a multiple.
    pub members: usize,
    /// Whether a value is known of every patch of every context, so that no token has to be hidden.
    pub whole: bool,
}

/// What is forecast.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// Scaled quantiles `[B, Q, F]`.
    pub quantiles: Value,
    /// The scale of each series.
    pub scale: Scale,
}

impl Chronos2 {
    /// A network of these sizes.
    ///
    /// ```
    /// use landfall_train::models::chronos::{Chronos2, Chronos2Config};
    /// let sizes = Chronos2Config {
    ///     patch: 16,
    ///     context: 8192,
    ///     patches: 64,
    ///     levels: (1..20).map(|i| f64::from(i) / 20.0).collect(),
    ///     width: 768,
    ///     features: 64,
    ///     heads: 12,
    ///     hidden: 3072,
    ///     layers: 12,
    ///     arcsinh: true,
    ///     time_scale: 8192.0,
    ///     eps: 1e-6,
    ///     rope: 1e4,
    /// };
    /// assert_eq!(Chronos2::new(sizes)?.parameters().count(), 119_354_720);
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// As [`Chronos2Config::check`].
    #[track_caller]
    pub fn new(config: Chronos2Config) -> Result<Self, String> {
        config.check()?;
        let c = &config;
        let activation = Activation::Relu;
        let sizes = Sizes {
            width: c.width,
            features: c.features,
            heads: c.heads,
            hidden: c.hidden,
            eps: c.eps,
            activation,
            gated: false,
        };
        let mut p = Parameters::new();
        let tokens = Embedding::new(&mut p, "shared", 2, c.width);
        let patch = [3 * c.patch, c.hidden, c.width];
        let embed = ResidualBlock::new(&mut p, "input_patch_embedding", patch, activation);
        let mut layers = Vec::with_capacity(c.layers);
        for i in 0..c.layers {
            let name = |part: usize| format!("encoder.block.{i}.layer.{part}");
            let time = Attention::new(&mut p, [&name(0), "self_attention"], &sizes);
            let group = Attention::new(&mut p, [&name(1), "self_attention"], &sizes);
            let feed_forward = FeedForward::new(&mut p, [&name(2), "mlp"], &sizes);
            layers.push(Layer { time, group, feed_forward });
        }
        let norm = RmsNorm::with_eps(&mut p, "encoder.final_layer_norm", c.width, c.eps);
        let quantiles = [c.width, c.hidden, c.levels.len() * c.patch];
        let head = ResidualBlock::new(&mut p, "output_patch_embedding", quantiles, activation);
        Ok(Self { config, parameters: p, tokens, embed, layers, norm, head })
    }

    /// Its sizes.
    #[must_use]
    pub fn config(&self) -> &Chronos2Config {
        &self.config
    }

    /// Its parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Its parameters, for freezing.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// The forward pass.
    ///
    /// # Errors
    /// Rows that are no multiple of the patch, a batch that is none of the members, no patches to forecast.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, seen: &Seen) -> Result<Ahead, Error> {
        let (g, c) = (cx.graph, &self.config);
        let [batch, rows] = self.check(g, seen)?;
        let (past, members) = (rows / c.patch, seen.members);
        let scale = g.full_precision(|| scale(g, seen.context, seen.known, c.arcsinh))?;
        let scaled = |[x, known]: [Value; 2]| g.full_precision(|| scale.scaled(g, x, known));
        let context = self.described(g, [scaled([seen.context, seen.known])?, seen.known], -(rows as f64))?;
        let future = match seen.future {
            Some([values, known]) => [scaled([values, known])?, known],
            None => {
                let nothing = g.fill(g.spec(seen.context).dtype, [1, 1], 0.0)?;
                [g.broadcast_to(nothing, [batch, seen.patches * c.patch])?; 2]
            }
        };
        let future = self.described(g, future, 0.0)?;
        // Values are scaled in their own dtype, and the network computes in that of its parameters.
        let dtype = g.spec(cx.parameter(self.tokens.weight())?).dtype;
        let described = g.cast(g.concat(&[context, future], 1)?, dtype)?;
        let mut x = self.embed.forward(cx, described)?;
        let register = g.slice(cx.parameter(self.tokens.weight())?, 0, 1, 1)?;
        let register = g.broadcast_to(g.reshape(register, [1, 1, c.width])?, [batch, 1, c.width])?;
        let part = |from, tokens| g.slice(x, 1, from, tokens);
        x = g.concat(&[part(0, past)?, register, part(past, seen.patches)?], 1)?;
        let tokens = g.shape(x).dims()[1];
        let (mut time, mut group) = (Sight::All, Sight::All);
        if !seen.whole {
            let there = there(g, seen.known, c.patch, tokens)?;
            time = Sight::Keys(g.reshape(there, [batch, 1, 1, tokens])?);
            if members > 1 {
                let turned = turned(g, g.reshape(there, [batch, tokens, 1])?, members)?;
                group = Sight::Keys(g.reshape(turned, [batch / members * tokens, 1, 1, members])?);
            }
        }
        for (i, layer) in self.layers.iter().enumerate() {
            x = g.scope(&format!("layers.{i}"), || {
                let x = layer.time.forward(cx, x, Some(c.rope), time)?;
                let x = if members == 1 {
                    layer.group.alone(cx, x)?
                } else {
                    let attended = layer.group.forward(cx, turned(g, x, members)?, None, group)?;
                    back(g, attended, [batch, tokens, members])?
                };
                layer.feed_forward.forward(cx, x)
            })?;
        }
        let last = g.slice(x, 1, tokens - seen.patches, seen.patches)?;
        let quantiles = self.head.forward(cx, self.norm.forward(cx, last)?)?;
        let quantiles = g.cast(quantiles, g.spec(seen.context).dtype)?;
        let levels = c.levels.len();
        let by_patch = g.reshape(quantiles, [batch, seen.patches, levels, c.patch])?;
        let by_level = g.permute(by_patch, &[0, 2, 1, 3])?;
        let quantiles = g.reshape(by_level, [batch, levels, seen.patches * c.patch])?;
        Ok(Ahead { quantiles: g.name(quantiles, "quantiles"), scale })
    }

    /// Series and rows of the context.
    fn check(&self, g: &Graph, seen: &Seen) -> Result<[usize; 2], Error> {
        let (c, shape) = (&self.config, g.shape(seen.context));
        let mut specs = vec![g.spec(seen.context), g.spec(seen.known)];
        specs.extend(seen.future.iter().flatten().map(|v| g.spec(*v)));
        let refused = |rule: Rule| Error::from(rule.of("chronos2", &specs, None, None));
        let &[batch, rows] = shape.dims() else {
            return Err(refused(Rule::Rank { arg: 0, rank: shape.rank(), expected: "2: [series, rows]" }));
        };
        for (name, value, fits, expected) in [
            (
                "rows of the context",
                rows,
                rows > 0 && rows.is_multiple_of(c.patch),
                "a multiple of the patch",
            ),
            ("patches to forecast", seen.patches, seen.patches > 0, "at least 1"),
            (
                "members of a group",
                seen.members,
                seen.members > 0 && batch.is_multiple_of(seen.members),
                "a divisor of the series",
            ),
        ] {
            if !fits {
                return Err(refused(Rule::Attribute { name, value: value as f64, expected }));
            }
        }
        let future = Shape::from([batch, seen.patches * c.patch]);
        let expected = [shape, shape, future, future];
        for (arg, (spec, expected)) in specs.iter().zip(expected).enumerate() {
            if spec.shape != expected {
                return Err(refused(Rule::ArgShape { arg, shape: spec.shape, expected }));
            }
        }
        Ok([batch, rows])
    }

    /// What patches are described by, `[B, N, 3·P]`: times from `first` on, values, and which are known, `[B, R]`.
    fn described(&self, g: &Graph, [values, known]: [Value; 2], first: f64) -> Result<Value, Error> {
        let c = &self.config;
        let [batch, rows] = g.shape(values).dims().try_into().unwrap_or([0; 2]);
        let time = g.arange(g.spec(values).dtype, first / c.time_scale, 1.0 / c.time_scale, rows)?;
        let time = g.broadcast_to(g.reshape(time, [1, rows])?, [batch, rows])?;
        let cut = |v| g.reshape(v, [batch, rows / c.patch, c.patch]);
        g.concat(&[cut(time)?, cut(values)?, cut(known)?], 2)
    }
}

/// Tokens `[G·M, N, D]` by place, those of a group together: `[G·N, M, D]`.
fn turned(g: &Graph, x: Value, members: usize) -> Result<Value, Error> {
    let [batch, tokens, width] = g.shape(x).dims().try_into().unwrap_or([0; 3]);
    let apart = g.reshape(x, [batch / members, members, tokens, width])?;
    g.reshape(g.permute(apart, &[0, 2, 1, 3])?, [batch / members * tokens, members, width])
}

/// The way back from [`turned`].
fn back(g: &Graph, x: Value, [batch, tokens, members]: [usize; 3]) -> Result<Value, Error> {
    let width = g.shape(x).last();
    let apart = g.reshape(x, [batch / members, tokens, members, width])?;
    g.reshape(g.permute(apart, &[0, 2, 1, 3])?, [batch, tokens, width])
}
