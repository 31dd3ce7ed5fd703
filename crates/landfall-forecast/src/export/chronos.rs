//! One pass of a Chronos-2 or Chronos-Bolt as a graph, from values in original units to quantiles in original units.

use super::error::ExportError;
use super::forecaster::{Built, Port};
use crate::chronos::{ChronosError, Weights};
use crate::models::chronos::{Network, Seen};
use crate::nn::{Context, Mode};
use landfall::{DType, Error, Graph, HostTensor, Spec, StateSpec};
use std::sync::Arc;

/// Weights of a Chronos, ready to be written as graphs.
pub(super) struct Chronos<'a> {
    weights: &'a Weights,
    spec: Arc<StateSpec>,
    /// Rows of the context that are given, and rows that are forecast.
    rows: usize,
    horizon: usize,
}

impl<'a> Chronos<'a> {
    /// A pass that reads so many rows and forecasts `horizon` rows.
    ///
    /// # Errors
    /// More rows than the network reads, or forecasts in one pass; none.
    pub(super) fn new(weights: &'a Weights, rows: usize, horizon: usize) -> Result<Self, ChronosError> {
        let network = &weights.network;
        let (context, most) = (network.context(), network.pass());
        if rows == 0 || rows > context {
            let what =
                format!("the context is {rows} rows; it must be 1 to {context}, which the model reads");
            return Err(ChronosError::Options(what));
        }
        if horizon == 0 || horizon > most {
            return Err(ChronosError::Horizon { horizon, most });
        }
        let spec = network.parameters().state_spec(DType::F32)?;
        Ok(Self { weights, spec, rows, horizon })
    }

    /// The names of all entries of the graph's state.
    pub(super) fn entries(&self) -> Vec<String> {
        self.weights.network.parameters().list().iter().map(|p| p.name.clone()).collect()
    }

    /// The value of an entry, in f32.
    ///
    /// # Errors
    /// No such entry.
    pub(super) fn value(&self, entry: &str) -> Result<HostTensor, ExportError> {
        let parameter = self.weights.network.parameters().list().iter().find(|p| p.name == entry);
        let parameter = parameter
            .ok_or_else(|| Error::NoEntry { name: entry.to_owned(), known: self.entries().join(", ") })?;
        let value = self.weights.value(parameter)?;
        Ok(HostTensor::from_fn(Spec { dtype: DType::F32, ..value.spec }, |i| value.data[i]))
    }

    /// What a user has to know of the model: lists are JSON.
    pub(super) fn properties(&self) -> Vec<(String, String)> {
        let network = &self.weights.network;
        let all = [
            ("landfall", env!("CARGO_PKG_VERSION").to_owned()),
            ("context", self.rows.to_string()),
            ("horizon", self.horizon.to_string()),
            ("quantiles", serde_json::Value::from(network.levels().to_vec()).to_string()),
            ("forecaster", network.name().to_owned()),
        ];
        all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The graph for series of this number at once.
    ///
    /// # Errors
    /// What the engine refuses.
    pub(super) fn graph(&self, batch: usize) -> Result<Built, Error> {
        let g = Graph::new(&self.spec);
        let network = &self.weights.network;
        let x = g.input("context", DType::F64, [batch, self.rows]);
        let there = g.cast(g.equal(x, x)?, DType::F64)?;
        // Whole patches: what is in front is not known.
        let missing = self.rows.next_multiple_of(network.patch()) - self.rows;
        let (context, known) = (g.pad(x, 1, missing, 0)?, g.pad(there, 1, missing, 0)?);
        let ahead = network.ahead(self.horizon);
        let cx = Context::new(&g, network.parameters(), Mode::Evaluate);
        let all = match network {
            Network::Chronos2(network) => {
                let patches = ahead / network.config().patch;
                let seen = Seen { context, known, future: None, patches, members: 1, whole: false };
                network.forward(&cx, &seen)?
            }
            Network::Bolt(network) => network.forward(&cx, [context, known], false)?,
        };
        let quantiles = g.slice(all.scale.original(&g, all.quantiles)?, 2, 0, self.horizon)?;
        let rows = g.permute(quantiles, &[0, 2, 1])?;
        let doc = format!("the last {} rows, in original units; NaN where none is known", self.rows);
        let inputs = vec![Port { name: "context", value: x, doc }];
        let doc = format!(
            "the {} rows after the context, in original units, for each level of the metadata property quantiles",
            self.horizon
        );
        Ok(Built { graph: g, inputs, outputs: vec![Port { name: "quantiles", value: rows, doc }] })
    }
}
