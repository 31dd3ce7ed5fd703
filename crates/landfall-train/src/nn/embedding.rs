//! Vectors of tokens.

use super::context::Context;
use super::parameter::{Init, ParameterId, Parameters};
use landfall::{Error, Value};

/// `y[.., :] = weight[ids[..], :]`, weight `[n, d]`: a vector of d features for each of n tokens.
///
/// ```
/// use landfall::{DType, Graph};
/// use landfall_train::nn::{Context, Embedding, Mode, Parameters};
/// let mut p = Parameters::new();
/// let embedding = Embedding::new(&mut p, "embedding", 256, 64);
/// let g = Graph::new(&p.state_spec(DType::F32)?);
/// let cx = Context::new(&g, &p, Mode::Evaluate);
/// let ids = g.input("ids", DType::I64, [8, 32]);
/// assert_eq!(g.shape(embedding.forward(&cx, ids)?).dims(), [8, 32, 64]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Embedding {
    weight: ParameterId,
}

impl Embedding {
    /// A table whose parameter is `name.weight`, `[tokens, features]`, standard normal.
    #[track_caller]
    pub fn new(p: &mut Parameters, name: &str, tokens: usize, features: usize) -> Self {
        Self::with_init(p, name, tokens, features, Init::Normal(1.0))
    }

    /// A table with these initial values.
    #[track_caller]
    pub fn with_init(p: &mut Parameters, name: &str, tokens: usize, features: usize, weight: Init) -> Self {
        Self { weight: p.add(&format!("{name}.weight"), [tokens, features], weight) }
    }

    /// The weight, for a last layer that shares it ([`Linear::forward_with`](super::Linear::forward_with)).
    #[must_use]
    pub fn weight(&self) -> ParameterId {
        self.weight
    }

    /// `[..]` → `[.., d]`.
    ///
    /// # Errors
    /// `ids` must be i64; one out of `0..n` is reported when a result is read.
    #[track_caller]
    pub fn forward(&self, cx: &Context<'_>, ids: Value) -> Result<Value, Error> {
        cx.graph.embedding(cx.parameter(self.weight)?, ids)
    }
}
