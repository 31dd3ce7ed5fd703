//! Rotary positions and the mask of tokens, which enter attention by the features of queries and keys.

use super::sizes::{Seen, ZeroShotConfig};
use landfall::{DType, Error, Graph, Value};

/// Base of the angles: the slowest feature turns once in some 6,000 patches.
const BASE: f64 = 1000.0;

/// What a key of a patch of which nothing is known has in the feature of the mask: its weight is 0 in every dtype.
const HIDDEN: f64 = -1e4;

/// What positions and masks are for all tokens of a pass, once for all layers.
pub(super) struct Places {
    /// Windows and tokens of each length, and the patches that are forecast.
    groups: Vec<([usize; 2], usize)>,
    /// Factors of queries and keys, `[T, 1, e]`.
    cos: Value,
    /// Factors of their halves exchanged.
    sin: Value,
    /// The feature of the mask, `[T, 2, 1, e]`: of queries, of keys.
    mask: Value,
}

/// Queries, keys and values of all tokens, `[T, h, e]` each.
pub(super) struct Turned {
    pub(super) query: Value,
    pub(super) key: Value,
    pub(super) value: Value,
}

impl Places {
    pub(super) fn of(g: &Graph, seen: &[Seen], c: &ZeroShotConfig) -> Result<Self, Error> {
        let e = c.width / c.heads;
        let (mut groups, mut cos, mut sin, mut mask) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for s in seen {
            let dtype = g.spec(s.values).dtype;
            let [windows, rows] = g.shape(s.values).dims().try_into().unwrap_or([0; 2]);
            let (patches, tokens) = (rows / c.patch, rows / c.patch + s.queries);
            let spread = |table: Value| {
                let all = g.broadcast_to(g.reshape(table, [1, tokens, e])?, [windows, tokens, e])?;
                g.reshape(all, [windows * tokens, 1, e])
            };
            // The future begins at place 0.
            let [own_cos, own_sin] = turns(g, dtype, patches, tokens, e)?;
            cos.push(spread(own_cos)?);
            sin.push(spread(own_sin)?);
            let known = g.max(g.reshape(s.known, [windows, patches, c.patch])?, 2)?;
            let hidden = g.affine(known, -HIDDEN, HIDDEN)?;
            let keys = g.pad(hidden, 1, 0, s.queries)?;
            let keys = g.reshape(keys, [windows * tokens, 1, 1, 1])?;
            let queries = g.broadcast_to(g.fill(dtype, [1, 1, 1, 1], 1.0)?, [windows * tokens, 1, 1, 1])?;
            mask.push(g.mul(g.concat(&[queries, keys], 1)?, last(g, dtype, e)?)?);
            groups.push(([windows, tokens], s.queries));
        }
        Ok(Self { groups, cos: g.concat(&cos, 0)?, sin: g.concat(&sin, 0)?, mask: g.concat(&mask, 0)? })
    }

    /// For each length its first token, windows and tokens of a window, and patches that are forecast.
    pub(super) fn groups(&self) -> impl Iterator<Item = (usize, [usize; 2], usize)> {
        self.groups.iter().scan(0, |at, &(sizes, queries)| {
            let from = *at;
            *at += sizes[0] * sizes[1];
            Some((from, sizes, queries))
        })
    }

    /// Queries and keys of tokens `[T, D]`, turned and with their feature of the mask, and values, by a weight `[3·D, D]`.
    ///
    /// The halves of queries and keys exchanged are a product with the rows of the weight exchanged: all that is turned is then one
    /// pointwise op.
    pub(super) fn turned(&self, g: &Graph, x: Value, weight: Value, heads: usize) -> Result<Turned, Error> {
        let [tokens, d] = g.shape(x).dims().try_into().unwrap_or([0; 2]);
        let e = d / heads;
        let halves = g.reshape(g.slice(weight, 0, 0, 2 * d)?, [2 * heads, 2, e / 2, d])?;
        let exchanged = g.concat(&[g.slice(halves, 1, 1, 1)?, g.slice(halves, 1, 0, 1)?], 1)?;
        let rows = g.concat(&[weight, g.reshape(exchanged, [2 * d, d])?], 0)?;
        let all = g.name(g.matmul(x, g.transpose(rows)?)?, "qkv");
        let both = |from| g.reshape(g.slice(all, 1, from, 2 * d)?, [tokens, 2, heads, e]);
        let spread = |table| g.reshape(table, [tokens, 1, 1, e]);
        let turned = g.add(g.mul(both(0)?, spread(self.cos)?)?, g.mul(both(3 * d)?, spread(self.sin)?)?)?;
        let turned = g.name(g.add(turned, self.mask)?, "turned");
        let part = |i| g.reshape(g.slice(turned, 1, i, 1)?, [tokens, heads, e]);
        let value = g.reshape(g.slice(all, 1, 2 * d, d)?, [tokens, heads, e])?;
        Ok(Turned { query: part(0)?, key: part(1)?, value })
    }
}

/// A one in the last of `e` features.
fn last(g: &Graph, dtype: DType, e: usize) -> Result<Value, Error> {
    let column = g.arange(dtype, 0.0, 1.0, e)?;
    g.cast(g.equal(column, g.scalar(column, (e - 1) as f64)?)?, dtype)
}

/// Cosines and signed sines `[N, e]` of the places `−patches..` of tokens: features `c` and `c + e/2` turn together, but for the
/// last pair, of which the first stays as it is and the second is 0.
fn turns(g: &Graph, dtype: DType, patches: usize, tokens: usize, e: usize) -> Result<[Value; 2], Error> {
    let half = e / 2;
    let places = g.reshape(g.arange(dtype, -(patches as f64), 1.0, tokens)?, [tokens, 1])?;
    let powers = g.arange(dtype, 0.0, -BASE.ln() / (half as f64 - 1.0), half)?;
    let turning = g.affine(last(g, dtype, half)?, -1.0, 1.0)?;
    let angles = g.mul(places, g.mul(g.exp(powers)?, turning)?)?;
    let (cos, sin) = (g.cos(angles)?, g.sin(angles)?);
    let cos = g.concat(&[cos, g.mul(cos, turning)?], 1)?;
    Ok([cos, g.concat(&[g.neg(sin)?, sin], 1)?])
}
