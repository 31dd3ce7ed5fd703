//! Chronos-Bolt.

use super::chronos2::Ahead;
use super::parts::{Attention, CrossAttention, FeedForward, ResidualBlock, Sight, Sizes, hiding, there};
use super::scale::scale;
use super::sizes::ChronosBoltConfig;
use crate::nn::{Context, Embedding, Init, Parameters, RmsNorm};
use landfall::{DType, Error, Graph, Rule, Value};

/// A layer of the encoder.
#[derive(Debug, Clone, Copy)]
struct EncoderLayer {
    attention: Attention,
    feed_forward: FeedForward,
}

/// A layer of the decoder: attention of its token to itself, to those of the encoder, and a feed-forward.
#[derive(Debug, Clone, Copy)]
struct DecoderLayer {
    own: Attention,
    cross: CrossAttention,
    feed_forward: FeedForward,
}

/// Chronos-Bolt: patches of a series are the tokens of T5's encoder, and the one token of its decoder becomes the quantiles of all rows that
/// are forecast.
///
/// A patch is described by its scaled values and which of them are known. Attention of the encoder knows of places by a bias for each head and
/// distance of two tokens, of all its layers the same. Names and shapes of the parameters are those of the authors' checkpoints. In a
/// training nothing is dropped at random.
#[derive(Debug, Clone)]
pub struct ChronosBolt {
    config: ChronosBoltConfig,
    parameters: Parameters,
    tokens: Embedding,
    embed: ResidualBlock,
    /// `[buckets, heads]`.
    bias: Embedding,
    encoder: Vec<EncoderLayer>,
    encoder_norm: RmsNorm,
    decoder: Vec<DecoderLayer>,
    decoder_norm: RmsNorm,
    head: ResidualBlock,
}

impl ChronosBolt {
    /// A network of these sizes.
    ///
    /// ```
    /// use landfall_train::models::chronos::{Activation, ChronosBolt, ChronosBoltConfig};
    /// let tiny = ChronosBoltConfig {
    ///     patch: 16,
    ///     context: 2048,
    ///     horizon: 64,
    ///     levels: (1..10).map(|i| f64::from(i) / 10.0).collect(),
    ///     width: 256,
    ///     features: 64,
    ///     heads: 4,
    ///     hidden: 1024,
    ///     layers: 4,
    ///     decoder_layers: 4,
    ///     buckets: 32,
    ///     distance: 128,
    ///     activation: Activation::Relu,
    ///     gated: false,
    ///     register: true,
    ///     start: 0,
    ///     eps: 1e-6,
    /// };
    /// assert_eq!(ChronosBolt::new(tiny)?.parameters().count(), 8_652_672);
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// As [`ChronosBoltConfig::check`].
    #[track_caller]
    pub fn new(config: ChronosBoltConfig) -> Result<Self, String> {
        config.check()?;
        let c = &config;
        let ChronosBoltConfig { width, features, heads, hidden, eps, activation, gated, .. } = *c;
        let sizes = Sizes { width, features, heads, hidden, eps, activation, gated };
        let mut p = Parameters::new();
        let tokens = Embedding::new(&mut p, "shared", c.tokens(), c.width);
        let patch = [2 * c.patch, c.hidden, c.width];
        let embed = ResidualBlock::new(&mut p, "input_patch_embedding", patch, activation);
        let mut bias = |stack: &str| {
            let name = format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias");
            Embedding::with_init(&mut p, &name, c.buckets, c.heads, Init::Normal((c.width as f64).powf(-0.5)))
        };
        // Of the decoder, too: its one token has no distance to another, so that nothing reads it.
        let [bias, _] = ["encoder", "decoder"].map(&mut bias);
        let (mut encoder, mut decoder) = (Vec::with_capacity(c.layers), Vec::with_capacity(c.decoder_layers));
        for i in 0..c.layers {
            let name = |part: usize| format!("encoder.block.{i}.layer.{part}");
            let attention = Attention::new(&mut p, [&name(0), "SelfAttention"], &sizes);
            let feed_forward = FeedForward::new(&mut p, [&name(1), "DenseReluDense"], &sizes);
            encoder.push(EncoderLayer { attention, feed_forward });
        }
        let encoder_norm = RmsNorm::with_eps(&mut p, "encoder.final_layer_norm", c.width, c.eps);
        for i in 0..c.decoder_layers {
            let name = |part: usize| format!("decoder.block.{i}.layer.{part}");
            let own = Attention::new(&mut p, [&name(0), "SelfAttention"], &sizes);
            let cross = CrossAttention::new(&mut p, [&name(1), "EncDecAttention"], &sizes);
            let feed_forward = FeedForward::new(&mut p, [&name(2), "DenseReluDense"], &sizes);
            decoder.push(DecoderLayer { own, cross, feed_forward });
        }
        let decoder_norm = RmsNorm::with_eps(&mut p, "decoder.final_layer_norm", c.width, c.eps);
        let quantiles = [c.width, c.hidden, c.levels.len() * c.horizon];
        let head = ResidualBlock::new(&mut p, "output_patch_embedding", quantiles, activation);
        Ok(Self {
            config,
            parameters: p,
            tokens,
            embed,
            bias,
            encoder,
            encoder_norm,
            decoder,
            decoder_norm,
            head,
        })
    }

    /// Its sizes.
    #[must_use]
    pub fn config(&self) -> &ChronosBoltConfig {
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

    /// The forward pass: of values of the context `[B, R]`, oldest first, R a multiple of the patch, and 1 where they are known, else 0. NaN
    /// may stand where one is missing. `whole` says that a value is known of every patch, so that no token has to be hidden.
    ///
    /// ```
    /// use landfall::{DType, Graph};
    /// use landfall_train::models::chronos::{Activation, ChronosBolt, ChronosBoltConfig};
    /// use landfall_train::nn::{Context, Mode};
    /// # let sizes = ChronosBoltConfig { patch: 4, context: 32, horizon: 6, levels: vec![0.1, 0.5, 0.9], width: 8, features: 4, heads: 2,
    /// #     hidden: 16, layers: 1, decoder_layers: 1, buckets: 8, distance: 16, activation: Activation::Relu, gated: false, register: true,
    /// #     start: 0, eps: 1e-6 };
    /// let network = ChronosBolt::new(sizes)?;
    /// let g = Graph::new(&network.parameters().state_spec(DType::F32)?);
    /// let cx = Context::new(&g, network.parameters(), Mode::Evaluate);
    /// let both = ["context", "known"].map(|name| g.input(name, DType::F32, [5, 32]));
    /// let ahead = network.forward(&cx, both, false)?;
    /// assert_eq!(g.shape(ahead.quantiles).dims(), [5, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Rows that are no multiple of the patch.
    #[track_caller]
    pub fn forward(
        &self,
        cx: &Context<'_>,
        [context, known]: [Value; 2],
        whole: bool,
    ) -> Result<Ahead, Error> {
        let (g, c) = (cx.graph, &self.config);
        let [batch, rows] = self.check(g, [context, known])?;
        let past = rows / c.patch;
        let scale = g.full_precision(|| scale(g, context, known, false))?;
        let scaled = g.full_precision(|| scale.scaled(g, context, known))?;
        let cut = |v| g.reshape(v, [batch, past, c.patch]);
        let described = g.concat(&[cut(scaled)?, cut(known)?], 2)?;
        // Values are scaled in their own dtype, and the network computes in that of its parameters.
        let table = cx.parameter(self.tokens.weight())?;
        let mut x = self.embed.forward(cx, g.cast(described, g.spec(table).dtype)?)?;
        let token = |number: usize| {
            let own = g.reshape(g.slice(table, 0, number, 1)?, [1, 1, c.width])?;
            g.broadcast_to(own, [batch, 1, c.width])
        };
        if c.register {
            x = g.concat(&[x, token(ChronosBoltConfig::REGISTER)?], 1)?;
        }
        let tokens = g.shape(x).dims()[1];
        let (mut bias, mut keys) = (self.bias(cx, tokens)?, Sight::All);
        if !whole {
            let there = g.reshape(there(g, known, c.patch, tokens)?, [batch, 1, 1, tokens])?;
            (bias, keys) = (g.add(bias, hiding(g, there, bias)?)?, Sight::Keys(there));
        }
        for (i, layer) in self.encoder.iter().enumerate() {
            x = g.scope(&format!("encoder.{i}"), || {
                let x = layer.attention.forward(cx, x, None, Sight::Biased(bias))?;
                layer.feed_forward.forward(cx, x)
            })?;
        }
        let seen = self.encoder_norm.forward(cx, x)?;
        let mut y = token(c.start)?;
        for (i, layer) in self.decoder.iter().enumerate() {
            y = g.scope(&format!("decoder.{i}"), || {
                let y = layer.cross.forward(cx, layer.own.alone(cx, y)?, seen, keys)?;
                layer.feed_forward.forward(cx, y)
            })?;
        }
        let quantiles = self.head.forward(cx, self.decoder_norm.forward(cx, y)?)?;
        let quantiles = g.cast(quantiles, g.spec(context).dtype)?;
        let quantiles = g.reshape(quantiles, [batch, c.levels.len(), c.horizon])?;
        Ok(Ahead { quantiles: g.name(quantiles, "quantiles"), scale })
    }

    /// Series and rows of the context.
    fn check(&self, g: &Graph, both: [Value; 2]) -> Result<[usize; 2], Error> {
        let specs = both.map(|v| g.spec(v));
        let refused = |rule: Rule| Error::from(rule.of("chronos_bolt", &specs, None, None));
        let shape = specs[0].shape;
        let &[batch, rows] = shape.dims() else {
            return Err(refused(Rule::Rank { arg: 0, rank: shape.rank(), expected: "2: [series, rows]" }));
        };
        if rows == 0 || !rows.is_multiple_of(self.config.patch) {
            let (name, expected) = ("rows of the context", "a multiple of the patch");
            return Err(refused(Rule::Attribute { name, value: rows as f64, expected }));
        }
        if specs[1].shape != shape {
            return Err(refused(Rule::ArgShape { arg: 1, shape: specs[1].shape, expected: shape }));
        }
        Ok([batch, rows])
    }

    /// What is added to the scores of each head by the distance of two tokens, `[1, h, N, N]`.
    fn bias(&self, cx: &Context<'_>, tokens: usize) -> Result<Value, Error> {
        let (g, c) = (cx.graph, &self.config);
        let places = g.arange(DType::F32, 0.0, 1.0, tokens)?;
        let ahead = g.sub(g.reshape(places, [1, tokens])?, g.reshape(places, [tokens, 1])?)?;
        let number = |x: f64| g.scalar(ahead, x);
        let from = |distance: Value, at: usize, more: usize| {
            let reached = g.greater_equal(distance, number(at as f64)?)?;
            g.affine(g.cast(reached, DType::F32)?, more as f64, 0.0)
        };
        // The bucket as the sum of its steps: small numbers, exact in f32.
        let mut bucket = from(ahead, 1, c.buckets / 2)?;
        let distance = g.abs(ahead)?;
        for at in 1..tokens {
            let more = c.bucket(at).saturating_sub(c.bucket(at - 1));
            if more > 0 {
                bucket = g.add(bucket, from(distance, at, more)?)?;
            }
        }
        let bias = self.bias.forward(cx, g.cast(bucket, DType::I64)?)?;
        g.reshape(g.permute(bias, &[2, 0, 1])?, [1, c.heads, tokens, tokens])
    }
}
