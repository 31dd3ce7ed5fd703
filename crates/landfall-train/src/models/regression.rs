//! Any forecaster of single columns with covariates: a regression on them whose errors it forecasts.

use super::{Columns, Inputs, Model};
use crate::nn::{Context, Init, Linear, Parameters};
use landfall::{Error, Value};

/// Hidden width of the regression's nonlinear part.
const HIDDEN: usize = 32;

/// A model with covariates. With z the columns known in advance, in the lookback window and in the horizon, and `r` a
/// regression of the targets on those of one row (linear, and a hidden layer beside it):
///
/// `y = f(x − r(z_past)) + r(z_ahead) + M·(W·(u − u_last))`
///
/// f is the inner model, and u are the columns known only up to the window's end: their changes are mapped to the horizon by
/// W, the same for each, and joined for each target by M. The form is that of a regression with errors that are forecast
/// (Hyndman & Athanasopoulos 2021, chapter 10), fit together. It begins as the inner model alone.
pub(super) struct WithCovariates {
    inner: Box<dyn Model>,
    parameters: Parameters,
    columns: Columns,
    sizes: (usize, usize, usize),
    known: Option<[Linear; 3]>,
    past: Option<[Linear; 2]>,
}

impl WithCovariates {
    /// A model of these columns around one of single columns; sizes are context, horizon and values for each row.
    pub(super) fn new(inner: Box<dyn Model>, columns: Columns, sizes: (usize, usize, usize)) -> Self {
        let (context, horizon, _) = sizes;
        let mut p = inner.parameters().clone();
        let mut linear = |name: &str, from, to, weight| {
            Linear::with_init(&mut p, &format!("covariates.{name}"), from, to, weight, Init::Constant(0.0))
        };
        let zero = Init::Constant(0.0);
        let known = (columns.known > 0).then(|| {
            [
                linear("known.linear", columns.known, columns.targets, zero),
                linear("known.hidden", columns.known, HIDDEN, Init::kaiming_uniform(columns.known)),
                linear("known.out", HIDDEN, columns.targets, zero),
            ]
        });
        let past = (columns.past > 0).then(|| {
            [
                linear("past.rows", context, horizon, Init::fan_in(context)),
                linear("past.columns", columns.past, columns.targets, zero),
            ]
        });
        Self { inner, parameters: p, columns, sizes, known, past }
    }
}

impl Model for WithCovariates {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
        self.forecast(cx, &Inputs { x, known: None })
    }

    fn forecast(&self, cx: &Context<'_>, inputs: &Inputs) -> Result<Value, Error> {
        let g = cx.graph;
        let (context, horizon, outputs) = self.sizes;
        let (targets, past) = (self.columns.targets, self.columns.past);
        let b = self.columns.check(g, inputs, "covariates", (context, horizon))?;
        let y = g.slice(inputs.x, 1, 0, targets)?;
        let mut added = Vec::new();
        let y = match (&self.known, inputs.known) {
            (Some([linear, hidden, out]), Some(known)) => {
                let rows = g.permute(known, &[0, 2, 1])?;
                let curved = out.forward(cx, g.relu(hidden.forward(cx, rows)?)?)?;
                let sum = g.add(linear.forward(cx, rows)?, curved)?;
                let regression = g.name(g.permute(sum, &[0, 2, 1])?, "regression");
                added.push(g.slice(regression, 2, context, horizon)?);
                g.sub(y, g.slice(regression, 2, 0, context)?)?
            }
            _ => y,
        };
        if let Some([rows, columns]) = &self.past {
            let u = g.slice(inputs.x, 1, targets, past)?;
            let changes = g.sub(u, g.slice(u, 2, context - 1, 1)?)?;
            let ahead = g.permute(rows.forward(cx, changes)?, &[0, 2, 1])?;
            added.push(g.permute(columns.forward(cx, ahead)?, &[0, 2, 1])?);
        }
        let mut forecast = self.inner.forward(cx, y)?;
        for one in added {
            // Every level moves alike.
            let levels = g.reshape(forecast, [b, targets, outputs, horizon])?;
            let moved = g.add(levels, g.reshape(one, [b, targets, 1, horizon])?)?;
            forecast = g.reshape(moved, [b, targets, outputs * horizon])?;
        }
        Ok(g.name(forecast, "prediction"))
    }
}
