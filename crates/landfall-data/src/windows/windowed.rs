//! A panel whose rows are divided and scaled: windows that can be numbered.

use crate::error::DataError;
use crate::error::windows::WindowError;
use crate::segment::Segment;
use crate::series::Series;
use crate::series::panel::Panel;
use crate::windows::Windows;
use crate::windows::scaler::{Scaler, Scaling};
use crate::windows::scalers::Scalers;
use crate::windows::split::{Segments, Split, Validation};

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
/// use landfall_data::{Segment, Split, WindowedPanel, synthetic};
/// let panel = synthetic::demo(200, 2, 1)?.into();
/// let windowed = WindowedPanel::fit(panel, Split::ratio(0.7, 0.1, 0.2)?, 24, 6)?; // context, horizon
/// let segments = &windowed.members()[0].segments;
/// assert_eq!(segments.windows(Segment::Train).count(), 140 - 24 - 6 + 1);
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WindowedPanel {
    members: Vec<Member>,
    targets: usize,
    known: usize,
    left_out: Vec<String>,
    short: Vec<Short>,
}

impl WindowedPanel {
    /// Divides each series by the same rule and fits its scaler on its training rows. Of several series, those too
    /// short for a window in each segment are left out.
    ///
    /// # Errors
    /// What [`Segments::new`] refuses, for an only series; [`WindowError::AllTooShort`]; what [`Scaler::fit`] refuses.
    pub fn fit(panel: Panel, split: Split, context: usize, horizon: usize) -> Result<Self, DataError> {
        let demands = (Validation::Required, Scaling::Standard);
        Self::fit_with(panel, split, (context, horizon), demands)
    }

    /// As [`WindowedPanel::fit`], with validation required or not, and another scaling. With the robust one series that are too
    /// short for windows have a scaler too ([`WindowedPanel::short`]).
    ///
    /// # Errors
    /// As [`WindowedPanel::fit`].
    pub fn fit_with(
        panel: Panel,
        split: Split,
        sizes: (usize, usize),
        (validation, scaling): (Validation, Scaling),
    ) -> Result<Self, DataError> {
        let scales = panel.scales.clone();
        let over_all = Scaler::of_series(panel.series());
        let fit = |s: &Series, segments: Option<&Segments>| {
            let before_test = |segments: &Segments| segments.rows(Segment::Test).start + sizes.0;
            let own = match (scaling, segments) {
                (Scaling::Standard, Some(segments)) => Scaler::fit(s, segments.rows(Segment::Train))?,
                (Scaling::Robust, Some(segments)) => {
                    Scaler::fit_robust(s, segments.rows(Segment::Train), 0..before_test(segments))?
                }
                (Scaling::Robust, None) => Scaler::fit_robust(s, 0..s.rows(), 0..s.rows())?,
                (Scaling::Standard, None) => return Ok(None),
            };
            own.scaled_as(&scales, &over_all).map(Some)
        };
        let mut windowed = Self::new(panel, (split, sizes, validation), fit)?;
        if scaling == Scaling::Robust {
            windowed.lend_scales();
        }
        Ok(windowed)
    }

    /// Series that have no room for a window that tests, by the default recipe: all of their rows train. Series that are shorter
    /// than a context are among the [`WindowedPanel::short`] ones.
    ///
    /// # Errors
    /// As [`Scaler::fit`].
    pub fn untested(panel: Panel, sizes: (usize, usize)) -> Result<Self, DataError> {
        let scales = panel.scales.clone();
        let over_all = Scaler::of_series(panel.series());
        let (targets, known) = (panel.targets(), panel.known().len());
        let (mut members, mut short) = (Vec::new(), Vec::new());
        for series in panel.into_series() {
            let all = 0..series.rows();
            let scaler = Scaler::fit_robust(&series, all.clone(), all)?.scaled_as(&scales, &over_all)?;
            if series.rows() >= sizes.0 {
                let segments = Segments::untested(series.rows(), sizes);
                members.push(Member { series, scaler, segments });
            } else {
                short.push(Short { series, scaler });
            }
        }
        Ok(Self { members, targets, known, left_out: Vec::new(), short })
    }

    /// Zeros have no scale of their own: it is the median of the other series', so that the errors of a series that was never
    /// anything else before its test rows are measured like theirs.
    fn lend_scales(&mut self) {
        for column in 0..self.targets {
            let zeros = |m: &Member| m.scaler.is_constant(column) && m.scaler.mean()[column] == 0.0;
            let mut scales: Vec<f64> =
                self.members.iter().filter(|m| !zeros(m)).map(|m| m.scaler.std()[column]).collect();
            scales.sort_unstable_by(f64::total_cmp);
            let Some(median) = scales.get(scales.len() / 2).copied() else { continue };
            for m in self.members.iter_mut().filter(|m| zeros(m) && m.scaler.std()[column] == 1.0) {
                m.scaler = m.scaler.clone().with_scale(column, median);
            }
        }
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
        let scale = |s: &Series, segments: Option<&Segments>| {
            let one = Scaler::new(vec![0.0; s.channels()], vec![1.0; s.channels()])?;
            Ok(segments.map(|_| one))
        };
        Self::new(panel, (split, sizes, validation), scale)
    }

    /// As [`WindowedPanel::fit`] with scalers that were fit before, by the name of their series, and with or without
    /// windows in validation; series without a scaler are left out. The only scaler there is serves an only series, whatever its name.
    ///
    /// # Errors
    /// As [`WindowedPanel::fit`]; [`WindowError::NoKnownSeries`].
    pub fn with_scalers(
        panel: Panel,
        split: Split,
        (context, horizon): (usize, usize),
        scalers: &Scalers,
    ) -> Result<Self, DataError> {
        let file = panel.source();
        let only = panel.series().len() == 1;
        let scale = |s: &Series, segments: Option<&Segments>| {
            Ok(segments.and_then(|_| scalers.of(s, only)).map(|known| known.scaler.clone()))
        };
        let windowed = Self::new(panel, (split, (context, horizon), Validation::Optional), scale)?;
        if windowed.members.is_empty() {
            return Err(DataError::Window(WindowError::NoKnownSeries { file, known: scalers.names() }));
        }
        Ok(windowed)
    }

    fn new(
        panel: Panel,
        (split, sizes, validation): (Split, (usize, usize), Validation),
        scale: impl Fn(&Series, Option<&Segments>) -> Result<Option<Scaler>, DataError>,
    ) -> Result<Self, DataError> {
        let (targets, count, known) = (panel.targets(), panel.series().len(), panel.known().len());
        let (mut members, mut left_out, mut first) = (Vec::new(), Vec::new(), None);
        let mut short = Vec::new();
        for series in panel.into_series() {
            match Segments::with_validation(split, series.rows(), sizes, validation) {
                Ok(segments) => match scale(&series, Some(&segments))? {
                    Some(scaler) => members.push(Member { series, scaler, segments }),
                    None => left_out.push(format!(
                        "series `{}` is left out: the run has no scaler for it",
                        series.name()
                    )),
                },
                Err(DataError::Window(
                    why @ (WindowError::TooShort { .. } | WindowError::TooShortForEtt { .. }),
                )) if count > 1 => {
                    let rows = series.rows();
                    let own = scale(&series, None)?;
                    let what = match &own {
                        Some(_) => "is forecast by itself, and not tested",
                        None => "is left out",
                    };
                    left_out.push(format!("series `{}` ({rows} rows) {what}: {why}", series.name()));
                    first.get_or_insert((series.name().to_owned(), why));
                    short.extend(own.map(|scaler| Short { series, scaler }));
                }
                Err(why) => return Err(why),
            }
        }
        match first {
            Some((name, why)) if members.is_empty() => {
                Err(DataError::Window(WindowError::AllTooShort { count, name, why: Box::new(why) }))
            }
            Some(_) | None => Ok(Self { members, targets, known, left_out, short }),
        }
    }

    /// The panel with the test rows of each series to its last row.
    ///
    /// # Errors
    /// As [`Windows::new`](crate::windows::Windows::new).
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
        let Self { members, targets, left_out, short, .. } = self;
        let alone = |m: Member| {
            let names = m.series.columns().get(..targets).unwrap_or_default().to_vec();
            let (series, scaler) = (m.series.with_columns(&names)?, m.scaler.of_first(targets)?);
            Ok(Member { series, scaler, ..m })
        };
        let members = members.into_iter().map(alone).collect::<Result<_, DataError>>()?;
        Ok(Self { members, targets, known: 0, left_out, short })
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

    /// Whether there is a window that tests.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        self.members.iter().any(|m| m.segments.windows(Segment::Test).count() > 0)
    }

    /// The series that are too short for windows and can be forecast by themselves.
    #[must_use]
    pub fn short(&self) -> &[Short] {
        &self.short
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

/// A series without windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Short {
    /// The series.
    pub series: Series,
    /// What scales it.
    pub scaler: Scaler,
}

/// Windows of one series to score a forecast on.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The series.
    pub series: &'a Series,
    /// What scales it.
    pub scaler: &'a Scaler,
    /// Its windows.
    pub windows: Windows,
}
