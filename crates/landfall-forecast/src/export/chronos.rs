//! One pass of a Chronos-2 or Chronos-Bolt as a graph, from values in original units to quantiles in original units.

use super::error::ExportError;
use super::forecaster::{Built, Port};
use crate::chronos::{ChronosError, Weights};
use crate::models::chronos::{Network, Seen};
use crate::nn::{Context, Mode};
use landfall::{DType, Error, Graph, HostTensor, Shape, Spec, StateSpec};
use std::sync::Arc;

/// Sizes of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Rows of the context that are given.
    pub rows: usize,
    /// Rows that are forecast.
    pub horizon: usize,
    /// Series of a group, which see each other: one, or with a Chronos-2 any number of series to forecast and covariates.
    pub members: usize,
}

/// Weights of a Chronos, ready to be written as graphs.
pub(super) struct Chronos<'a> {
    weights: &'a Weights,
    spec: Arc<StateSpec>,
    sizes: Pass,
}

impl<'a> Chronos<'a> {
    /// A pass of these sizes.
    ///
    /// # Errors
    /// More rows than the network reads, or forecasts in one pass; none; groups that it does not read.
    pub(super) fn new(weights: &'a Weights, sizes: Pass) -> Result<Self, ChronosError> {
        let (network, Pass { rows, horizon, members }) = (&weights.network, sizes);
        let (context, most) = (network.context(), network.pass());
        if rows == 0 || rows > context {
            let what =
                format!("the context is {rows} rows; it must be 1 to {context}, which the model reads");
            return Err(ChronosError::Options(what));
        }
        if horizon == 0 || horizon > most {
            return Err(ChronosError::Horizon { horizon, most });
        }
        let alone = matches!(network, Network::Bolt(_));
        if members == 0 || members > 1 && alone {
            let may =
                if alone { "1, as a Chronos-Bolt forecasts each series for itself" } else { "at least 1" };
            return Err(ChronosError::Options(format!("a group has {members} series; it must be {may}")));
        }
        let spec = network.parameters().state_spec(DType::F32)?;
        Ok(Self { weights, spec, sizes })
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
            ("context", self.sizes.rows.to_string()),
            ("horizon", self.sizes.horizon.to_string()),
            ("members", self.sizes.members.to_string()),
            ("quantiles", serde_json::Value::from(network.levels().to_vec()).to_string()),
            ("forecaster", network.name().to_owned()),
        ];
        all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The graph for groups of this number at once.
    ///
    /// # Errors
    /// What the engine refuses.
    pub(super) fn graph(&self, batch: usize) -> Result<Built, Error> {
        let g = Graph::new(&self.spec);
        let (network, Pass { rows, horizon, members }) = (&self.weights.network, self.sizes);
        let ahead = network.ahead(horizon);
        // What the network sees of such rows of each series, and ones beside those that are known.
        let seen = |x, rows: usize, [before, after]: [usize; 2]| {
            let x = g.reshape(x, [batch * members, rows])?;
            let known = g.cast(g.equal(x, x)?, DType::F64)?;
            Ok::<_, Error>([g.pad(x, 1, before, after)?, g.pad(known, 1, before, after)?])
        };
        let input = |name, rows: usize, what: &str| {
            let grouped = Shape::from([batch, members, rows]);
            let value =
                g.input(name, DType::F64, if members > 1 { grouped } else { Shape::from([batch, rows]) });
            Port {
                name,
                value,
                doc: format!("the {what} {rows} rows, in original units; NaN where none is known"),
            }
        };
        let mut inputs = vec![input("context", rows, "last")];
        if members > 1 {
            inputs.push(input("future", horizon, "next"));
        }
        // Whole patches: what is in front is not known, nor is what is behind.
        let [context, known] =
            seen(inputs[0].value, rows, [rows.next_multiple_of(network.patch()) - rows, 0])?;
        let future = inputs.get(1).map(|x| seen(x.value, horizon, [0, ahead - horizon])).transpose()?;
        let cx = Context::new(&g, network.parameters(), Mode::Evaluate);
        let all = match network {
            Network::Chronos2(network) => {
                let patches = ahead / network.config().patch;
                network.forward(&cx, &Seen { context, known, future, patches, members, whole: false })?
            }
            Network::Bolt(network) => network.forward(&cx, [context, known], false)?,
        };
        let quantiles = g.slice(all.scale.original(&g, all.quantiles)?, 2, 0, horizon)?;
        let mut quantiles = g.permute(quantiles, &[0, 2, 1])?;
        if members > 1 {
            quantiles = g.reshape(quantiles, [batch, members, horizon, network.levels().len()])?;
        }
        let doc = format!(
            "the {horizon} rows after the context, in original units, for each level of the metadata property quantiles"
        );
        Ok(Built { graph: g, inputs, outputs: vec![Port { name: "quantiles", value: quantiles, doc }] })
    }
}
