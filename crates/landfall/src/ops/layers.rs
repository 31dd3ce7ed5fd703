//! Layers that are a few ops each, with their gradients through those ops: convolution and pooling over windows, interpolation, norms, rotary
//! positions, gates.

use crate::contract::{Graph, Value, attribute_choices, rules};
use crate::error::Error;
use crate::ops;
use crate::values::{Axis, DType, Keep, Rule, Shape, Spec};
use std::panic::Location;

/// Windows along the last axis, for convolution and pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Elements of a window.
    pub size: usize,
    /// Distance between the starts of two windows.
    pub stride: usize,
    /// Elements put before and after the axis.
    pub padding: usize,
    /// Distance between two elements of a window.
    pub dilation: usize,
}

impl Windows {
    /// Windows of `size` neighbours, one for each element, without padding.
    #[must_use]
    pub fn of(size: usize) -> Self {
        Self { size, stride: 1, padding: 0, dilation: 1 }
    }

    /// The same, their starts `stride` apart.
    #[must_use]
    pub fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// The same over an axis with `padding` elements before and after it.
    #[must_use]
    pub fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    /// The same of elements that are `dilation` apart.
    #[must_use]
    pub fn dilation(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }
}

/// How [`Graph::interpolate`] finds what stands between elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interpolation {
    /// The element before it.
    #[default]
    Nearest,
    /// In proportion between the two elements beside it.
    Linear,
}

attribute_choices!(Interpolation: Nearest = "nearest", Linear = "linear");

impl Graph {
    /// The last axis cut into windows, `[.., n, size]`: a view of `x`, or of a copy with `fill` around it.
    #[track_caller]
    fn windows(&self, op: &'static str, x: Value, w: Windows, fill: f64) -> Result<Value, Error> {
        let at = Location::caller();
        let spec = self.spec(x);
        let refused = |name, value: usize, expected| {
            let value = value as f64;
            Error::from(Rule::Attribute { name, value, expected }.of(op, &[spec], None, Some(at)))
        };
        for (name, value) in [("window", w.size), ("stride", w.stride), ("dilation", w.dilation)] {
            if value == 0 {
                return Err(refused(name, value, "at least 1"));
            }
        }
        let Some(axis) = spec.shape.rank().checked_sub(1) else {
            return Err(Rule::Rank { arg: 0, rank: 0, expected: "at least 1" }
                .of(op, &[spec], None, Some(at))
                .into());
        };
        let span = (w.size - 1).saturating_mul(w.dilation).saturating_add(1);
        let padded = w.padding.saturating_mul(2).saturating_add(spec.shape.last());
        spec.shape.with(axis, padded).bounded().map_err(|rule| rule.of(op, &[spec], None, Some(at)))?;
        if padded < span {
            return Err(refused("span of the window", span, "at most the padded length"));
        }
        let around = |x| self.op1(ops::Pad { axis, before: w.padding, after: w.padding }, &[x]);
        let x = match (w.padding, fill) {
            (0, _) => x,
            (_, 0.0) => around(x)?,
            _ => {
                let edge = self.fill(spec.dtype, spec.shape.with(axis, w.padding), fill)?;
                self.concat(&[edge, x, edge], axis)?
            }
        };
        let windows = self.unfold(x, span, w.stride)?;
        if w.dilation == 1 { Ok(windows) } else { self.slice_step(windows, -1, 0, w.size, w.dilation) }
    }

    /// Cross-correlation over the last axis, as the layers called convolution compute it:
    /// `out[b, o, i] = Σ_c Σ_k weight[o, c, k] · x[b, g + c, i·stride + k·dilation − padding] (+ bias[o])`.
    ///
    /// `x`: `[B, C, L]`, `weight`: `[O, C/groups, K]`, `bias`: `[O]`; `windows.size` must be `K`. Result: `[B, O, L']`. Each group of
    /// output channels reads its own group of input channels. Memory: the windows are copied once, `K/stride` times `x`. Source:
    /// PyTorch's `conv1d`.
    ///
    /// ```
    /// use landfall::{DType, Graph, StateSpec, Windows};
    /// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
    /// let x = g.input("x", DType::F32, [8, 3, 96]);
    /// let weight = g.input("weight", DType::F32, [16, 3, 5]);
    /// let y = g.conv1d(x, weight, None, Windows::of(5).padding(2).stride(2), 1)?;
    /// assert_eq!(g.shape(y).dims(), [8, 16, 48]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes as above; channels must be multiples of `groups`; a window must fit.
    #[track_caller]
    pub fn conv1d(
        &self,
        x: Value,
        weight: Value,
        bias: Option<Value>,
        windows: Windows,
        groups: usize,
    ) -> Result<Value, Error> {
        let (specs, at) = (self.specs(&[x, weight]), Location::caller());
        let refused = |rule: Rule| Error::from(rule.of("conv1d", &specs, None, Some(at)));
        for (arg, spec) in specs.iter().enumerate() {
            let rank = spec.shape.rank();
            if rank != 3 {
                return Err(refused(Rule::Rank { arg, rank, expected: "3" }));
            }
        }
        let ([batch, channels, _], [outputs, of_group, _]) = (three(&specs[0].shape), three(&specs[1].shape));
        if groups == 0 || channels % groups != 0 || outputs % groups != 0 {
            let (value, expected) = (groups as f64, "a divisor of the numbers of channels");
            return Err(refused(Rule::Attribute { name: "groups", value, expected }));
        }
        let expected = Shape::from([outputs, channels / groups, windows.size]);
        if specs[1].shape != expected {
            return Err(refused(Rule::ArgShape { arg: 1, shape: specs[1].shape, expected }));
        }
        // [B, C, n, K] → [g, B·n, C/g·K], one product for each group.
        let cut = self.windows("conv1d", x, windows, 0.0)?;
        let n = self.shape(cut).dims()[2];
        let cut = self.reshape(cut, [batch, groups, of_group, n, windows.size])?;
        let width = of_group * windows.size;
        let rows = self.reshape(self.permute(cut, &[1, 0, 3, 2, 4])?, [groups, batch * n, width])?;
        let weight = self.transpose(self.reshape(weight, [groups, outputs / groups, width])?)?;
        let dtype = specs[0].dtype;
        // With a bias to add, sums are rounded with it.
        let op = ops::MatMul { wide: bias.is_some() && dtype.accumulate() != dtype, ..Default::default() };
        let mut product = if groups == 1 {
            let factors = [self.reshape(rows, [batch * n, width])?, self.reshape(weight, [width, outputs])?];
            self.op1(op, &factors)?
        } else {
            self.op1(op, &[rows, weight])?
        };
        product = self.reshape(product, [groups, batch, n, outputs / groups])?;
        product = self.reshape(self.permute(product, &[1, 0, 3, 2])?, [batch, outputs, n])?;
        match bias {
            Some(bias) => {
                let bias = self.cast(self.reshape(bias, [outputs, 1])?, self.spec(product).dtype)?;
                self.cast(self.add(product, bias)?, dtype)
            }
            None => Ok(product),
        }
    }

    /// Largest element of each window of the last axis, `[.., n]`; padding counts as −∞. Equal elements share the gradient.
    ///
    /// # Errors
    /// A window must fit; `x` must be of a float dtype.
    #[track_caller]
    pub fn max_pool(&self, x: Value, windows: Windows) -> Result<Value, Error> {
        self.max(self.windows("max_pool", x, windows, f64::NEG_INFINITY)?, -1)
    }

    /// Mean of each window of the last axis, `[.., n]`; padding counts as zeros.
    ///
    /// # Errors
    /// As of [`Graph::max_pool`].
    #[track_caller]
    pub fn mean_pool(&self, x: Value, windows: Windows) -> Result<Value, Error> {
        self.mean(self.windows("mean_pool", x, windows, 0.0)?, -1)
    }

    /// `size` elements along an axis from its `n`, as PyTorch's `interpolate` of one axis: nearest element `i` is element `⌊i·n/size⌋`;
    /// linear it stands at place `(i + ½)·n/size − ½`, or with `align_corners` at `i·(n − 1)/(size − 1)`, so that the ends stay. Places
    /// before the first element are the first one's, those behind the last one the last one's.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Interpolation, Program, State, StateSpec};
    /// let (engine, spec) = (Engine::cpu()?, std::sync::Arc::new(StateSpec::new()));
    /// let (mut state, g) = (State::new(&engine, &spec)?, Graph::new(&spec));
    /// let x = g.input("x", DType::F32, [1, 3]);
    /// g.output("y", g.interpolate(x, -1, 5, Interpolation::Linear, true)?);
    /// let mut program = Program::compile(&engine, &state, "interpolate", &g)?;
    /// program.write("x", &[1.0f32, 3.0, 2.0])?;
    /// program.run(&mut state)?;
    /// assert_eq!(program.read::<f32>("y")?, [1.0, 2.0, 3.0, 2.5, 2.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// The axis must exist and not be empty, nor the result; linear, `x` must be of a float dtype; corners are of linear alone.
    #[track_caller]
    pub fn interpolate(
        &self,
        x: Value,
        axis: impl Axis,
        size: usize,
        mode: Interpolation,
        align_corners: bool,
    ) -> Result<Value, Error> {
        let (spec, at) = (self.spec(x), Location::caller());
        let axis = self.axis("interpolate", x, axis)?;
        let n = spec.shape.dims()[axis];
        let refused = |name, value: f64, expected| {
            Error::from(Rule::Attribute { name, value, expected }.of("interpolate", &[spec], None, Some(at)))
        };
        for (name, value) in [("size of the axis", n), ("size", size)] {
            if value == 0 {
                return Err(refused(name, 0.0, "at least 1"));
            }
        }
        match mode {
            Interpolation::Nearest if align_corners => Err(refused(
                "align_corners",
                1.0,
                "false of nearest elements, which have no places between them",
            )),
            // The floor of a quotient of whole numbers, rounded to f64, is that of the quotient.
            Interpolation::Nearest => {
                let places = self.arange(DType::F64, 0.0, n as f64, size)?;
                let places = self.div(places, self.scalar(places, size as f64)?)?;
                self.take(x, axis, self.cast(places, DType::I64)?)
            }
            Interpolation::Linear => self.composed("interpolate", [x], |[x]| {
                let (first, step) = if align_corners {
                    (0.0, (n - 1) as f64 / size.saturating_sub(1).max(1) as f64)
                } else {
                    let step = n as f64 / size as f64;
                    (0.5 * step - 0.5, step)
                };
                let places = self.clamp(self.arange(DType::F64, first, step, size)?, 0.0, (n - 1) as f64)?;
                let before = self.cast(places, DType::I64)?;
                let last = self.scalar(before, (n - 1) as f64)?;
                let behind = self.minimum(self.add(before, self.scalar(before, 1.0)?)?, last)?;
                let part = self.sub(places, self.cast(before, DType::F64)?)?;
                let mut column = Shape::from([size]);
                (axis + 1..spec.shape.rank()).for_each(|_| column.push(1));
                let part = self.reshape(self.cast(part, self.spec(x).dtype)?, column)?;
                let near = self.mul(self.take(x, axis, before)?, self.affine(part, -1.0, 1.0)?)?;
                self.add(near, self.mul(self.take(x, axis, behind)?, part)?)
            }),
        }
    }

    /// `x·Φ(x)` with the normal distribution function ([`ops::Gelu`]; its approximation by tanh is an attribute of the op).
    ///
    /// # Errors
    /// `x` must be of a float dtype.
    #[track_caller]
    pub fn gelu(&self, x: Value) -> Result<Value, Error> {
        self.op1(ops::Gelu::default(), &[x])
    }

    /// `(x − mean) / √(variance + eps) · weight + bias` over the last axis, `weight` and `bias` `[d]` ([`ops::LayerNorm`]).
    ///
    /// # Errors
    /// `x` must be of a float dtype and have an axis; shapes as above.
    #[track_caller]
    pub fn layer_norm(&self, x: Value, weight: Value, bias: Value, eps: f64) -> Result<Value, Error> {
        Ok(self.op(ops::LayerNorm { eps }, &[x, weight, bias])?[0])
    }

    /// `x` with so many zeros before and after it along an axis ([`ops::Pad`]).
    ///
    /// # Errors
    /// The axis must exist.
    #[track_caller]
    pub fn pad(&self, x: Value, axis: impl Axis, before: usize, after: usize) -> Result<Value, Error> {
        let axis = self.axis("pad", x, axis)?;
        self.op1(ops::Pad { axis, before, after }, &[x])
    }

    /// `x / √(mean x² + eps) · weight` over the last axis, `weight` `[d]` (Zhang and Sennrich 2019).
    ///
    /// # Errors
    /// `x` must be of a float dtype and have an axis.
    #[track_caller]
    pub fn rms_norm(&self, x: Value, weight: Value, eps: f64) -> Result<Value, Error> {
        let (specs, at) = (self.specs(&[x, weight]), Location::caller());
        let d = specs[0].shape.last();
        rules::shape(&specs, 1, [d]).map_err(|rule| rule.of("rms_norm", &specs, None, Some(at)))?;
        self.composed("rms_norm", [x, weight], |[x, weight]| {
            let d = d.max(1) as f64;
            let unit = self.op1(ops::L2Norm { eps: eps * d, scaled: false }, &[x])?;
            self.mul(unit, self.affine(weight, d.sqrt(), 0.0)?)
        })
    }

    /// `(x − mean) / √(variance + eps) · weight + bias` over each group of channels and all that is behind them
    /// (Wu and He 2018).
    ///
    /// `x`: `[B, C, ..]`; `weight`, `bias`: `[C]`.
    ///
    /// # Errors
    /// The number of channels must be a multiple of `groups`; `x` must be of a float dtype and have two axes.
    #[track_caller]
    pub fn group_norm(
        &self,
        x: Value,
        groups: usize,
        weight: Value,
        bias: Value,
        eps: f64,
    ) -> Result<Value, Error> {
        let (spec, at) = (self.spec(x), Location::caller());
        let (rank, &[batch, channels, ref rest @ ..]) = (spec.shape.rank(), spec.shape.dims()) else {
            let rule = Rule::Rank { arg: 0, rank: spec.shape.rank(), expected: "at least 2" };
            return Err(rule.of("group_norm", &[spec], None, Some(at)).into());
        };
        if groups == 0 || channels % groups != 0 {
            let expected = "a divisor of the number of channels";
            let rule = Rule::Attribute { name: "groups", value: groups as f64, expected };
            return Err(rule.of("group_norm", &[spec], None, Some(at)).into());
        }
        let specs = self.specs(&[x, weight, bias]);
        for arg in [1, 2] {
            rules::shape(&specs, arg, [channels])
                .map_err(|rule| rule.of("group_norm", &specs, None, Some(at)))?;
        }
        self.composed("group_norm", [x, weight, bias], |[x, weight, bias]| {
            let width = channels / groups * rest.iter().product::<usize>();
            let rows = self.reshape(x, [batch, groups, width])?;
            let centered = self.sub(rows, self.mean(rows, Keep(-1))?)?;
            let spread =
                self.rsqrt(self.affine(self.mean(self.square(centered)?, Keep(-1))?, 1.0, eps)?)?;
            let normal = self.reshape(self.mul(centered, spread)?, spec.shape)?;
            let mut channel = Shape::from([channels]);
            (2..rank).for_each(|_| channel.push(1));
            self.add(self.mul(normal, self.reshape(weight, channel)?)?, self.reshape(bias, channel)?)
        })
    }

    /// Rotary positions (Su et al. 2021): feature `c` and feature `c + e/2` of a token at place `p` are turned by the angle
    /// `p · base^(−2c/e)`.
    ///
    /// `x`: `[B, N, h, e]`; `positions`: i64, broadcast to `[B, N]`.
    ///
    /// # Errors
    /// `x` must have four axes and an even number of features; `positions` must be i64.
    #[track_caller]
    pub fn rotary(&self, x: Value, positions: Value, base: f64) -> Result<Value, Error> {
        let (specs, at) = (self.specs(&[x, positions]), Location::caller());
        let refused = |rule: Rule| Error::from(rule.of("rotary", &specs, None, Some(at)));
        let Spec { dtype, shape } = specs[0];
        if shape.rank() != 4 {
            let expected = "4: [batch, tokens, heads, features]";
            return Err(refused(Rule::Rank { arg: 0, rank: shape.rank(), expected }));
        }
        if shape.last() % 2 != 0 {
            let value = shape.last() as f64;
            return Err(refused(Rule::Attribute { name: "number of features", value, expected: "even" }));
        }
        if specs[1].dtype != DType::I64 {
            return Err(refused(Rule::Dtype { arg: 1, dtype: specs[1].dtype, expected: "i64" }));
        }
        if !dtype.is_float() {
            return Err(refused(Rule::Dtype { arg: 0, dtype, expected: "f32, f64, bf16 or f16" }));
        }
        if !(base > 0.0 && base.is_finite()) {
            return Err(refused(Rule::Attribute {
                name: "base",
                value: base,
                expected: "finite and above 0",
            }));
        }
        let (wide, half) = (dtype.accumulate(), shape.last() / 2);
        let [batch, tokens, ..] = *shape.dims() else { return Err(refused(Rule::Axis { axis: 1, rank: 0 })) };
        let places = self.broadcast_to(self.cast(positions, wide)?, [batch, tokens])?;
        let powers = self.arange(wide, 0.0, -base.ln() / half as f64, half)?;
        let angles = self.mul(self.reshape(places, [batch, tokens, 1, 1])?, self.exp(powers)?)?;
        let (sin, cos) = (self.sin(angles)?, self.cos(angles)?);
        // Halves of a rotation, rounded before they are joined: fewer bytes move.
        let (low, high) = (self.slice(x, 3, 0, half)?, self.slice(x, 3, half, half)?);
        let turned = [
            self.composed("rotary", [low, high], |[low, high]| {
                self.sub(self.mul(low, cos)?, self.mul(high, sin)?)
            })?,
            self.composed("rotary", [low, high], |[low, high]| {
                self.add(self.mul(high, cos)?, self.mul(low, sin)?)
            })?,
        ];
        self.concat(&turned, 3)
    }

    /// `silu(gate) · x` (Shazeer 2020).
    ///
    /// # Errors
    /// Float arguments of one dtype whose shapes can be broadcast.
    #[track_caller]
    pub fn swiglu(&self, gate: Value, x: Value) -> Result<Value, Error> {
        let [gate, x] = self.broadcast_together("swiglu", [gate, x])?;
        self.op1(ops::Swiglu, &[gate, x])
    }

    /// The Walsh–Hadamard transform of the last axis over `√n`, which is its own inverse: `out = H·x/√n` with `H[i, j]` −1 where
    /// `i` and `j` have an odd number of common bits, else 1. By products with blocks of 32, so of few launches.
    ///
    /// # Errors
    /// The last size must be a power of two, `x` of a float dtype.
    #[track_caller]
    pub fn hadamard(&self, x: Value) -> Result<Value, Error> {
        /// Rows of a block.
        const BLOCK: usize = 32;
        let (spec, at) = (self.spec(x), Location::caller());
        let n = spec.shape.last();
        if spec.shape.rank() == 0 || !n.is_power_of_two() {
            let rule = Rule::Attribute { name: "last size", value: n as f64, expected: "a power of two" };
            return Err(rule.of("hadamard", &[spec], None, Some(at)).into());
        }
        if spec.dtype.accumulate() != spec.dtype {
            // A sum of 16 bits between two products would be rounded once more.
            return self.composed("hadamard", [x], |[x]| self.hadamard(x));
        }
        let all = spec.shape.elements();
        let (mut rows, mut done) = (self.affine(x, (n as f64).powf(-0.5), 0.0)?, 1);
        while done < n {
            // H of n·m is the product of H of n over one part of the index and H of m over the other.
            let block = BLOCK.min(n / done);
            let matrix = self.signs(spec.dtype, block)?;
            let parts = self.reshape(rows, [all / (block * done), block, done])?;
            rows = if done == 1 {
                self.matmul(self.reshape(parts, [all / block, block])?, matrix)?
            } else {
                self.transpose(self.matmul(self.transpose(parts)?, matrix)?)?
            };
            done *= block;
        }
        self.reshape(rows, spec.shape)
    }

    /// Hadamard's matrix of ±1.
    #[track_caller]
    fn signs(&self, dtype: DType, n: usize) -> Result<Value, Error> {
        let mut matrix = self.fill(dtype, [1, 1], 1.0)?;
        while self.shape(matrix).last() < n {
            let upper = self.concat(&[matrix, matrix], 1)?;
            let lower = self.concat(&[matrix, self.neg(matrix)?], 1)?;
            matrix = self.concat(&[upper, lower], 0)?;
        }
        Ok(matrix)
    }

    /// `x` with rows of `updates` at the indices of an axis: `out[.., index[j], ..] = updates[.., j, ..]`. Of equal indices the last
    /// one counts, on every device.
    ///
    /// `index`: `i64[m]`; `updates`: `x` with `m` rows along the axis. For sums instead see [`Graph::index_add`].
    ///
    /// # Errors
    /// The axis must exist; shapes as above; an index out of range is reported when the result is read.
    #[track_caller]
    pub fn scatter(&self, x: Value, axis: impl Axis, index: Value, updates: Value) -> Result<Value, Error> {
        let axis = self.axis("scatter", x, axis)?;
        let (specs, at) = (self.specs(&[x, index, updates]), Location::caller());
        let refused = |rule: Rule| Error::from(rule.of("scatter", &specs, None, Some(at)));
        if specs[1].dtype != DType::I64 || specs[1].shape.rank() != 1 {
            let Spec { dtype, shape } = specs[1];
            return Err(refused(if dtype == DType::I64 {
                Rule::Rank { arg: 1, rank: shape.rank(), expected: "1" }
            } else {
                Rule::Dtype { arg: 1, dtype, expected: "i64" }
            }));
        }
        let (rows, count) = (specs[0].shape.dims()[axis], specs[1].shape.last());
        let expected = specs[0].shape.with(axis, count);
        if specs[2].shape != expected {
            return Err(refused(Rule::ArgShape { arg: 2, shape: specs[2].shape, expected }));
        }
        if count == 0 {
            return Ok(x);
        }
        // Of each row 1 + the last place in the index that names it: in sorted order the end of each run of equal indices.
        let (sorted, places) = self.sort(index, 0, false)?;
        let ends =
            self.concat(&[self.slice(sorted, 0, 1, count - 1)?, self.fill(DType::I64, [1], -1.0)?], 0)?;
        let last = self.not_equal(sorted, ends)?;
        let one = self.scalar(places, 1.0)?;
        let named = self.select(last, self.add(places, one)?, self.scalar(places, 0.0)?)?;
        let named = self.index_add(self.fill(DType::I64, [rows], 0.0)?, 0, sorted, named)?;
        let taken =
            self.take(updates, axis, self.maximum(self.sub(named, one)?, self.scalar(named, 0.0)?)?)?;
        let mut column = Shape::SCALAR;
        (0..specs[0].shape.rank()).for_each(|a| column.push(if a == axis { rows } else { 1 }));
        let hit = self.reshape(self.greater(named, self.scalar(named, 0.0)?)?, column)?;
        self.select(hit, taken, x)
    }
}

fn three(shape: &Shape) -> [usize; 3] {
    [shape.dims()[0], shape.dims()[1], shape.dims()[2]]
}
