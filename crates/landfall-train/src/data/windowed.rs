//! A panel whose rows are divided and scaled: windows that can be numbered.

use super::baseline::Part;
use super::{DataError, Panel, Scaler, Segment, Segments, Series, Split, Validation};

/// A series with the rows of its segments and the scaler of its training rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The series.
    pub series: Series,
    /// Its scaler.
    pub scaler: Scaler,
    /// Its rows, divided.
    pub segments: Segments,
}

/// Series of a panel that hold windows. Each is divided in time and scaled on its own: no window crosses from one
/// series into another, and no series lends another its mean or spread.
///
/// ```
/// use landfall_train::data::{Segment, Split, WindowedPanel, synthetic};
/// let panel = synthetic::demo(200, 2, 1)?.into();
/// let windowed = WindowedPanel::fit(panel, Split::ratio(0.7, 0.1, 0.2)?, 24, 6)?; // context, horizon
/// let segments = &windowed.members()[0].segments;
/// assert_eq!(segments.windows(Segment::Train).count(), 140 - 24 - 6 + 1);
/// # Ok::<(), landfall_train::data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WindowedPanel {
    members: Vec<Member>,
    targets: usize,
    known: usize,
    left_out: Vec<String>,
}

impl WindowedPanel {
    /// Divides each series by the same rule and fits its scaler on its training rows. Of several series, those too
    /// short for a window in each segment are left out.
    ///
    /// # Errors
    /// What [`Segments::new`] refuses, for an only series; [`DataError::AllTooShort`]; what [`Scaler::fit`] refuses.
    pub fn fit(panel: Panel, split: Split, context: usize, horizon: usize) -> Result<Self, DataError> {
        Self::fit_with(panel, split, (context, horizon), Validation::Required)
    }

    /// As [`WindowedPanel::fit`], with validation required or not.
    ///
    /// # Errors
    /// As [`WindowedPanel::fit`].
    pub fn fit_with(
        panel: Panel,
        split: Split,
        sizes: (usize, usize),
        validation: Validation,
    ) -> Result<Self, DataError> {
        let scales = panel.scales.clone();
        let over_all = Scaler::of_series(panel.series());
        let scale = |s: &Series, segments: &Segments| {
            let own = Scaler::fit(s, segments.rows(Segment::Train))?;
            own.scaled_as(&scales, &over_all).map(Some)
        };
        Self::new(panel, split, sizes, validation, scale)
    }

    /// As [`WindowedPanel::fit_with`], with values as they are.
    ///
    /// # Errors
    /// As [`WindowedPanel::fit`], but for scaling.
    pub fn unscaled(
        panel: Panel,
        split: Split,
        sizes: (usize, usize),
        validation: Validation,
    ) -> Result<Self, DataError> {
        let scale = |s: &Series, _: &Segments| {
            Scaler::new(vec![0.0; s.channels()], vec![1.0; s.channels()]).map(Some)
        };
        Self::new(panel, split, sizes, validation, scale)
    }

    /// As [`WindowedPanel::fit`] with scalers that were fit before, by the name of their series, and with or without
    /// windows in validation; series without a scaler are left out. The only scaler there is serves an only series, whatever its name.
    ///
    /// # Errors
    /// As [`WindowedPanel::fit`]; [`DataError::NoKnownSeries`].
    pub fn with_scalers(
        panel: Panel,
        split: Split,
        (context, horizon): (usize, usize),
        scalers: &[(String, Scaler)],
    ) -> Result<Self, DataError> {
        let file = panel.source();
        let only = panel.series().len() == 1;
        let scale = |s: &Series, _: &Segments| Ok(scaler_of(scalers, s, only).cloned());
        let windowed = Self::new(panel, split, (context, horizon), Validation::Optional, scale)?;
        if windowed.members.is_empty() {
            let known = scalers.iter().map(|(name, _)| name.clone()).collect();
            return Err(DataError::NoKnownSeries { file, known });
        }
        Ok(windowed)
    }

    fn new(
        panel: Panel,
        split: Split,
        sizes: (usize, usize),
        validation: Validation,
        scale: impl Fn(&Series, &Segments) -> Result<Option<Scaler>, DataError>,
    ) -> Result<Self, DataError> {
        let (targets, count, known) = (panel.targets(), panel.series().len(), panel.known().len());
        let (mut members, mut left_out, mut first) = (Vec::new(), Vec::new(), None);
        for series in panel.into_series() {
            match Segments::with_validation(split, series.rows(), sizes, validation) {
                Ok(segments) => match scale(&series, &segments)? {
                    Some(scaler) => members.push(Member { series, scaler, segments }),
                    None => left_out.push(format!(
                        "series `{}` is left out: the run has no scaler for it",
                        series.name()
                    )),
                },
                Err(why @ (DataError::TooShort { .. } | DataError::TooShortForEtt { .. })) if count > 1 => {
                    let rows = series.rows();
                    left_out.push(format!("series `{}` ({rows} rows) is left out: {why}", series.name()));
                    first.get_or_insert((series.name().to_owned(), why));
                }
                Err(why) => return Err(why),
            }
        }
        match first {
            Some((name, why)) if members.is_empty() => {
                Err(DataError::AllTooShort { count, name, why: Box::new(why) })
            }
            Some(_) | None => Ok(Self { members, targets, known, left_out }),
        }
    }

    /// The panel with the test rows of each series to its last row.
    ///
    /// # Errors
    /// As [`Windows::new`](super::Windows::new).
    pub fn to_the_end(mut self) -> Result<Self, DataError> {
        for m in &mut self.members {
            m.segments.test_to(m.series.rows())?;
        }
        Ok(self)
    }

    /// The same windows of the columns to be forecast alone, for whoever holds the others in a dataset.
    ///
    /// # Errors
    /// None: the columns are there.
    pub fn without_covariates(self) -> Result<Self, DataError> {
        let Self { members, targets, left_out, .. } = self;
        let alone = |m: Member| {
            let names = m.series.columns().get(..targets).unwrap_or_default().to_vec();
            let (series, scaler) = (m.series.with_columns(&names)?, m.scaler.of_first(targets)?);
            Ok(Member { series, scaler, ..m })
        };
        let members = members.into_iter().map(alone).collect::<Result<_, DataError>>()?;
        Ok(Self { members, targets, known: 0, left_out })
    }

    /// The series, at least one.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Number of columns that are to be forecast, the first ones.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// Number of columns that are known in advance, the last ones.
    pub fn known(&self) -> usize {
        self.known
    }

    /// Names of the columns, those to be forecast first.
    pub fn columns(&self) -> &[String] {
        self.members.first().map_or(&[], |m| m.series.columns())
    }

    /// Which series were left out and why, a line for each.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The windows of a segment, series by series.
    pub fn parts(&self, segment: Segment) -> Vec<Part<'_>> {
        let part = |m: &'_ Member| m.segments.windows(segment);
        self.members.iter().map(|m| Part { series: &m.series, scaler: &m.scaler, windows: part(m) }).collect()
    }
}

/// The scaler of a series, by its name; the only one there is serves an only series.
pub(crate) fn scaler_of<'a>(
    scalers: &'a [(String, Scaler)],
    series: &Series,
    only: bool,
) -> Option<&'a Scaler> {
    let named = scalers.iter().find(|(name, _)| name == series.name());
    match scalers {
        [one] if only => Some(&one.1),
        _ => named.map(|(_, scaler)| scaler),
    }
}
