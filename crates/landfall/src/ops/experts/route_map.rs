//! The compact map of a routing: which row of the permuted buffer each pair of a token and an expert has.

mod cuda;

use super::routing::Index;
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::Call;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec};

op_list! { RouteMap }

/// Experts at most: a block on a GPU keeps the first row of each in shared memory.
const EXPERTS: usize = 4096;

op_attributes! {
    /// Numbers the rows of a mixture-of-experts' permuted buffer: pair (t, e) has row `R(t, e) = base_e + ρ(t, e)`, where
    /// `ρ(t, e)` is the number of tokens before t that go to e, `base_e = Σ_{e' < e} ĉ_e'`, and `ĉ_e = align · ⌈c_e / align⌉` for
    /// the `c_e` tokens of e. So rows are grouped by expert, and within one the tokens keep their order.
    ///
    /// `routed`: `[T, E]`, bool, u8, i32 or i64; token t goes to expert e where it is not 0. Results, all of the dtype `index`:
    ///
    /// | | shape | holds |
    /// |---|---|---|
    /// | `map` | `[T, 2·most + 1]` | for each token the rows of its pairs, from the highest expert down; their experts; how many they are. Cells without a pair are −1 |
    /// | `source` | `[rows]` | the inverse: `t · most + j` for the row of the j-th pair of token t, −1 for a row without a pair |
    /// | `counts` | `[E]` | the rows of each expert that hold a pair |
    /// | `offsets` | `[E + 1]` | the first row of each expert; behind them the end of the last |
    ///
    /// A pair whose row is not below `rows` is dropped: it is in no result, and offsets end at `rows`. So whoever follows the
    /// map is in bounds. A token with more than `most` experts keeps the highest ones, and the next read on the host returns
    /// `Error::Index` with the token, and how many it had. Integers throughout; disjoint; no gradient; deterministic.
    /// Errors: another dtype or rank, no expert or more than 4,096, `most` of 0 or above E, `align` of 0, no row where there
    /// are tokens, numbers that `index` does not hold. Source: Lepikhin et al., "GShard" (2020); Gale et al., "MegaBlocks" (2022).
    ///
    /// ```
    /// use landfall::{DType::I32, Engine, ops::{Index, RouteMap}};
    /// let engine = Engine::cpu()?;
    /// let op = RouteMap { most: 1, rows: 3, align: 1, index: Index::I32 };
    /// let routed = engine.tensor([3, 2], &[0u8, 1, 1, 0, 0, 1])?;
    /// let mut out = [[3, 3].to_vec(), vec![3], vec![2], vec![3]]
    ///     .map(|s| engine.empty(I32, landfall::Shape::new(&s).unwrap()).unwrap());
    /// engine.reserve(engine.workspace(&op, &[routed.spec()])?)?;
    /// let [map, source, counts, offsets] = &mut out;
    /// let outputs = &mut [map.view_mut(), source.view_mut(), counts.view_mut(), offsets.view_mut()];
    /// engine.call(&op, &[routed.view()], outputs)?;
    /// // Token 1 is the one of expert 0; tokens 0 and 2 are those of expert 1.
    /// assert_eq!(out[0].read::<i32>()?, [1, 1, 1, 0, 0, 1, 2, 1, 1]);
    /// assert_eq!(out[1].read::<i32>()?, [1, 0, 2]);
    /// assert_eq!(out[2].read::<i32>()?, [1, 2]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct RouteMap(routed) {
        /// The most experts of a token.
        pub most: usize = 2 => required,
        /// Rows of the permuted buffer: its capacity.
        pub rows: usize = 64 => required,
        /// Each expert's rows start at a multiple of this: 1 where they follow each other without gaps.
        pub align: usize = 1,
        /// Dtype of the results.
        pub index: Index = Index::I32,
    }
}

impl RouteMap {
    fn check(&self, tokens: usize, experts: usize) -> Result<(), Rule> {
        let attribute =
            |name, value: usize, expected| Err(Rule::Attribute { name, value: value as f64, expected });
        if !(1..=EXPERTS).contains(&experts) {
            return attribute("the number of experts", experts, "from 1 to 4096");
        }
        if self.most == 0 || self.most > experts {
            return attribute("most", self.most, "at least 1 and at most the number of experts");
        }
        if !(1..1 << 31).contains(&self.align) {
            return attribute("align", self.align, "at least 1 and less than 2^31");
        }
        if self.rows == 0 && tokens > 0 {
            return attribute("rows", 0, "at least 1 where there are tokens");
        }
        let pairs = tokens.saturating_mul(self.most);
        if tokens >= 1 << 31 {
            return attribute("the number of tokens", tokens, "less than 2^31");
        }
        if self.index == Index::I32 && pairs.max(self.rows) >= 1 << 31 {
            return attribute("the number of rows or pairs", pairs.max(self.rows), "less than 2^31 for i32");
        }
        Ok(())
    }

    fn padded(&self, count: usize) -> usize {
        count.div_ceil(self.align) * self.align
    }
}

impl Op for RouteMap {
    fn name(&self) -> &'static str {
        "route_map"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let [routed]: [Spec; 1] = rules::arity(self, args)?;
        if !matches!(routed.dtype, DType::Bool | DType::U8 | DType::I32 | DType::I64) {
            return Err(Rule::Dtype { arg: 0, dtype: routed.dtype, expected: "bool, u8, i32 or i64" });
        }
        let &[tokens, experts] = routed.shape.dims() else {
            return Err(Rule::Rank { arg: 0, rank: routed.shape.rank(), expected: "2" });
        };
        self.check(tokens, experts)?;
        let spec = |shape: &[usize]| match *shape {
            [a, b] => Spec::new(self.index.dtype(), [a, b]),
            _ => Spec::new(self.index.dtype(), [shape[0]]),
        };
        Ok(Outputs::from([
            spec(&[tokens, 2 * self.most + 1]),
            spec(&[self.rows]),
            spec(&[experts]),
            spec(&[experts + 1]),
        ]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 4]
    }
    fn body(&self) -> Body {
        Body::Opaque("a row's number is a count over tokens")
    }
    fn vjp(&self) -> Grad {
        Grad::Zero
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("route_map", |op, call| {
                    let op = attributes::<RouteMap>(op)?;
                    match op.index {
                        Index::I32 => routed::<i32>(op, call),
                        Index::I64 => routed::<i64>(op, call),
                    }
                })
                .with_workspace(|_, args| args[0].shape.last() * size_of::<i64>()),
                Kernel::cuda("route_map", cuda::route_map).with_workspace(cuda::workspace),
            ]
        }
    }
}

impl Tested for RouteMap {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (t, e, k) = (args[0].dims()[0], args[0].dims()[1], self.most);
        let Ok(specs) = self.infer(&[args[0].spec]) else { return Vec::new() };
        let mut out: Vec<HostTensor> = specs.iter().map(|&s| HostTensor::from_fn(s, |_| -1.0)).collect();
        // The experts that each token keeps, from the highest down.
        let kept = |token: usize| {
            (0..e).rev().filter(move |&x| args[0].data[token * e + x] != 0.0).take(k).collect::<Vec<_>>()
        };
        let count = |x| (0..t).filter(|&token| kept(token).contains(&x)).count();
        let mut base = 0;
        for x in 0..e {
            out[2].data[x] = ((base + count(x)).min(self.rows) - base.min(self.rows)) as f64;
            out[3].data[x] = base.min(self.rows) as f64;
            let takers = (0..t).filter(|&token| kept(token).contains(&x));
            for (row, token) in (base..self.rows).zip(takers) {
                out[1].data[row] = (token * k) as f64; // Its place among the token's pairs is added below.
            }
            base += self.padded(count(x));
        }
        out[3].data[e] = base.min(self.rows) as f64;
        for token in 0..t {
            let mut n = 0;
            for x in kept(token) {
                let (from, rows) = (out[3].data[x] as usize, out[2].data[x] as usize);
                let mine = (from..from + rows).find(|&r| out[1].data[r] as usize / k == token);
                let Some(row) = mine else { continue };
                out[0].data[token * (2 * k + 1) + n] = row as f64;
                out[0].data[token * (2 * k + 1) + k + n] = x as f64;
                out[1].data[row] += n as f64;
                n += 1;
            }
            out[0].data[token * (2 * k + 1) + 2 * k] = n as f64;
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let case = |(t, e, most, rows, align), index| {
            Sample::new(Self { most, rows, align, index }, vec![routing(t, e, most)])
        };
        let mut all: Vec<Sample> = [
            // No token; one pair; an expert with no token, a token with none, one with all; E beside powers of two.
            (0, 3, 2, 4, 1),
            (0, 1, 1, 0, 1),
            (1, 1, 1, 1, 1),
            (7, 4, 4, 28, 1),
            (9, 5, 3, 40, 1),
            (33, 5, 3, 128, 8),
            // Padding where all, and where no count divides it; more tiles than one, groups and words that are not full.
            (64, 8, 8, 512, 16),
            (65, 33, 4, 400, 16),
            (200, 64, 2, 8800, 128),
            (300, 70, 6, 1800, 1),
            // Pairs below, equal to and above the capacity, whose last row is within an expert, or within its padding.
            (64, 7, 3, 37, 1),
            (64, 7, 3, 1, 1),
            (100, 4, 2, 70, 8),
            // More pairs of a tile than a block on a GPU sorts.
            (33, 260, 260, 8600, 1),
        ]
        .map(|sizes| case(sizes, Index::I32))
        .into();
        all.push(case((70, 9, 3, 200, 4), Index::I64));
        // Tiles of more groups than one pass takes.
        all.push(case((33_000, 3, 1, 33_000, 1), Index::I32));
        let routing_of = |dtype| SampleArg::with(Some(dtype), [4, 8], Data::Int(0, 2));
        let bad = |most, rows, align, shape: &[usize], text| {
            let shape = Shape::new(shape).unwrap_or(Shape::SCALAR);
            let arg = SampleArg::with(Some(DType::Bool), shape, Data::Int(0, 2));
            Sample::bad(Self { most, rows, align, index: Index::I32 }, vec![arg], text)
        };
        all.extend([
            bad(3, 4, 1, &[4, 2], "most is 3; it must be at least 1 and at most the number"),
            bad(0, 4, 1, &[4, 2], "most is 0; it must be at least 1"),
            bad(1, 0, 1, &[4, 2], "rows is 0; it must be at least 1 where there are tokens"),
            bad(1, 4, 0, &[4, 2], "align is 0; it must be at least 1"),
            bad(1, 1 << 31, 1, &[4, 2], "must be less than 2^31 for i32"),
            bad(1, 4, 1, &[4, 0], "the number of experts is 0; it must be from 1 to 4096"),
            bad(1, 4, 1, &[4], "arg 0 has rank 1; it must be 2"),
            Sample::bad(*self, vec![routing_of(DType::F32)], "it must be bool, u8, i32 or i64"),
        ]);
        all
    }
}

/// A routing for samples: expert 1 has no token, token 3 no expert, token 5 as many as it may, others a varying number.
pub(in crate::ops) fn routing(tokens: usize, experts: usize, most: usize) -> SampleArg {
    let mut data = vec![0.0; tokens * experts];
    for t in 0..tokens {
        let wanted = match t {
            3 => 0,
            5 => most,
            _ => most - (t * t / 3) % (most / 2 + 1),
        };
        // Steps through the experts from a scattered start.
        let (start, step) = (t.wrapping_mul(2_654_435_761) >> 7, if experts > 4 { 3 } else { 1 });
        let mut left = wanted;
        for i in 0..experts {
            let e = (start + i * step + i * step / experts) % experts;
            if left > 0
                && (e != 1 || t == 5 && most == experts || experts == 1)
                && data[t * experts + e] == 0.0
            {
                data[t * experts + e] = 1.0;
                left -= 1;
            }
        }
    }
    SampleArg::with(None, [tokens, experts], Data::Exact(data))
}

fn routed<I: Element>(op: &RouteMap, call: &Call<'_>) -> Result<(), Rule> {
    match call.dtype(0)? {
        DType::Bool | DType::U8 => build::<u8, I>(op, call),
        DType::I32 => build::<i32, I>(op, call),
        DType::I64 => build::<i64, I>(op, call),
        dtype @ (DType::F32 | DType::F64 | DType::BF16 | DType::F16) => {
            Err(Rule::Dtype { arg: 0, dtype, expected: "bool, u8, i32 or i64" })
        }
    }
}

fn build<M: Element, I: Element>(op: &RouteMap, call: &Call<'_>) -> Result<(), Rule> {
    let routed = call.input::<M>(0)?;
    let (mut map, mut source) = (call.output::<I>(0)?, call.output::<I>(1)?);
    let (mut counts, mut offsets) = (call.output::<I>(2)?, call.output::<I>(3)?);
    let (tokens, experts, k) = (routed.outer(), routed.cols(), op.most);
    let number = |n: usize| I::from_f64(n as f64);
    let chosen = |t: usize| {
        let row = routed.row(t);
        (0..experts).rev().filter(move |&e| row.get(e).to_f64() != 0.0)
    };
    let next = &mut call.workspace::<i64>()?[..experts];
    next.fill(0);
    for t in 0..tokens {
        let mut n = 0;
        for e in chosen(t) {
            n += 1;
            if n <= k {
                next[e] += 1;
            }
        }
        if n > k {
            call.flag(t, n as i64, k + 1);
        }
    }
    let mut base = 0;
    for (e, next) in next.iter_mut().enumerate() {
        let count = *next as usize;
        counts.set_flat(e, number((base + count).min(op.rows) - base.min(op.rows)));
        offsets.set_flat(e, number(base.min(op.rows)));
        *next = base as i64;
        base += op.padded(count);
    }
    offsets.set_flat(experts, number(base.min(op.rows)));
    source.fill(I::from_f64(-1.0));
    for t in 0..tokens {
        let mut cells = map.row_mut(t);
        cells.fill(I::from_f64(-1.0));
        let mut n = 0;
        for e in chosen(t).take(k) {
            let row = next[e] as usize;
            next[e] += 1;
            if row < op.rows {
                cells.set(n, number(row));
                cells.set(k + n, number(e));
                source.set_flat(row, number(t * k + n));
                n += 1;
            }
        }
        cells.set(2 * k, number(n));
    }
    Ok(())
}
