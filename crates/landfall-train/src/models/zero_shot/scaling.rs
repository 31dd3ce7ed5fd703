//! The scale of a window: what a network sees of it does not depend on its units.

use landfall::{Error, Graph, Keep, Value};

/// A window of positive values, of which the largest is less than this many times the smallest, is seen in logarithms: what grows or
/// varies in proportion does so evenly there. Others, such as demand near 0, are seen as they are.
pub const RATIO: f64 = 50.0;

/// A spread below this share of the largest value is that of a constant, within the rounding of f32.
const FLAT: f64 = 1e-5;

/// The largest distance of a target from the mean, in deviations.
const FAR: f64 = 1e3;

/// Windows `[B, R]` in their own units: `asinh((x − mean)/deviation)` over the known values.
///
/// Values are first divided by the largest of their absolute values, so that no square overflows. The deviation of a constant is that largest
/// value, of zeros 1.
#[derive(Debug, Clone, Copy)]
pub struct Scaled {
    /// The scaled context, 0 where a value is missing.
    pub context: Value,
    /// Largest absolute value `[B, 1]`.
    largest: Value,
    /// Mean and deviation over it.
    mean: Value,
    deviation: Value,
}

/// The scale of windows `x` `[B, R]`, which may hold NaN where `known` `[B, R]`, of ones and zeros, is 0.
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn scaled(g: &Graph, x: Value, known: Value) -> Result<Scaled, Error> {
    let zero = g.scalar(x, 0.0)?;
    let x = g.select(g.greater(known, zero)?, x, zero)?;
    let largest = g.max(g.abs(x)?, Keep(1))?;
    let one = g.scalar(x, 1.0)?;
    let largest = g.select(g.greater(largest, zero)?, largest, one)?;
    let unit = g.div(x, largest)?;
    let count = g.maximum(g.sum(known, Keep(1))?, one)?;
    let mean = g.div(g.sum(unit, Keep(1))?, count)?;
    let centred = g.mul(g.sub(unit, mean)?, known)?;
    let deviation = g.sqrt(g.div(g.sum(g.square(centred)?, Keep(1))?, count)?)?;
    let deviation = g.select(g.greater(deviation, g.scalar(x, FLAT)?)?, deviation, one)?;
    let context = asinh(g, g.div(centred, deviation)?)?;
    Ok(Scaled { context: g.name(context, "scaled"), largest, mean, deviation })
}

/// Contexts `x` `[B, R]` and what follows them, `y` `[B, H]`: `ln(1 + (v − low)/low)` of windows whose `known` values are positive and within
/// [`RATIO`], `low` the smallest of them. What follows counts as a hundredth of that at least. `chosen` `[B, 1]` tells which windows may be
/// seen so; all if left out.
///
/// # Errors
/// Shapes or dtypes that differ.
#[track_caller]
pub fn in_logarithms(
    g: &Graph,
    [x, y, known]: [Value; 3],
    chosen: Option<Value>,
) -> Result<[Value; 2], Error> {
    let (zero, one) = (g.scalar(x, 0.0)?, g.scalar(x, 1.0)?);
    let seen = g.greater(known, zero)?;
    let low = g.min(g.select(seen, x, g.scalar(x, f64::from(f32::MAX))?)?, Keep(1))?;
    let high = g.max(g.select(seen, x, zero)?, Keep(1))?;
    // Of a window of which nothing is known the smallest is above the largest.
    let within = g.and(g.less_equal(low, high)?, g.less(high, g.affine(low, RATIO, 0.0)?)?)?;
    let all = g.and(g.greater(low, zero)?, within)?;
    let all = chosen.map_or(Ok(all), |chosen| g.and(all, chosen))?;
    let low = g.select(all, low, one)?;
    let of = |v: Value, least: Value| {
        let relative = g.div(g.sub(g.maximum(v, least)?, low)?, low)?;
        g.select(all, g.log1p(relative)?, v)
    };
    Ok([of(x, low)?, of(y, g.affine(low, 0.01, 0.0)?)?])
}

impl Scaled {
    /// Values `[B, H]` of the same windows in these units, no further from the mean than 1,000 deviations.
    ///
    /// # Errors
    /// Shapes or dtypes that differ.
    #[track_caller]
    pub fn targets(&self, g: &Graph, y: Value) -> Result<Value, Error> {
        let far = g.div(g.sub(g.div(y, self.largest)?, self.mean)?, self.deviation)?;
        asinh(g, g.clamp(far, -FAR, FAR)?)
    }

    /// Scaled values `[B, ..]` in the units of the windows.
    ///
    /// # Errors
    /// Shapes or dtypes that differ.
    #[track_caller]
    pub fn original(&self, g: &Graph, scaled: Value) -> Result<Value, Error> {
        let shape = g.shape(scaled);
        let wide = |v: Value| g.reshape(v, (1..shape.rank()).fold(shape, |s, axis| s.with(axis, 1)));
        let unit = g.add(g.mul(sinh(g, scaled)?, wide(self.deviation)?)?, wide(self.mean)?)?;
        g.mul(unit, wide(self.largest)?)
    }
}

/// `asinh x = sign(x)·ln(1 + |x| + x²/(1 + √(x² + 1)))`, which does not cancel near 0.
pub(in crate::models) fn asinh(g: &Graph, x: Value) -> Result<Value, Error> {
    let (size, square) = (g.abs(x)?, g.square(x)?);
    let root = g.affine(g.sqrt(g.affine(square, 1.0, 1.0)?)?, 1.0, 1.0)?;
    g.mul(g.sign(x)?, g.log1p(g.add(size, g.div(square, root)?)?)?)
}

/// `sinh x = (eˣ − e⁻ˣ)/2`.
pub(in crate::models) fn sinh(g: &Graph, x: Value) -> Result<Value, Error> {
    g.affine(g.sub(g.exp(x)?, g.exp(g.neg(x)?)?)?, 0.5, 0.0)
}
