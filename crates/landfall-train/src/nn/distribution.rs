//! Distributions whose parameters a network predicts: their negative log-likelihoods as graph functions, and what a forecast is
//! made of.

use landfall::{Error, Graph, Rule, Value};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, DiscreteCDF, NegativeBinomial, Normal, StudentsT};
use std::f64::consts::PI;
use std::panic::Location;

/// Smallest scale parameter, in scaled units: a likelihood has no bound as the scale goes to 0.
const MIN_SCALE: f64 = 1e-3;
/// Degrees of freedom are above 2 by this at least, so that the variance is finite.
const MIN_FREEDOM: f64 = 0.01;
/// Smallest excess variance of a count, relative to the square of its mean.
const MIN_EXCESS: f64 = 1e-4;

/// A family of distributions.
///
/// A network predicts values `a, b, ..` for each row, from which the parameters follow; softplus(x) = ln(1 + eˣ). Scales are of
/// the difference b − a: networks that add the level of a window to all of their outputs (RevIN, NLinear) leave it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Normal: mean a, standard deviation s = softplus(b − a) + 0.001.
    Normal,
    /// Student's t with location a, scale s as above and ν = softplus(c − a) + 2.01 degrees of freedom.
    StudentT,
    /// Negative binomial, of counts: mean μ = softplus(a) + 0.001 and variance μ + μ²/r, with shape
    /// r = μ² / (softplus(b − a)² + 0.0001·μ²).
    NegativeBinomial,
}

/// Mean and negative log-likelihood of each row, as graph values.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Means `[B, C, H]`.
    pub mean: Value,
    /// Negative logarithms of the density, or the probability, of the targets `[B, C, H]`.
    pub nll: Value,
}

/// A distribution of each row, as graph values of its parameters.
#[derive(Debug, Clone, Copy)]
pub enum Distribution {
    /// A normal distribution.
    Normal {
        /// Mean.
        mean: Value,
        /// Standard deviation.
        s: Value,
    },
    /// Student's t.
    StudentT {
        /// Mean.
        mean: Value,
        /// Scale.
        s: Value,
        /// Degrees of freedom.
        nu: Value,
    },
    /// A negative binomial distribution.
    NegativeBinomial {
        /// Mean.
        mean: Value,
        /// Shape.
        r: Value,
    },
}

impl Distribution {
    fn mean(&self) -> Value {
        match *self {
            Self::Normal { mean, .. } | Self::StudentT { mean, .. } | Self::NegativeBinomial { mean, .. } => {
                mean
            }
        }
    }

    /// Negative logarithm of the density, or the probability, of each target; [`Family::terms`] has the formulas.
    #[track_caller]
    fn nll(&self, g: &Graph, target: Value) -> Result<Value, Error> {
        match *self {
            Self::Normal { mean: a, s } => {
                let z = g.div(g.sub(target, a)?, s)?;
                let half = g.affine(g.mul(z, z)?, 0.5, 0.5 * (2.0 * PI).ln())?;
                g.add(half, g.ln(s)?)
            }
            Self::StudentT { mean: a, s, nu } => {
                let z = g.div(g.sub(target, a)?, s)?;
                // With h = ν/2: ½ ln 2π + ½ − h·ln(1 + 1/2h) + e(h) − e(h + ½), e the errors of Stirling's formula.
                let (half, next) = (g.affine(nu, 0.5, 0.0)?, g.affine(nu, 0.5, 0.5)?);
                let apart = g.mul(half, g.log1p(g.recip(nu)?)?)?;
                let errors = g.sub(stirling_error(g, half)?, stirling_error(g, next)?)?;
                let gammas = g.affine(g.sub(errors, apart)?, 1.0, 0.5 + 0.5 * (2.0 * PI).ln())?;
                let tail = g.mul(next, g.log1p(g.div(g.mul(z, z)?, nu)?)?)?;
                g.add(g.add(gammas, g.ln(s)?)?, tail)
            }
            Self::NegativeBinomial { mean, r } => {
                // r·ln((μ + r)/(y + r)) + y·ln((μ + r)(y + 1)/(μ(y + r))) + ½(ln(y + 1) + ln((y + r)/r)) + ½ ln 2π − 1, and the
                // errors of Stirling's formula e(r) + e(y + 1) − e(y + r).
                let (next, all) = (g.affine(target, 1.0, 1.0)?, g.add(target, r)?);
                let errors = g.add(stirling_error(g, r)?, stirling_error(g, next)?)?;
                let errors = g.sub(errors, stirling_error(g, all)?)?;
                let level = g.mul(r, ln_ratio(g, g.add(mean, r)?, all, g.sub(mean, target)?)?)?;
                let apart = g.mul(g.div(r, mean)?, g.div(g.sub(next, mean)?, all)?)?;
                let counts = g.mul(target, g.log1p(g.add(apart, g.recip(all)?)?)?)?;
                let spread = g.add(g.ln(next)?, g.ln(g.div(all, r)?)?)?;
                let spread = g.affine(spread, 0.5, 0.5 * (2.0 * PI).ln() - 1.0)?;
                g.add(g.add(level, counts)?, g.add(spread, errors)?)
            }
        }
    }
}

/// The t distribution's quantiles have one parameter left beside the level: its degrees of freedom ν, of which 1/ν is at most
/// this.
pub const MOST_INVERSE_FREEDOM: f64 = 1.0 / (2.0 + MIN_FREEDOM);

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

impl Family {
    /// Values that a network predicts for each row.
    #[must_use]
    pub const fn parameters(self) -> usize {
        match self {
            Self::Normal | Self::NegativeBinomial => 2,
            Self::StudentT => 3,
        }
    }

    /// Its name, as `--loss` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::StudentT => "student-t",
            Self::NegativeBinomial => "negative-binomial",
        }
    }

    /// Mean and negative log-likelihood of targets `[B, C, H]` under predicted parameters `[B, C, P·H]`, parameter by parameter.
    ///
    /// - normal: `½ ln 2π + ln s + ½ z²`, z = (y − a)/s
    /// - Student's t: `ln Γ(ν/2) − ln Γ((ν + 1)/2) + ½ ln πν + ln s + ½(ν + 1)·ln(1 + z²/ν)`
    /// - negative binomial: `ln Γ(r) + ln Γ(y + 1) − ln Γ(y + r) − r ln(r/(r + μ)) − y ln(μ/(r + μ))`
    ///
    /// Stirling's formula is put in for the logarithms of Γ, and what is large in several terms is joined by hand: in f32 the
    /// terms of counts of 10⁵ have no digit behind the point.
    ///
    /// ```
    /// use landfall::{DType, Engine, Graph, Program, State, StateSpec};
    /// use landfall_train::nn::Family;
    /// let engine = Engine::cpu()?;
    /// let spec = std::sync::Arc::new(StateSpec::new());
    /// let mut state = State::new(&engine, &spec)?;
    /// let g = Graph::new(&spec);
    /// let prediction = g.input("prediction", DType::F64, [1, 1, 2]); // a and b of one row
    /// let target = g.input("target", DType::F64, [1, 1, 1]);
    /// g.output("nll", Family::Normal.terms(&g, prediction, target)?.nll);
    /// let mut program = Program::compile(&engine, &state, "nll", &g)?;
    /// let b = 0.999f64.exp_m1().ln(); // softplus(b) = 0.999: a standard deviation of 1
    /// program.write("prediction", &[0.0, b])?;
    /// program.write("target", &[2.0f64])?;
    /// program.run(&mut state)?;
    /// let expected = 0.5 * (2.0 * std::f64::consts::PI).ln() + 2.0;
    /// assert!((program.read::<f64>("nll")?[0] - expected).abs() < 1e-12);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// A prediction that is not P times as wide as the target.
    #[track_caller]
    pub fn terms(self, g: &Graph, prediction: Value, target: Value) -> Result<Terms, Error> {
        let shape = g.shape(target);
        let axis = shape.rank().saturating_sub(1);
        let expected = shape.with(axis, self.parameters() * shape.last());
        if g.shape(prediction) != expected {
            let rule = Rule::ArgShape { arg: 0, shape: g.shape(prediction), expected };
            let specs = [g.spec(prediction), g.spec(target)];
            return Err(rule.of(self.name(), &specs, None, Some(Location::caller())).into());
        }
        let of = |prediction: Value| {
            let parameter = |i: usize| g.slice(prediction, axis, i * shape.last(), shape.last());
            self.of_predicted(g, &parameter)
        };
        Ok(Terms {
            mean: g.composed(self.name(), [prediction], |[prediction]| Ok(of(prediction)?.mean()))?,
            nll: g.composed(self.name(), [prediction, target], |[prediction, target]| {
                of(prediction)?.nll(g, target)
            })?,
        })
    }

    /// The parameters that follow from predicted values, of which `predicted` gives the i-th.
    ///
    /// # Errors
    /// As `predicted`; a dtype without logarithms.
    #[track_caller]
    pub fn of_predicted(
        self,
        g: &Graph,
        predicted: &dyn Fn(usize) -> Result<Value, Error>,
    ) -> Result<Distribution, Error> {
        let a = predicted(0)?;
        let above = |i: usize, least: f64| g.affine(g.softplus(g.sub(predicted(i)?, a)?)?, 1.0, least);
        Ok(match self {
            Self::Normal => Distribution::Normal { mean: a, s: above(1, MIN_SCALE)? },
            Self::StudentT => {
                Distribution::StudentT { mean: a, s: above(1, MIN_SCALE)?, nu: above(2, 2.0 + MIN_FREEDOM)? }
            }
            Self::NegativeBinomial => {
                let mean = g.affine(g.softplus(a)?, 1.0, MIN_SCALE)?;
                let (excess, square) = (above(1, 0.0)?, g.mul(mean, mean)?);
                let r = g.div(square, g.add(g.mul(excess, excess)?, g.affine(square, MIN_EXCESS, 0.0)?)?)?;
                Distribution::NegativeBinomial { mean, r }
            }
        })
    }

    /// The forecast of a row from the values that a network predicts for it: the quantiles at these levels, then the mean.
    /// Values that are no parameters (not finite) give NaN.
    ///
    /// ```
    /// use landfall_train::nn::Family;
    /// let b = 0.999f64.exp_m1().ln(); // a standard deviation of 1
    /// let forecast = Family::Normal.forecast(&[5.0, 5.0 + b], &[0.1, 0.5]);
    /// assert!((forecast[0] - (5.0 - 1.2815515655446004)).abs() < 1e-9);
    /// assert_eq!(forecast[1..], [5.0, 5.0]);
    /// ```
    #[must_use]
    pub fn forecast(self, predicted: &[f64], levels: &[f64]) -> Vec<f64> {
        let at = |i: usize| predicted.get(i).copied().unwrap_or(f64::NAN);
        let (a, scale) = (at(0), softplus(at(1) - at(0)));
        let located = |of: Option<&dyn Fn(f64) -> f64>| {
            let quantile = |level: &f64| of.map_or(f64::NAN, |of| of(*level));
            levels.iter().map(quantile).chain([a]).collect()
        };
        match self {
            Self::Normal => match Normal::new(a, scale + MIN_SCALE) {
                Ok(of) => located(Some(&|level| of.inverse_cdf(level))),
                Err(_) => located(None),
            },
            Self::StudentT => {
                let nu = softplus(at(2) - a) + 2.0 + MIN_FREEDOM;
                match StudentsT::new(a, scale + MIN_SCALE, nu) {
                    Ok(of) => located(Some(&|level| of.inverse_cdf(level))),
                    Err(_) => located(None),
                }
            }
            Self::NegativeBinomial => {
                let mean = softplus(a) + MIN_SCALE;
                let r = mean * mean / (scale * scale + MIN_EXCESS * mean * mean);
                let quantiles: Vec<f64> = match NegativeBinomial::new(r, r / (r + mean)) {
                    Ok(of) => levels.iter().map(|level| of.inverse_cdf(*level) as f64).collect(),
                    Err(_) => vec![f64::NAN; levels.len()],
                };
                quantiles.into_iter().chain([mean]).collect()
            }
        }
    }
}

/// `ln(a/b)` of positive numbers, whose difference `a − b` is known: it has the digits that a quotient near 1 loses.
fn ln_ratio(g: &Graph, a: Value, b: Value, difference: Value) -> Result<Value, Error> {
    let part = g.div(difference, b)?;
    let near = g.less(g.abs(part)?, g.scalar(part, 0.5)?)?;
    let close = g.log1p(g.select(near, part, g.scalar(part, 0.0)?)?)?;
    g.select(near, close, g.ln(g.div(a, b)?)?)
}

/// `ln Γ(x) − ((x − ½) ln x − x + ½ ln 2π)` of x > 0: the error of Stirling's formula, which falls as 1/12x. It is that at y = x + 8,
/// `1/12y − 1/360y³ + 1/1260y⁵`, the next term being below 3e-10, and what the formula makes of the quotient of Γ(x + 8) and Γ(x):
/// `(x − ½)·ln(1 + 8/x) − 8 − ln(x(x + 1)…(x + 7)/y⁸)`. No term grows with x.
fn stirling_error(g: &Graph, x: Value) -> Result<Value, Error> {
    let inverse = g.recip(g.affine(x, 1.0, 8.0)?)?;
    let square = g.mul(inverse, inverse)?;
    let series = g.affine(square, 1.0 / 1260.0, -1.0 / 360.0)?;
    let series = g.mul(inverse, g.affine(g.mul(square, series)?, 1.0, 1.0 / 12.0)?)?;
    let mut product = g.mul(x, inverse)?;
    for less in 1..8 {
        product = g.mul(product, g.affine(inverse, -f64::from(less), 1.0)?)?;
    }
    let eight = g.log1p(g.affine(g.recip(x)?, 8.0, 0.0)?)?;
    let quotient = g.affine(g.mul(g.affine(x, 1.0, -0.5)?, eight)?, 1.0, -8.0)?;
    g.add(series, g.sub(quotient, g.ln(product)?)?)
}

/// `ln Γ(x)` of x > 0, by Stirling's formula and its error, to 3e-10 and the rounding of the dtype; the gradient is that of these ops.
///
/// ```
/// # use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// # let engine = Engine::cpu()?;
/// # let spec = std::sync::Arc::new(StateSpec::new());
/// # let mut state = State::new(&engine, &spec)?;
/// # let g = Graph::new(&spec);
/// let x = g.input("x", DType::F64, [2]);
/// g.output("y", landfall_train::nn::ln_gamma(&g, x)?);
/// # let mut program = Program::compile(&engine, &state, "ln_gamma", &g)?;
/// program.write("x", &[5.0f64, 0.5])?;
/// program.run(&mut state)?;
/// let y = program.read::<f64>("y")?;
/// assert!((y[0] - 24f64.ln()).abs() < 1e-9 && (y[1] - std::f64::consts::PI.sqrt().ln()).abs() < 1e-9);
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// A dtype without logarithms.
#[track_caller]
pub fn ln_gamma(g: &Graph, x: Value) -> Result<Value, Error> {
    let main = g.sub(g.mul(g.affine(x, 1.0, -0.5)?, g.ln(x)?)?, x)?;
    g.affine(g.add(main, stirling_error(g, x)?)?, 1.0, 0.5 * (2.0 * PI).ln())
}
