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
pub(crate) enum Distribution {
    /// Mean and standard deviation.
    Normal { mean: Value, s: Value },
    /// Mean, scale and degrees of freedom.
    StudentT { mean: Value, s: Value, nu: Value },
    /// Mean and shape.
    NegativeBinomial { mean: Value, r: Value },
}

/// The t distribution's quantiles have one parameter left beside the level: its degrees of freedom ν, of which 1/ν is at most
/// this.
pub(crate) const MOST_INVERSE_FREEDOM: f64 = 1.0 / (2.0 + MIN_FREEDOM);

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
        let parameter = |i: usize| g.slice(prediction, axis, i * shape.last(), shape.last());
        match self.of_predicted(g, &parameter)? {
            Distribution::Normal { mean: a, s } => {
                let z = g.div(g.sub(target, a)?, s)?;
                let half = g.affine(g.mul(z, z)?, 0.5, 0.5 * (2.0 * PI).ln())?;
                Ok(Terms { mean: a, nll: g.add(half, g.ln(s)?)? })
            }
            Distribution::StudentT { mean: a, s, nu } => {
                let z = g.div(g.sub(target, a)?, s)?;
                let gammas =
                    g.sub(ln_gamma(g, g.affine(nu, 0.5, 0.0)?)?, ln_gamma(g, g.affine(nu, 0.5, 0.5)?)?)?;
                let tail = g.mul(g.affine(nu, 0.5, 0.5)?, g.log1p(g.div(g.mul(z, z)?, nu)?)?)?;
                let scale = g.add(g.ln(s)?, g.affine(g.ln(nu)?, 0.5, 0.5 * PI.ln())?)?;
                Ok(Terms { mean: a, nll: g.add(g.add(gammas, scale)?, tail)? })
            }
            Distribution::NegativeBinomial { mean, r } => {
                let gammas = g.add(ln_gamma(g, r)?, ln_gamma(g, g.affine(target, 1.0, 1.0)?)?)?;
                let gammas = g.sub(gammas, ln_gamma(g, g.add(target, r)?)?)?;
                // r ln(r/(r + μ)) = −r ln(1 + μ/r), and likewise of y.
                let failures = g.mul(r, g.log1p(g.div(mean, r)?)?)?;
                let counts = g.mul(target, g.log1p(g.div(r, mean)?)?)?;
                Ok(Terms { mean, nll: g.add(gammas, g.add(failures, counts)?)? })
            }
        }
    }

    /// The parameters that follow from predicted values, of which `predicted` gives the i-th.
    ///
    /// # Errors
    /// As `predicted`; a dtype without logarithms.
    #[track_caller]
    pub(crate) fn of_predicted(
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

/// `ln Γ(x)` of x > 0: Stirling's series at x + 8, `(y − ½) ln y − y + ½ ln 2π + 1/12y − 1/360y³ + 1/1260y⁵`, less the logarithm of
/// x(x + 1)…(x + 7). The next term of the series is below 3e-10 there, under the rounding of f32; the gradient is that of these ops.
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
    let plus = |n: usize| g.affine(x, 1.0, n as f64);
    // Two products of four factors: one of eight overflows f32 from 65,000 on.
    let four = |n: usize| {
        g.mul(g.mul(plus(n)?, plus(n + 1)?)?, g.mul(plus(n + 2)?, plus(n + 3)?)?)
            .and_then(|product| g.ln(product))
    };
    let below = g.add(four(0)?, four(4)?)?;
    let y = plus(8)?;
    let inverse = g.recip(y)?;
    let square = g.mul(inverse, inverse)?;
    let series = g.affine(square, 1.0 / 1260.0, -1.0 / 360.0)?;
    let series = g.mul(inverse, g.affine(g.mul(square, series)?, 1.0, 1.0 / 12.0)?)?;
    let main = g.sub(g.mul(g.affine(y, 1.0, -0.5)?, g.ln(y)?)?, y)?;
    let stirling = g.affine(g.add(main, series)?, 1.0, 0.5 * (2.0 * PI).ln())?;
    g.sub(stirling, below)
}
