//! Either of both models.

use super::bolt::ChronosBolt;
use super::chronos2::Chronos2;
use crate::nn::Parameters;

/// A network of a folder of weights.
///
/// ```
/// # use landfall_train::models::chronos::{Activation, ChronosBolt, ChronosBoltConfig, Network};
/// # let sizes = ChronosBoltConfig { patch: 4, context: 32, horizon: 6, levels: vec![0.1, 0.5, 0.9], width: 8, features: 4, heads: 2,
/// #     hidden: 16, layers: 1, decoder_layers: 1, buckets: 8, distance: 16, activation: Activation::Relu, gated: false, register: true,
/// #     start: 0, eps: 1e-6 };
/// let network = Network::Bolt(ChronosBolt::new(sizes)?);
/// assert_eq!((network.name(), network.levels()), ("chronos-bolt", &[0.1, 0.5, 0.9][..]));
/// assert_eq!((network.pass(), network.ahead(4)), (6, 6)); // a pass forecasts 6 rows, however many are asked for
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub enum Network {
    /// Of `Chronos2Model`.
    Chronos2(Chronos2),
    /// Of `ChronosBoltModelForForecasting`.
    Bolt(ChronosBolt),
}

impl Network {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Chronos2(_) => "chronos-2",
            Self::Bolt(_) => "chronos-bolt",
        }
    }

    /// Its parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        match self {
            Self::Chronos2(network) => network.parameters(),
            Self::Bolt(network) => network.parameters(),
        }
    }

    /// Its parameters, for adapters.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        match self {
            Self::Chronos2(network) => network.parameters_mut(),
            Self::Bolt(network) => network.parameters_mut(),
        }
    }

    /// Names that a file may hold beside the parameters: copies of others, and what is of no use, as its authors' package has it.
    #[must_use]
    pub fn unread(&self) -> &'static [&'static str] {
        match self {
            Self::Chronos2(_) => &[],
            Self::Bolt(_) => {
                &["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"]
            }
        }
    }

    /// Rows of a patch.
    #[must_use]
    pub fn patch(&self) -> usize {
        match self {
            Self::Chronos2(network) => network.config().patch,
            Self::Bolt(network) => network.config().patch,
        }
    }

    /// Rows of the context that are read at most.
    #[must_use]
    pub fn context(&self) -> usize {
        match self {
            Self::Chronos2(network) => network.config().context,
            Self::Bolt(network) => network.config().context,
        }
    }

    /// Rows that are forecast in one pass at most.
    #[must_use]
    pub fn pass(&self) -> usize {
        match self {
            Self::Chronos2(network) => network.config().pass(),
            Self::Bolt(network) => network.config().horizon,
        }
    }

    /// Rows of a pass where so many are left to forecast.
    #[must_use]
    pub fn ahead(&self, left: usize) -> usize {
        match self {
            Self::Chronos2(_) => left.next_multiple_of(self.patch()).min(self.pass()),
            Self::Bolt(_) => self.pass(),
        }
    }

    /// Levels of the quantiles, ascending.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        match self {
            Self::Chronos2(network) => &network.config().levels,
            Self::Bolt(network) => &network.config().levels,
        }
    }
}
