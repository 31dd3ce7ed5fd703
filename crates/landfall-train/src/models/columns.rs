//! The columns of a model's data, and what it is given of them.

use landfall::{Error, Graph, Rule, Value};
use serde::{Deserialize, Serialize};

/// How many columns the data of a forecaster has, in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Columns to forecast.
    pub targets: usize,
    /// Covariates that are known up to the end of the lookback window.
    pub past: usize,
    /// Covariates that are known in the horizon too.
    pub known: usize,
}

/// What a model is given of a batch of windows.
///
/// ```
/// use landfall::{DType, Graph, StateSpec};
/// use landfall_train::models::Inputs;
/// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
/// let x = g.input("x", DType::F32, [32, 7, 96]); // batch, columns, lookback window
/// let inputs = Inputs { x, known: Some(g.input("known", DType::F32, [32, 3, 96 + 24])) };
/// assert!(inputs.known.is_some());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Inputs {
    /// The lookback window `[B, C, L]` of the columns to forecast, then of those that are known up to its end.
    pub x: Value,
    /// Columns that are known in advance, over lookback window and horizon `[B, K, L + H]`; none without such columns.
    pub known: Option<Value>,
}

impl Columns {
    /// Columns to forecast, and nothing else.
    #[must_use]
    pub const fn only(targets: usize) -> Self {
        Self { targets, past: 0, known: 0 }
    }

    /// Columns that are known up to the end of the lookback window alone: targets and past covariates.
    #[must_use]
    pub const fn seen(&self) -> usize {
        self.targets + self.past
    }

    /// Whether there are covariates.
    #[must_use]
    pub const fn covariates(&self) -> bool {
        self.past + self.known > 0
    }

    /// Batch size of inputs of these columns.
    ///
    /// # Errors
    /// Other shapes, or columns known in advance that are missing or not asked for.
    pub(super) fn check(
        &self,
        g: &Graph,
        inputs: &Inputs,
        model: &'static str,
        (context, horizon): (usize, usize),
    ) -> Result<usize, Error> {
        let (batch, _) = windows(g, inputs.x, model, context)?;
        let given = std::iter::once((inputs.x, [batch, self.seen(), context]))
            .chain(inputs.known.map(|known| (known, [batch, self.known, context + horizon])));
        let specs: Vec<_> = given.clone().map(|(x, _)| g.spec(x)).collect();
        for (arg, (value, expected)) in given.enumerate() {
            let (shape, expected) = (g.shape(value), expected.into());
            if shape != expected {
                return Err(Rule::ArgShape { arg, shape, expected }.of(model, &specs, None, None).into());
            }
        }
        let takes = 1 + usize::from(self.known > 0);
        if specs.len() != takes {
            let takes = format!("{takes}, with the columns known in advance where the model has any");
            return Err(Rule::Arity { takes, got: specs.len() }.of(model, &specs, None, None).into());
        }
        Ok(batch)
    }
}

/// Batch size and channels of the windows `[B, C, context]` that a model is given.
///
/// # Errors
/// Another shape.
pub(super) fn windows(
    g: &Graph,
    x: Value,
    model: &'static str,
    context: usize,
) -> Result<(usize, usize), Error> {
    let shape = g.shape(x);
    let rule = match *shape.dims() {
        [batch, channels, length] if length == context => return Ok((batch, channels)),
        [batch, channels, _] => Rule::ArgShape { arg: 0, shape, expected: [batch, channels, context].into() },
        _ => Rule::Rank { arg: 0, rank: shape.rank(), expected: "3: [batch, channels, context]" },
    };
    Err(rule.of(model, &[g.spec(x)], None, None).into())
}
