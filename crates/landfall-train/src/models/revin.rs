//! Reversible instance normalisation: each window and column is standardised, and the prediction scaled back (Kim et al. 2022).

use crate::nn::{Context, Init, ParameterId, Parameters};
use landfall::{Error, Graph, Value};

/// A window's standardised values, and what they were standardised by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standardised {
    /// `(x − mean)/std`, `[B, C, L]`.
    pub(super) x: Value,
    /// Mean of each window and column `[B, C, 1]`.
    mean: Value,
    /// `√(variance + 1e-5)` of each, `[B, C, 1]`.
    std: Value,
}

/// Standardises the last axis of `[B, C, L]`.
pub(super) fn standardise(g: &Graph, x: Value) -> Result<Standardised, Error> {
    let [b, c, _] = g.shape(x).dims().try_into().unwrap_or([0; 3]);
    let mean = g.reshape(g.mean(x, [2])?, [b, c, 1])?;
    let centred = g.sub(x, mean)?;
    let variance = g.reshape(g.mean(g.mul(centred, centred)?, [2])?, [b, c, 1])?;
    let std = g.sqrt(g.affine(variance, 1.0, 1e-5)?)?;
    Ok(Standardised { x: g.div(centred, std)?, mean, std })
}

impl Standardised {
    /// What the first `columns` columns were standardised by, to restore those alone.
    pub(super) fn of_first(&self, g: &Graph, columns: usize) -> Result<Self, Error> {
        let first = |x| g.slice(x, 1, 0, columns);
        Ok(Self { x: first(self.x)?, mean: first(self.mean)?, std: first(self.std)? })
    }

    /// A prediction `[B, C, H]` in the window's own scale.
    pub(super) fn restore(&self, g: &Graph, y: Value) -> Result<Value, Error> {
        g.add(g.mul(y, self.std)?, self.mean)
    }
}

/// A factor and an addend of each column after standardisation, undone before it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnAffine {
    weight: ParameterId,
    bias: ParameterId,
}

impl ColumnAffine {
    /// Factors 1 and addends 0 of so many columns: `name.weight` and `name.bias`.
    pub(super) fn new(p: &mut Parameters, name: &str, columns: usize) -> Self {
        let weight = p.add(&format!("{name}.weight"), [columns, 1], Init::Constant(1.0));
        Self { weight, bias: p.add(&format!("{name}.bias"), [columns, 1], Init::Constant(0.0)) }
    }

    /// `[B, C, L]` → the same shape.
    pub(super) fn apply(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        cx.graph.add(cx.graph.mul(x, cx.parameter(self.weight)?)?, cx.parameter(self.bias)?)
    }

    /// The inverse, of the first `columns` columns.
    pub(super) fn undo(&self, cx: &Context<'_>, y: Value, columns: usize) -> Result<Value, Error> {
        let g = cx.graph;
        let first = |id| g.slice(cx.parameter(id)?, 0, 0, columns);
        // A factor that training brought to 0 must not divide: 1e-10 is the reference implementations' guard.
        let weight = g.affine(first(self.weight)?, 1.0, 1e-10)?;
        g.div(g.sub(y, first(self.bias)?)?, weight)
    }
}
