//! The pretrained forecaster as one graph, from values in original units to quantiles in original units: a pass of
//! [`zero_shot::Forecaster`](crate::zero_shot::Forecaster).

use super::forecaster::{Built, Port};
use crate::models::zero_shot::{LEVELS, RATIO, Seen, ZeroShot, scaled};
use crate::nn::{Context, Mode};
use crate::zero_shot::{POWER, Weights, ZeroShotError};
use landfall::{DType, Error, Graph, HostTensor, Keep, Spec, StateSpec, Value};
use std::sync::Arc;

/// Pretrained weights, ready to be written as graphs.
pub(super) struct Pretrained {
    network: ZeroShot,
    values: Vec<HostTensor>,
    spec: Arc<StateSpec>,
}

impl Pretrained {
    pub(super) fn new(weights: &Weights) -> Result<Self, ZeroShotError> {
        let network = weights.network.clone();
        let spec = network.parameters().state_spec(DType::F32)?;
        Ok(Self { network, values: weights.values.clone(), spec })
    }

    /// The names of all entries of the graph's state.
    pub(super) fn entries(&self) -> Vec<String> {
        self.network.parameters().list().iter().map(|p| p.name.clone()).collect()
    }

    /// The value of an entry, in f32.
    ///
    /// # Errors
    /// No such entry.
    pub(super) fn value(&self, entry: &str) -> Result<HostTensor, Error> {
        let all = self.network.parameters().list().iter().zip(&self.values);
        let found = all.into_iter().find(|(parameter, _)| parameter.name == entry);
        let (_, value) = found
            .ok_or_else(|| Error::NoEntry { name: entry.to_owned(), known: self.entries().join(", ") })?;
        Ok(HostTensor::from_fn(Spec { dtype: DType::F32, ..value.spec }, |i| value.data[i]))
    }

    /// What a user has to know of the model: lists are JSON.
    pub(super) fn properties(&self) -> Vec<(String, String)> {
        let sizes = self.network.config();
        let levels = serde_json::Value::from(LEVELS.to_vec()).to_string();
        let all = [
            ("landfall", env!("CARGO_PKG_VERSION").to_owned()),
            ("context", sizes.context.to_string()),
            ("horizon", sizes.horizon.to_string()),
            ("quantiles", levels),
            ("forecaster", "zero-shot".to_owned()),
        ];
        all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The graph for series of this number at once.
    ///
    /// # Errors
    /// What the engine refuses.
    pub(super) fn graph(&self, batch: usize) -> Result<Built, Error> {
        let g = Graph::new(&self.spec);
        let sizes = *self.network.config();
        let x = g.input("context", DType::F64, [batch, sizes.context]);
        let window = Window::of(&g, x)?;
        let f32 = |v| g.cast(v, DType::F32);
        let (values, known) = (f32(window.seen)?, f32(window.known)?);
        let scale = scaled(&g, values, known)?;
        let queries = sizes.horizon / sizes.patch;
        let cx = Context::new(&g, self.network.parameters(), Mode::Evaluate);
        let seen = Seen { values: scale.context, known, queries };
        let quantiles = self.network.forward(&cx, &[seen])?;
        let quantiles = g.reshape(quantiles, [batch, queries * LEVELS.len() * sizes.patch])?;
        let quantiles = g.reshape(
            g.cast(scale.original(&g, quantiles)?, DType::F64)?,
            [batch, queries, LEVELS.len(), sizes.patch],
        )?;
        let rows =
            g.reshape(g.copy(g.permute(quantiles, &[0, 1, 3, 2])?)?, [batch, sizes.horizon, LEVELS.len()])?;
        let rows = g.sort(rows, 2, false)?.0;
        let original = window.original(&g, rows)?;
        let middle = g.slice(original, 2, LEVELS.len() / 2, 1)?;
        let medians = g.copy(g.reshape(middle, [batch, sizes.horizon])?)?;
        let doc = format!("the last {} rows, in original units; NaN where none is known", sizes.context);
        let inputs = vec![Port { name: "context", value: x, doc }];
        let doc = format!("the medians of the {} rows after the context, in original units", sizes.horizon);
        let forecast = Port { name: "forecast", value: medians, doc };
        let doc =
            "as forecast, for each level of the metadata property quantiles, in ascending order".to_owned();
        let quantiles = Port { name: "quantiles", value: original, doc };
        Ok(Built { graph: g, inputs, outputs: vec![forecast, quantiles] })
    }
}

/// Contexts `[B, R]` in the units that a network sees, and what takes its quantiles back.
struct Window {
    /// Ones where a value is known, and the values there.
    known: Value,
    seen: Value,
    /// The smallest and the largest known value `[B, 1]`.
    low: Value,
    high: Value,
    /// Whether the values are seen in powers.
    powers: Value,
    /// Centre and half the distance of the values as they are seen.
    centre: Value,
    width: Value,
}

impl Window {
    fn of(g: &Graph, x: Value) -> Result<Self, Error> {
        let number = |value: f64| g.scalar(x, value);
        let (zero, one) = (number(0.0)?, number(1.0)?);
        let there = g.equal(x, x)?;
        let extremes = |v: Value| -> Result<[Value; 2], Error> {
            let low = g.min(g.select(there, v, number(f64::MAX)?)?, Keep(1))?;
            Ok([low, g.max(g.select(there, v, number(f64::MIN)?)?, Keep(1))?])
        };
        let [low, high] = extremes(x)?;
        let within = g.less(g.affine(high, 1.0 / RATIO, 0.0)?, low)?;
        let powers = g.and(g.greater(low, zero)?, within)?;
        // Values that are not seen in powers must not spoil the branch that is not taken.
        let base = g.select(powers, low, one)?;
        let inside = g.select(g.and(powers, there)?, x, base)?;
        let logarithm = g.log1p(g.div(g.sub(inside, base)?, base)?)?;
        let raised = g.affine(g.expm1(g.affine(logarithm, POWER, 0.0)?)?, 1.0 / POWER, 0.0)?;
        let v = g.select(powers, raised, g.select(there, x, zero)?)?;
        let [least, most] = extremes(v)?;
        let half = |a, b| g.affine(g.add(a, b)?, 0.5, 0.0);
        let (centre, width) = (half(least, most)?, half(most, g.neg(least)?)?);
        let width = g.select(g.greater(width, zero)?, width, one)?;
        let seen = g.select(there, g.div(g.sub(v, centre)?, width)?, zero)?;
        let known = g.cast(there, g.spec(x).dtype)?;
        Ok(Self { known, seen, low, high, powers, centre, width })
    }

    /// Rows `[B, H, Q]` in original units.
    fn original(&self, g: &Graph, rows: Value) -> Result<Value, Error> {
        let [batch, ..] = g.shape(rows).dims().try_into().unwrap_or([0; 3]);
        let wide = |v: Value| g.reshape(v, [batch, 1, 1]);
        let [low, high, powers, centre, width] =
            [self.low, self.high, self.powers, self.centre, self.width].map(wide);
        let (low, high, powers) = (low?, high?, powers?);
        let number = |value: f64| g.scalar(rows, value);
        let (zero, one) = (number(0.0)?, number(1.0)?);
        let plain = g.add(g.mul(rows, width?)?, centre?)?;
        let base = g.select(powers, low, one)?;
        let inside = g.maximum(g.select(powers, g.affine(plain, POWER, 0.0)?, zero)?, number(-1.0)?)?;
        let logarithm = g.affine(g.log1p(inside)?, 1.0 / POWER, 0.0)?;
        let lowered = g.add(base, g.mul(base, g.expm1(logarithm)?)?)?;
        let rows = g.select(powers, lowered, plain)?;
        // What was never negative is not forecast below 0; a constant stays.
        let floored = g.select(g.greater_equal(low, zero)?, g.maximum(rows, zero)?, rows)?;
        g.select(g.equal(low, high)?, low, floored)
    }
}
