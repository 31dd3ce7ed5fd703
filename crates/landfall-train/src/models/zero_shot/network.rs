//! The network.

use super::positions::{Places, Turned};
use super::sizes::{LEVELS, Seen, ZeroShotConfig};
use crate::nn::{Context, Linear, Norm, NormKind, Parameters, gelu};
use landfall::{Error, Graph, Rule, Shape, Value, ops};

/// A layer of attention and feed-forward, each behind a norm.
#[derive(Debug, Clone)]
struct Layer {
    norm_attention: Norm,
    qkv: Linear,
    out: Linear,
    norm_feed_forward: Norm,
    expand: Linear,
    contract: Linear,
}

/// The network: patches of the context and of the future are tokens of one sequence, `x ← x + attention(norm(x))`,
/// `x ← x + feed-forward(norm(x))` in each layer, and a linear map of the future's tokens gives the quantiles of their rows.
///
/// A patch is described by its scaled values, which of them are known, and how old they are; a patch of the future by its number. Queries
/// and keys are turned by rotary positions ([`Graph::rotary`]) in all features but two, of which one carries the mask: a query
/// has 1 there, a key 0 if anything is known of its patch, else a large negative number. So attention without a mask,
/// the fastest, leaves out what lies before a short context.
///
/// Windows of several lengths are computed together: all products and norms have the tokens of all windows in one matrix, and only
/// attention goes length by length. A batch with many short contexts costs what its tokens cost.
#[derive(Debug, Clone)]
pub struct ZeroShot {
    config: ZeroShotConfig,
    parameters: Parameters,
    embed: [Linear; 2],
    layers: Vec<Layer>,
    norm: Norm,
    head: Linear,
}

impl ZeroShot {
    /// A network of these sizes.
    ///
    /// ```
    /// use landfall_train::models::zero_shot::{ZeroShot, ZeroShotConfig};
    /// let network = ZeroShot::new(ZeroShotConfig::default())?;
    /// assert_eq!(network.parameters().count(), 1_929_192);
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// As [`ZeroShotConfig::check`].
    #[track_caller]
    pub fn new(config: ZeroShotConfig) -> Result<Self, String> {
        config.check()?;
        let (d, mut p) = (config.width, Parameters::new());
        let p = &mut p;
        let embed =
            [Linear::new(p, "embed.hidden", config.features(), 2 * d), Linear::new(p, "embed.out", 2 * d, d)];
        let layer = |p: &mut Parameters, i: usize| {
            let name = |part: &str| format!("layers.{i}.{part}");
            Layer {
                norm_attention: Norm::new(p, &name("norm_attention"), NormKind::Layer, d),
                qkv: Linear::unbiased(p, &name("qkv"), d, 3 * d),
                out: Linear::new(p, &name("out"), d, d),
                norm_feed_forward: Norm::new(p, &name("norm_feed_forward"), NormKind::Layer, d),
                expand: Linear::new(p, &name("expand"), d, 4 * d),
                contract: Linear::new(p, &name("contract"), 4 * d, d),
            }
        };
        let layers = (0..config.layers).map(|i| layer(p, i)).collect();
        let norm = Norm::new(p, "norm", NormKind::Layer, d);
        let head = Linear::new(p, "head", d, config.patch * LEVELS.len());
        Ok(Self { config, parameters: p.clone(), embed, layers, norm, head })
    }

    /// Its sizes.
    #[must_use]
    pub fn config(&self) -> &ZeroShotConfig {
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

    /// The forward pass over windows of several lengths: `[U, Q, P]`, the scaled quantiles of all patches of the future, those of the
    /// first windows first. U is the sum of windows · queries.
    ///
    /// # Errors
    /// A context that is no multiple of the patch, more patches to forecast than the horizon has.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, seen: &[Seen]) -> Result<Value, Error> {
        let g = cx.graph;
        let features: Vec<Value> = seen.iter().map(|s| self.describe(g, s)).collect::<Result<_, _>>()?;
        let places = Places::of(g, seen, &self.config)?;
        let [hidden, out] = &self.embed;
        let described = g.concat(&features, 0)?;
        let mut x = out.forward(cx, gelu(cx, hidden.forward(cx, described)?, ops::Approximation::Tanh)?)?;
        for (i, layer) in self.layers.iter().enumerate() {
            x = g.scope(&format!("layers.{i}"), || {
                let normed = layer.norm_attention.forward(cx, x)?;
                let x = g.add(x, self.attention(cx, layer, &places, normed)?)?;
                let expanded = layer.expand.forward(cx, layer.norm_feed_forward.forward(cx, x)?)?;
                g.add(x, layer.contract.forward(cx, gelu(cx, expanded, ops::Approximation::Tanh)?)?)
            })?;
        }
        let d = self.config.width;
        let future = |(from, [windows, tokens], queries): (usize, [usize; 2], usize)| {
            let own = g.reshape(g.slice(x, 0, from, windows * tokens)?, [windows, tokens, d])?;
            g.reshape(g.slice(own, 1, tokens - queries, queries)?, [windows * queries, d])
        };
        let future: Vec<Value> = places.groups().map(future).collect::<Result<_, _>>()?;
        let quantiles = self.head.forward(cx, self.norm.forward(cx, g.concat(&future, 0)?)?)?;
        let patches = g.shape(quantiles).dims()[0];
        g.reshape(g.name(quantiles, "quantiles"), [patches, LEVELS.len(), self.config.patch])
    }

    /// What the tokens of windows are described by, `[B·N, F]`.
    fn describe(&self, g: &Graph, seen: &Seen) -> Result<Value, Error> {
        let c = &self.config;
        let shape = g.shape(seen.values);
        let refused = |rule: Rule| Error::from(rule.of("zero_shot", &[g.spec(seen.values)], None, None));
        let &[windows, rows] = shape.dims() else {
            return Err(refused(Rule::Rank { arg: 0, rank: shape.rank(), expected: "2: [windows, rows]" }));
        };
        if rows == 0 || rows % c.patch != 0 {
            let expected = "a multiple of the rows of a patch";
            return Err(refused(Rule::Attribute {
                name: "rows of the context",
                value: rows as f64,
                expected,
            }));
        }
        let most = c.horizon / c.patch;
        if seen.queries == 0 || seen.queries > most {
            let (name, value) = ("patches to forecast", seen.queries as f64);
            return Err(refused(Rule::Attribute { name, value, expected: "1 up to those of the horizon" }));
        }
        let dtype = g.spec(seen.values).dtype;
        let (patches, features) = (rows / c.patch, c.features());
        let age = g.arange(dtype, -(rows as f64) / c.context as f64, 1.0 / c.context as f64, rows)?;
        let parts = [seen.values, seen.known, g.mul(seen.known, age)?];
        let cut = |v| g.reshape(v, [windows, patches, c.patch]);
        let parts: Vec<Value> = parts.into_iter().map(cut).collect::<Result<_, _>>()?;
        let told = g.concat(&parts, 2)?;
        let told = g.op1(ops::Pad { axis: 2, before: 0, after: features - 3 * c.patch }, &[told])?;
        // A one at the number of the patch.
        let column = g.arange(dtype, 0.0, 1.0, features)?;
        let number =
            g.reshape(g.arange(dtype, (3 * c.patch) as f64, 1.0, seen.queries)?, [seen.queries, 1])?;
        let future = g.cast(g.equal(column, number)?, dtype)?;
        let future = g.broadcast_to(future, [windows, seen.queries, features])?;
        let tokens = g.concat(&[told, future], 1)?;
        g.reshape(tokens, [windows * (patches + seen.queries), features])
    }

    /// Attention of normed tokens `[T, D]`: the same shape.
    fn attention(&self, cx: &Context<'_>, layer: &Layer, places: &Places, x: Value) -> Result<Value, Error> {
        let (g, d, h) = (cx.graph, self.config.width, self.config.heads);
        let Turned { query, key, value } = places.turned(g, x, cx.parameter(layer.qkv.weight())?, h)?;
        let e = d / h;
        let attended = |(from, [windows, tokens], _): (usize, [usize; 2], usize)| {
            let own = |v| {
                let rows = g.slice(v, 0, from, windows * tokens)?;
                g.reshape(rows, [windows, tokens, h, e])
            };
            let op = ops::Attention { scale: (e as f64).powf(-0.5), previous: false, emit_scores: false };
            let attended = g.op(op, &[own(query)?, own(key)?, own(value)?])?[0];
            g.reshape(attended, Shape::from([windows * tokens, d]))
        };
        let all: Vec<Value> = places.groups().map(attended).collect::<Result<_, _>>()?;
        layer.out.forward(cx, g.concat(&all, 0)?)
    }
}
