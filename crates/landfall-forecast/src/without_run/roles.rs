//! What a forecaster without a run reads of the columns of a series.

use crate::chronos::{self, Group, target_means};
use crate::data::{Covariates, Panel, Series};
use crate::error::ForecastError;

/// What the columns of a panel are to a forecaster without a run. Each column to forecast is a group of its own, with all covariates of
/// its series; a categorical covariate is one series there, of the means of the column to forecast in the rows of each category.
///
/// ```
/// use landfall_data::{Covariates, Panel, Series};
/// use landfall_forecast::without_run::Roles;
/// let columns = ["sales", "visits", "price"].map(str::to_owned).to_vec();
/// let series = Series::new("shop", columns, vec![vec![3.0, 8.0], vec![1.0, 2.0], vec![9.0, 7.0]], None)?;
/// let covariates = Covariates { known: vec!["price".to_owned()], ..Covariates::default() };
/// let panel = Panel::from(series).with_targets(&["sales".to_owned()])?.with_covariates(&covariates)?;
/// assert_eq!(Roles::of(&panel, &covariates).covariates(), 2);
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    targets: usize,
    /// Columns up to the first one that is known in advance.
    first_known: usize,
    covariates: Vec<Covariate>,
}

/// A covariate.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Covariate {
    /// Its column; of a categorical one that of each category.
    columns: Vec<usize>,
    /// The name of a categorical one.
    category: Option<String>,
    /// Whether its future is known.
    known: bool,
}

impl Roles {
    /// Of a panel whose columns are in the order of [`Panel::with_covariates`]: those to forecast, the covariates that are known up to the last
    /// row, those that are known in advance.
    #[must_use]
    pub fn of(panel: &Panel, covariates: &Covariates) -> Self {
        let (columns, targets) = (panel.columns(), panel.targets());
        let first_known = columns.len() - panel.known().len().min(columns.len());
        let mut all: Vec<Covariate> = Vec::new();
        for (column, name) in columns.iter().enumerate().skip(targets) {
            let is_of = |category: &&String| {
                name.strip_prefix(category.as_str()).is_some_and(|rest| rest.starts_with('='))
            };
            let (category, known) =
                (covariates.categorical.iter().find(is_of).cloned(), column >= first_known);
            match all.last_mut() {
                Some(last) if category.is_some() && last.category == category && last.known == known => {
                    last.columns.push(column);
                }
                _ => all.push(Covariate { columns: vec![column], category, known }),
            }
        }
        Self { targets, first_known, covariates: all }
    }

    /// Of a panel whose columns to forecast alone are read.
    #[must_use]
    pub fn alone(panel: &Panel) -> Self {
        Self { targets: panel.targets(), first_known: panel.columns().len(), covariates: Vec::new() }
    }

    /// Covariates of each group.
    #[must_use]
    pub fn covariates(&self) -> usize {
        self.covariates.len()
    }

    /// Columns to forecast.
    #[must_use]
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// The columns of a series as groups are made of them.
    pub(crate) fn rows<'a>(&'a self, series: &'a Series) -> Rows<'a> {
        let last = self.covariates.iter().flat_map(|c| &c.columns).max().map_or(self.targets, |c| c + 1);
        Rows { roles: self, series, columns: (0..last).map(|column| known(series, column)).collect() }
    }
}

/// A series, missing values of which are NaN.
pub(crate) struct Rows<'a> {
    roles: &'a Roles,
    series: &'a Series,
    columns: Vec<Vec<f64>>,
}

impl Rows<'_> {
    /// The values of columns known in advance in the `horizon` rows from row `at` on.
    pub(crate) fn ahead(&self, at: usize, horizon: usize) -> Vec<Vec<f64>> {
        let known = self.columns.get(self.roles.first_known..).unwrap_or_default();
        known.iter().map(|column| column[at..at + horizon].to_vec()).collect()
    }

    /// The lowest and the highest known value of a column before row `at`.
    pub(crate) fn ends(&self, column: usize, at: usize) -> (f64, f64) {
        let values = self.columns.get(column).and_then(|values| values.get(..at)).unwrap_or_default();
        values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)))
    }

    /// The group of a column to forecast before row `at`, of `most` rows at most; `ahead` are the values of columns known in advance in
    /// the rows from there on.
    ///
    /// # Errors
    /// A column without a value by then.
    pub(crate) fn group(
        &self,
        target: usize,
        (at, most): (usize, usize),
        ahead: &[Vec<f64>],
    ) -> Result<Group, ForecastError> {
        let first = at.saturating_sub(most);
        let column = |column: usize| self.columns.get(column).and_then(|c| c.get(..at)).unwrap_or_default();
        let whole = column(target);
        let mut own = whole[first..].to_vec();
        if own.iter().all(|v| v.is_nan()) {
            // All that is read is missing, and stands for the last value before it.
            own = self.series.known_at(at)?.values()[target][first..].to_vec();
        }
        let mut group = Group::of(own);
        for Covariate { columns, category, known } in &self.roles.covariates {
            let future = |column: usize| ahead.get(column.wrapping_sub(self.roles.first_known));
            let (mut past, next) = match category {
                None => (column(columns[0]).to_vec(), future(columns[0]).cloned().unwrap_or_default()),
                Some(_) => {
                    let seen: Vec<&[f64]> = columns.iter().map(|c| column(*c)).collect();
                    let next: Vec<&[f64]> =
                        columns.iter().map(|c| future(*c).map_or(&[][..], Vec::as_slice)).collect();
                    target_means(whole, &categories(&seen), &categories(&next))
                }
            };
            past.drain(..first);
            match known {
                true => group.known.push(chronos::Known { past, future: next }),
                false => group.past.push(past),
            }
        }
        Ok(group)
    }
}

/// The rows of a column; NaN where a value was missing.
fn known(series: &Series, column: usize) -> Vec<f64> {
    let mut values = series.values().get(column).cloned().unwrap_or_default();
    for &row in series.interpolated(column) {
        if let Some(value) = values.get_mut(row) {
            *value = f64::NAN;
        }
    }
    values
}

/// The category of each row, by the place of its column; none where none is 1.
fn categories(columns: &[&[f64]]) -> Vec<Option<String>> {
    let rows = columns.first().map_or(0, |column| column.len());
    (0..rows).map(|row| columns.iter().position(|c| c[row] == 1.0).map(|place| place.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(covariates: &Covariates) -> Panel {
        let columns = ["sales", "sky=rain", "sky=sun", "visits", "price"].map(str::to_owned).to_vec();
        let values = vec![
            vec![4.0, 1.0, 10.0, 2.0],
            vec![0.0, 1.0, 0.0, 1.0],
            vec![1.0, 0.0, 1.0, 0.0],
            vec![7.0, 8.0, 9.0, 10.0],
            vec![1.0, 2.0, 3.0, 4.0],
        ];
        let series = Series::new("shop", columns, values, None).expect("a series");
        let panel = Panel::from(series).with_targets(&["sales".to_owned()]).expect("a target");
        panel.with_covariates(covariates).expect("covariates")
    }

    #[test]
    fn a_group_has_all_covariates_of_its_series() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let covariates = Covariates {
            known: names(&["sky", "price"]),
            categorical: names(&["sky"]),
            ..Covariates::default()
        };
        let panel = panel(&covariates);
        let roles = Roles::of(&panel, &covariates);
        let rows = roles.rows(&panel.series()[0]);
        let group = rows.group(0, (3, 2), &rows.ahead(3, 1)).expect("a group");
        assert_eq!((group.targets, group.past), (vec![vec![1.0, 10.0]], vec![vec![8.0, 9.0]]));
        // The mean of the three rows is 5: of rain (5 + 1) / 2, of sun (5 + 14) / 3.
        assert_eq!((&group.known[0].past, &group.known[0].future), (&vec![3.0, 19.0 / 3.0], &vec![3.0]));
        assert_eq!((&group.known[1].past, &group.known[1].future), (&vec![2.0, 3.0], &vec![4.0]));
        assert_eq!(Roles::alone(&panel).covariates(), 0);
    }
}
