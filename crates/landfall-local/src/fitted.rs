//! A model that was fit to a series: its parameters, which forecast from these rows or from others.

use serde::{Deserialize, Serialize};

use crate::error::LocalError;
use crate::ets::{Ets, LONGEST_SEASON};
use crate::intermittent::Intermittent;
use crate::model::Model;
use crate::naive::Naive;
use crate::rows::{Prediction, Rows};
use crate::seasonal::{Indices, is_seasonal};
use crate::theta::dynamic::Dynamic;
use crate::theta::standard::Theta;

/// Theta and ETS need so many rows; fewer are forecast by their last value.
const FEWEST: usize = 5;

/// The parameters of a model of a series. They can be stored, and forecast from any rows of it.
///
/// ```
/// use landfall_local::{Fitted, Model};
/// let sales = [112.0, 118.0, 132.0, 129.0, 121.0, 135.0, 148.0, 148.0, 136.0, 119.0];
/// let fitted = Fitted::new(Model::Theta, &sales, 1)?;
/// let ahead = fitted.forecast(&sales, 3)?;
/// assert_eq!(ahead.len(), 3);
/// // From the rows up to an earlier one, with the same parameters.
/// let earlier = fitted.forecast(&sales[..7], 3)?;
/// assert_ne!(ahead, earlier);
/// # Ok::<(), landfall_local::LocalError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    model: Model,
    /// The mean size of the rows: the forms see rows of about 1.
    unit: f64,
    /// Whether no row of the fit is below 0.
    never_negative: bool,
    /// The season that was taken out before the form was fit.
    indices: Option<Indices>,
    form: Form,
    /// Why another model than the one asked for is used.
    instead: Option<String>,
}

/// What forecasts rows of about 1 in size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    Naive(Naive),
    Theta(Theta),
    Dynamic(Dynamic),
    Ets(Ets),
    Demand(Intermittent),
}

impl Fitted {
    /// Fits a model to rows, `season` rows being a season (1: none). One row is enough: where there are too few for the model, the last
    /// value is the forecast, and [`Fitted::instead`] says so.
    ///
    /// # Errors
    ///
    /// There are no rows, one is not finite, the season is 0, or a model of demand gets a row below 0.
    pub fn new(model: Model, values: &[f64], season: usize) -> Result<Self, LocalError> {
        check(values)?;
        if season == 0 {
            return Err(LocalError::NoSeason);
        }
        let demand = matches!(model, Model::Croston | Model::Tsb);
        if let Some((row, value)) = values.iter().enumerate().find(|(_, y)| demand && **y < 0.0) {
            return Err(LocalError::Negative { model, row, value: *value });
        }
        let unit = unit(values);
        let scaled: Vec<f64> = values.iter().map(|y| y / unit).collect();
        let never_negative = values.iter().all(|y| *y >= 0.0);
        let indices = indices(model, &scaled, season);
        let adjusted = match &indices {
            Some(found) => found.remove(Rows { values: &scaled, start: 0 }),
            None => scaled,
        };
        let (form, instead) = fit(model, &adjusted, season);
        Ok(Self { model, unit, never_negative, indices, form, instead })
    }

    /// The model that was asked for.
    pub fn model(&self) -> Model {
        self.model
    }

    /// What forecasts: the model, of ETS with its kind, as `ETS(M,Ad,N)`; the last value where rows were too few.
    pub fn name(&self) -> String {
        match &self.form {
            Form::Ets(ets) => ets.name(),
            Form::Naive(_) if self.instead.is_some() => "last value".to_owned(),
            Form::Naive(_) | Form::Theta(_) | Form::Dynamic(_) | Form::Demand(_) => self.model.to_string(),
        }
    }

    /// Why another model forecasts than the one that was asked for, in a sentence; `None` where it is that one.
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }

    /// The next `horizon` values after `values`, which begin with the first row of the fit: those of the fit, fewer, or more.
    ///
    /// # Errors
    ///
    /// As of [`Fitted::predict`].
    pub fn forecast(&self, values: &[f64], horizon: usize) -> Result<Vec<f64>, LocalError> {
        Ok(self.predict(values, 0, horizon)?.values)
    }

    /// The next `horizon` values after `values` and their spread. The parameters are those of the fit; the state is filtered over `values`,
    /// whose first row is the fit's row `start` (0 where they begin with it, negative before it). Where they begin elsewhere the
    /// states before them are found anew, and the season keeps its phase. No value is below 0 where neither the fit's rows nor these are.
    ///
    /// # Errors
    ///
    /// There are no rows, or one is not finite.
    pub fn predict(&self, values: &[f64], start: i64, horizon: usize) -> Result<Prediction, LocalError> {
        check(values)?;
        let scaled: Vec<f64> = values.iter().map(|y| y / self.unit).collect();
        let rows = Rows { values: &scaled, start };
        let mut found = match &self.indices {
            Some(indices) => {
                let adjusted = indices.remove(rows);
                let mut found = self.form.predict(Rows { values: &adjusted, start }, horizon);
                indices.restore(rows, &mut found.values, &mut found.spread);
                found
            }
            None => self.form.predict(rows, horizon),
        };
        let least = if self.never_negative && values.iter().all(|y| *y >= 0.0) { 0.0 } else { f64::MIN };
        for y in &mut found.values {
            *y = (*y * self.unit).clamp(least, f64::MAX);
        }
        for s in &mut found.spread {
            *s = (*s * self.unit).min(f64::MAX);
        }
        Ok(found)
    }
}

impl Form {
    fn predict(&self, rows: Rows, horizon: usize) -> Prediction {
        match self {
            Self::Naive(one) => one.predict(rows, horizon),
            Self::Theta(one) => one.predict(rows, horizon),
            Self::Dynamic(one) => one.predict(rows, horizon),
            Self::Ets(one) => one.predict(rows, horizon),
            Self::Demand(one) => one.predict(rows, horizon),
        }
    }
}

/// The mean size of rows; 1 of zeros.
fn unit(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let size: f64 = values.iter().map(|y| y.abs() / n).sum();
    if size > f64::MIN_POSITIVE { size } else { 1.0 }
}

/// The season that is taken out before a model is fit.
fn indices(model: Model, values: &[f64], season: usize) -> Option<Indices> {
    let taken = match model {
        Model::Theta | Model::DynamicTheta | Model::Naive2 | Model::SeasonalDrift => {
            is_seasonal(values, season)
        }
        Model::Ets => season > LONGEST_SEASON && is_seasonal(values, season),
        Model::Croston | Model::Tsb => false,
    };
    if taken { Indices::of(values, season) } else { None }
}

fn fit(model: Model, values: &[f64], season: usize) -> (Form, Option<String>) {
    let last = |why: String| {
        let why = format!("{why}, so the last value is the forecast");
        (Form::Naive(Naive::fit(values, false)), Some(why))
    };
    let rows = values.len();
    let enough = rows >= FEWEST;
    let form = match model {
        Model::Naive2 => Form::Naive(Naive::fit(values, false)),
        Model::SeasonalDrift => Form::Naive(Naive::fit(values, true)),
        Model::Croston => Form::Demand(Intermittent::croston(values)),
        Model::Tsb => Form::Demand(Intermittent::tsb(values)),
        Model::Theta if enough => Form::Theta(Theta::fit(values)),
        Model::DynamicTheta if enough => Form::Dynamic(Dynamic::fit(values)),
        Model::Ets if enough => match Ets::fit(values, if season > LONGEST_SEASON { 1 } else { season }) {
            Some(ets) => Form::Ets(ets),
            None => return last(format!("no kind of {model} has a finite likelihood on the {rows} rows")),
        },
        Model::Theta | Model::DynamicTheta | Model::Ets => {
            return last(format!("{model} needs {FEWEST} rows and the series has {rows}"));
        }
    };
    (form, None)
}

fn check(values: &[f64]) -> Result<(), LocalError> {
    if values.is_empty() {
        return Err(LocalError::NoRows);
    }
    match values.iter().enumerate().find(|(_, y)| !y.is_finite()) {
        Some((row, value)) => Err(LocalError::NotFinite { row, value: *value }),
        None => Ok(()),
    }
}
