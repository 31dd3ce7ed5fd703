//! The rows of a mixture-of-experts' permutations: maps, the ops that follow them, and products by expert, at the sizes of
//! large layers. They are timed on a GPU, each step with a cold L2.

use crate::calls::{Arg, Call, call, exact, normal, result, row_name};
use landfall::rng::{Rng, Shuffle};
use landfall::{DType, Shape, ops};
use landfall_forecast::run::Precision;
use std::sync::Arc;

/// A row whose steps each find nothing of their arguments in the L2.
#[derive(Debug)]
pub(crate) struct RoutingRow {
    pub(crate) op: &'static str,
    spread: Spread,
    sizes: &'static [usize],
    calls: fn(&Layer) -> Vec<Call>,
}

/// How tokens choose their experts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spread {
    /// At random, each expert as likely as another.
    Uniform,
    /// In turn: each expert has as many tokens as another.
    Balanced,
    /// At random, the i-th expert as likely as 1/i.
    Zipf,
}

/// The layer that a row is of. `bench/peers/permutation_peer.py` reads the same sizes from the row's name.
struct Layer {
    spread: Spread,
    dtype: DType,
    tokens: usize,
    hidden: usize,
    experts: usize,
    /// Experts of a token.
    chosen: usize,
    /// Columns of an expert's matrix.
    columns: usize,
}

/// Sizes are tokens, hidden size, experts (or chunks), experts of a token, columns of an expert's matrix.
macro_rules! routing_rows {
    ($($op:literal $spread:ident $calls:ident: $([$($size:literal),*])*;)*) => {
        pub(crate) const ROUTING: &[RoutingRow] = &[$($(
            RoutingRow { op: $op, spread: Spread::$spread, sizes: &[$($size),*], calls: Layer::$calls }
        ),*),*];
    };
}

routing_rows! {
    "route-map" Uniform route_map: [32768, 7168, 64, 8] [32768, 7168, 64, 2] [32768, 7168, 256, 8] [32768, 7168, 256, 2] [4096, 7168, 64, 8] [4096, 7168, 256, 2] [32768, 1024, 64, 8] [32768, 1024, 256, 8];
    "route-map-zipf" Zipf route_map: [32768, 7168, 64, 8] [32768, 7168, 256, 8];
    "route-map-i32" Uniform route_map_i32: [32768, 7168, 64, 8] [32768, 7168, 256, 8] [32768, 7168, 256, 2];
    "permute" Uniform permute: [32768, 7168, 64, 8] [32768, 7168, 64, 2] [32768, 7168, 256, 8] [32768, 7168, 256, 2] [4096, 7168, 64, 8] [4096, 7168, 256, 2] [32768, 1024, 64, 8] [32768, 1024, 256, 8];
    "permute-zipf" Zipf permute: [32768, 7168, 64, 8] [32768, 7168, 256, 8];
    "permute-grad" Uniform permute_grad: [32768, 7168, 64, 8] [32768, 7168, 64, 2] [32768, 7168, 256, 8] [32768, 7168, 256, 2] [4096, 7168, 64, 8] [4096, 7168, 256, 2];
    "permute-grad-zipf" Zipf permute_grad: [32768, 7168, 64, 8] [32768, 7168, 256, 8];
    "unpermute" Uniform unpermute: [32768, 7168, 64, 8] [32768, 7168, 64, 2] [32768, 7168, 256, 8] [32768, 7168, 256, 2] [4096, 7168, 64, 8] [4096, 7168, 256, 2] [32768, 1024, 64, 8] [32768, 1024, 256, 8];
    "unpermute-zipf" Zipf unpermute: [32768, 7168, 64, 8] [32768, 7168, 256, 8];
    "unpermute-grad" Uniform unpermute_grad: [32768, 7168, 64, 8] [32768, 7168, 64, 2] [32768, 7168, 256, 8] [32768, 7168, 256, 2] [4096, 7168, 64, 8] [4096, 7168, 256, 2];
    "unpermute-grad-zipf" Zipf unpermute_grad: [32768, 7168, 64, 8] [32768, 7168, 256, 8];
    "chunk-map" Uniform chunk_map: [32768, 7168, 64] [32768, 7168, 256] [4096, 7168, 64] [4096, 7168, 256];
    "sort-chunks" Uniform sort_chunks: [32768, 7168, 64] [32768, 7168, 256] [4096, 7168, 64] [4096, 7168, 256];
    "routing-copy" Uniform copy: [32768, 7168, 64, 8] [32768, 7168, 64, 2] [32768, 7168, 64, 1] [4096, 7168, 64, 8] [4096, 7168, 64, 2] [4096, 7168, 64, 1];
    "grouped-matmul" Balanced grouped_matmul: [4096, 4096, 64, 8, 4096];
    "grouped-matmul-zipf" Zipf grouped_matmul: [4096, 4096, 64, 8, 4096];
    "plain-matmul" Balanced plain_matmul: [4096, 4096, 64, 8, 4096];
}

impl RoutingRow {
    pub(crate) fn name(&self) -> String {
        row_name(self.op, self.sizes)
    }

    /// Whether it is timed in this precision: rows are of f32 and bf16.
    pub(crate) fn takes(precision: Precision) -> bool {
        matches!(precision, Precision::F32 | Precision::Bf16)
    }

    pub(crate) fn calls(&self, dtype: DType) -> Vec<Call> {
        self.calls_of(self.sizes, dtype)
    }

    fn calls_of(&self, sizes: &[usize], dtype: DType) -> Vec<Call> {
        let size = |i: usize| sizes.get(i).copied().unwrap_or(1);
        let (tokens, hidden, experts, chosen, columns) = (size(0), size(1), size(2), size(3), size(4));
        (self.calls)(&Layer { spread: self.spread, dtype, tokens, hidden, experts, chosen, columns })
    }

    /// Each op of the table on a layer that is small enough for a test.
    #[cfg(test)]
    pub(crate) fn small(dtype: DType) -> Vec<(&'static str, Vec<Call>)> {
        let mut all: Vec<&Self> = ROUTING.iter().collect();
        all.dedup_by_key(|row| row.op);
        all.iter().map(|row| (row.op, row.calls_of(&[64, 48, 8, 3, 16][..row.sizes.len()], dtype))).collect()
    }
}

impl Layer {
    /// Rows of the permuted buffer.
    fn rows(&self) -> usize {
        self.tokens * self.chosen
    }

    fn normal(&self, shape: impl Into<Shape>) -> Arg {
        normal(self.dtype, shape)
    }

    /// Probabilities, weights: f32, as a router gives them.
    fn pairs(&self) -> Arg {
        normal(DType::F32, [self.tokens, self.experts])
    }

    /// The experts of each token, each once.
    fn choices(&self) -> Vec<f64> {
        let weight = |expert: usize| match self.spread {
            Spread::Uniform | Spread::Balanced => 1.0,
            Spread::Zipf => 1.0 / (expert + 1) as f64,
        };
        let ends: Vec<f64> = (0..self.experts)
            .scan(0.0, |sum, expert| {
                *sum += weight(expert);
                Some(*sum)
            })
            .collect();
        let total = ends.last().copied().unwrap_or(0.0);
        let mut rng = Rng::new(2021, 0);
        let mut routed = vec![0.0; self.tokens * self.experts];
        for (t, cells) in routed.chunks_exact_mut(self.experts).enumerate() {
            for j in 0..self.chosen {
                let expert = loop {
                    let drawn = match self.spread {
                        Spread::Balanced => (t * self.chosen + j) % self.experts,
                        Spread::Uniform | Spread::Zipf => {
                            let at = rng.uniform() * total;
                            ends.partition_point(|&end| end <= at).min(self.experts - 1)
                        }
                    };
                    if cells[drawn] == 0.0 {
                        break drawn;
                    }
                };
                cells[expert] = 1.0;
            }
        }
        routed
    }

    fn router(&self, routed: DType) -> Call {
        let op = ops::RouteMap { most: self.chosen, rows: self.rows(), align: 1, index: ops::Index::I32 };
        call(op, [exact(routed, [self.tokens, self.experts], self.choices())])
    }

    fn route_map(&self) -> Vec<Call> {
        vec![self.router(DType::Bool)]
    }

    fn route_map_i32(&self) -> Vec<Call> {
        vec![self.router(DType::I32)]
    }

    /// What `route_map` makes: map, source, counts, offsets.
    fn mapped(&self) -> [Arg; 4] {
        let map = Arc::new(self.router(DType::Bool));
        [
            result([self.tokens, 2 * self.chosen + 1], Arc::clone(&map), 0),
            result([self.rows()], Arc::clone(&map), 1),
            result([self.experts], Arc::clone(&map), 2),
            result([self.experts + 1], map, 3),
        ]
    }

    fn permute(&self) -> Vec<Call> {
        let ([map, source, ..], x) = (self.mapped(), self.normal([self.tokens, self.hidden]));
        vec![call(ops::Permute { probs: true, drop_zero: false }, [x, map, source, self.pairs()])]
    }

    /// The gradients of the tokens and of the probabilities.
    fn permute_grad(&self) -> Vec<Call> {
        let ([map, source, ..], gy) = (self.mapped(), self.normal([self.rows(), self.hidden]));
        let gpy = normal(DType::F32, [self.rows()]);
        vec![
            call(ops::Unpermute, [gy, map.clone(), source]),
            call(ops::PairProbs { experts: self.experts }, [gpy, map]),
        ]
    }

    fn unpermute(&self) -> Vec<Call> {
        let ([map, source, ..], y) = (self.mapped(), self.normal([self.rows(), self.hidden]));
        vec![call(ops::Unpermute, [y, map, source, self.pairs()])]
    }

    fn unpermute_grad(&self) -> Vec<Call> {
        let ([map, source, ..], y) = (self.mapped(), self.normal([self.rows(), self.hidden]));
        let gz = self.normal([self.tokens, self.hidden]);
        vec![call(ops::UnpermuteGrad, [y, map, source, self.pairs(), gz])]
    }

    /// As many chunks as experts, every other one three times as long as its neighbours, in a random order.
    fn chunks(&self) -> Call {
        let mean = self.tokens / self.experts;
        let sizes = (0..self.experts).map(|i| (mean - mean / 2 + i % 2 * (mean / 2 * 2)) as f64).collect();
        let shuffle = Shuffle::new(self.experts as u64, 2021, 0);
        let order = (0..self.experts as u64).filter_map(|i| shuffle.index(i)).map(|i| i as f64).collect();
        let list = |values| exact(DType::I32, [self.experts], values);
        call(ops::ChunkMap { rows: self.tokens }, [list(sizes), list(order)])
    }

    fn chunk_map(&self) -> Vec<Call> {
        vec![self.chunks()]
    }

    fn sort_chunks(&self) -> Vec<Call> {
        let d = result([self.tokens], Arc::new(self.chunks()), 0);
        let (x, p) = (self.normal([self.tokens, self.hidden]), normal(DType::F32, [self.tokens]));
        vec![call(ops::SortChunks { probs: true, inverse: false }, [x, d, p])]
    }

    /// The yardstick of the row movers: a copy that moves as many bytes of rows as a permutation of this layer, which
    /// reads `tokens` rows and writes `tokens · chosen`. With one expert a token, those of a sort of chunks.
    fn copy(&self) -> Vec<Call> {
        vec![call(ops::Copy, [self.normal([self.tokens * (self.chosen + 1) / 2, self.hidden])])]
    }

    fn grouped_matmul(&self) -> Vec<Call> {
        let ([_, _, counts, offsets], x) = (self.mapped(), self.normal([self.rows(), self.hidden]));
        let w = self.normal([self.experts, self.hidden, self.columns]);
        vec![call(ops::GroupedMatMul, [x, w, counts, offsets])]
    }

    /// The yardstick of the product by expert: all rows with one matrix.
    fn plain_matmul(&self) -> Vec<Call> {
        let x = self.normal([self.rows(), self.hidden]);
        vec![call(ops::MatMul::default(), [x, self.normal([self.hidden, self.columns])])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(spread: Spread) -> Vec<f64> {
        let (tokens, experts) = (4096, 16);
        let layer = Layer { spread, dtype: DType::F32, tokens, hidden: 1, experts, chosen: 3, columns: 1 };
        let routed = layer.choices();
        for cells in routed.chunks_exact(experts) {
            assert_eq!(cells.iter().sum::<f64>(), 3.0, "{spread:?}: {cells:?}");
        }
        (0..experts).map(|e| routed.iter().skip(e).step_by(experts).sum()).collect()
    }

    #[test]
    fn each_token_has_its_experts_as_they_are_spread() {
        // 768 tokens each on average.
        assert_eq!(counts(Spread::Balanced), [768.0; 16]);
        // Four standard deviations (25) of a uniform choice.
        assert!(counts(Spread::Uniform).iter().all(|c| (c - 768.0).abs() < 100.0));
        let zipf = counts(Spread::Zipf);
        assert!(zipf[0] > 2.0 * zipf[3] && zipf[3] > 2.0 * zipf[15] && zipf[15] > 0.0, "{zipf:?}");
    }
}
