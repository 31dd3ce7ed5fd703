//! Attention with PyTorch's axes: heads before tokens.

use super::masked::MaskedAttention;
use super::scale_of;
use crate::contract::{Graph, Value};
use crate::error::Error;
use crate::values::{Rule, Shape};
use std::panic::Location;

/// What [`Graph::scaled_dot_product_attention`] takes beside queries, keys and values: without anything, what PyTorch's does.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeadsFirst {
    /// A bool mask, true where the query sees the key, or one of the dtype of the queries, which is added to the scores. Broadcast to
    /// `[.., h, M, N]`.
    pub mask: Option<Value>,
    /// Whether query `i` sees the keys up to key `i`, counted from the first of both; [`Visible`](crate::Visible) counts from the last.
    pub causal: bool,
    /// Factor of the products; `1/√e` where none is given.
    pub scale: Option<f64>,
    /// Whether keys and values may have fewer heads, of which several query heads read one.
    pub grouped: bool,
}

impl Graph {
    /// Attention `[.., h, M, f]` of queries `[.., h, M, e]` over keys `[.., h, N, e]` and values `[.., h, N, f]`: the axes, defaults and
    /// rules of PyTorch's `scaled_dot_product_attention`, without its dropout. [`Graph::attend`] has tokens before heads. The axes of
    /// `h` and those before it may be missing.
    ///
    /// ```
    /// use landfall::{DType, Graph, HeadsFirst, StateSpec};
    /// let graph = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let q = graph.input("q", DType::F32, [8, 4, 64, 16]);
    /// let k = graph.input("k", DType::F32, [8, 4, 50, 16]);
    /// let v = graph.input("v", DType::F32, [8, 4, 50, 32]);
    /// let out = graph.scaled_dot_product_attention(q, k, v, HeadsFirst { causal: true, ..Default::default() })?;
    /// assert_eq!(graph.shape(out).dims(), [8, 4, 64, 32]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// Arguments of one float dtype and rank, at least 2, whose sizes are those above; grouped heads that are not asked for; a mask that
    /// cannot be broadcast, or beside `causal`.
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        query: Value,
        key: Value,
        value: Value,
        options: HeadsFirst,
    ) -> Result<Value, Error> {
        let (args, at) = ([query, key, value], Location::caller());
        self.sound("scaled_dot_product_attention", &args, at)?;
        let specs = self.specs(&args);
        let refused =
            |rule: Rule| Error::from(rule.of("scaled_dot_product_attention", &specs, None, Some(at)));
        let shapes = [specs[0].shape, specs[1].shape, specs[2].shape];
        check(&shapes, &options).map_err(refused)?;
        let rank = shapes[0].rank();
        let [q, k, v] = shapes.map(|s| Sizes::of(&s));
        // Features beyond the others' are zeros: they add nothing to a product, and are cut off a result.
        let wide = q.features.max(v.features);
        let turned = |i: usize, s: &Sizes| {
            let x = self.reshape(args[i], [s.batch, s.heads, s.tokens, s.features])?;
            let x = if s.features < wide { self.pad(x, 3, 0, wide - s.features)? } else { x };
            self.permute(x, &[0, 2, 1, 3])
        };
        let mut operands = vec![turned(0, &q)?, turned(1, &k)?, turned(2, &v)?];
        let scores = shapes[0].with(rank - 1, k.tokens);
        let mask = match options.mask {
            None if options.causal && q.tokens != k.tokens => {
                Some(self.lower_triangle(q.tokens, k.tokens, 0)?)
            }
            mask => mask,
        };
        if let Some(mask) = mask {
            let whole = self.broadcast_to(mask, scores)?;
            operands.push(self.reshape(whole, [q.batch, q.heads, q.tokens, k.tokens])?);
        }
        let scale = options.scale.unwrap_or_else(|| scale_of(q.features));
        let causal = options.causal && mask.is_none();
        let op = MaskedAttention { scale, causal, mask: mask.is_some(), lengths: false };
        let out = self.permute(self.op(op, &operands)?[0], &[0, 2, 1, 3])?;
        self.reshape(self.slice(out, 3, 0, v.features)?, shapes[0].with(rank - 1, v.features))
    }
}

/// Sizes of an argument, its axes before the heads as one.
struct Sizes {
    batch: usize,
    heads: usize,
    tokens: usize,
    features: usize,
}

impl Sizes {
    fn of(shape: &Shape) -> Self {
        let (dims, rank) = (shape.dims(), shape.rank());
        Self {
            batch: dims[..rank.saturating_sub(3)].iter().product(),
            heads: if rank > 2 { dims[rank - 3] } else { 1 },
            tokens: dims[rank - 2],
            features: dims[rank - 1],
        }
    }
}

/// That the shapes of queries, keys and values fit each other.
fn check(shapes: &[Shape; 3], options: &HeadsFirst) -> Result<(), Rule> {
    let rank = shapes[0].rank();
    for (arg, shape) in shapes.iter().enumerate() {
        let own = shape.rank();
        if own < 2 {
            return Err(Rule::Rank { arg, rank: own, expected: "at least 2: [.., heads, tokens, features]" });
        }
        if own != rank {
            return Err(Rule::Rank { arg, rank: own, expected: "that of arg 0" });
        }
    }
    let same = |lhs: usize, rhs: usize, axis: usize| {
        let [a, b] = [lhs, rhs].map(|arg| (arg, axis, shapes[arg].dims()[axis]));
        if a.2 == b.2 { Ok(()) } else { Err(Rule::Dim { lhs: a, rhs: b }) }
    };
    same(0, 1, rank - 1)?;
    same(1, 2, rank - 2)?;
    for axis in 0..rank - 2 {
        same(1, 2, axis)?;
        if axis + 3 != rank || !options.grouped {
            same(0, 1, axis)?;
        }
    }
    if options.causal && options.mask.is_some() {
        let expected = "false beside a mask, which says itself what is seen";
        return Err(Rule::Attribute { name: "is_causal", value: 1.0, expected });
    }
    Ok(())
}
