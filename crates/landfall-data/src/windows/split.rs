//! Cuts the rows of a series into train, validation and test.

use crate::error::windows::Limits;
use crate::error::windows::WindowError;
use crate::segment::Segment;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::windows::Windows;

/// Rows of the ETT split: 12, 4 and 4 months of 30 days of hours.
const ETT: [usize; 3] = [8640, 2880, 2880];

/// How the rows are divided.
///
/// ```
/// use landfall_data::Split;
/// let split: Split = "0.7,0.1,0.2".parse()?;
/// assert_eq!(split, Split::ratio(0.7, 0.1, 0.2)?);
/// assert_eq!(split.rows(1000)?, [700, 100, 200]);
/// # Ok::<(), landfall_data::DataError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Split {
    /// The split of the hourly ETT benchmarks: 8,640 rows, then 2,880, then 2,880; later rows are unused.
    Ett,
    /// Shares of the rows. Train takes ⌊rows·train⌋, test ⌊rows·test⌋, validation the rest, each product
    /// rounded to `f64` before the floor, as Python's `int(rows * 0.7)` in the benchmarks' own code has
    /// it: a share one rounding below a whole number loses that row there, and so here.
    Ratio {
        /// Share of the training rows.
        train: f64,
        /// Share of the validation rows.
        val: f64,
        /// Share of the test rows.
        test: f64,
    },
    /// The last rows of each series are its test rows, however long it is: `last:24`; with `last` as many as the horizon.
    /// Validation has a tenth of all rows, train the rest.
    Last {
        /// Test rows; 0 stands for the horizon until it is known ([`Split::with_horizon`]).
        rows: usize,
    },
}

/// Share of the validation rows where the test rows are counted.
const VALIDATION: f64 = 0.1;

impl Split {
    /// A split by shares.
    ///
    /// # Errors
    /// [`WindowError::BadRatios`] unless each is above 0 and they sum to 1 within 1e-6.
    pub fn ratio(train: f64, val: f64, test: f64) -> Result<Self, DataError> {
        let sum = train + val + test;
        let positive = [train, val, test].iter().all(|share| *share > 0.0);
        if positive && (sum - 1.0).abs() <= 1e-6 {
            Ok(Self::Ratio { train, val, test })
        } else {
            Err(DataError::Window(WindowError::BadRatios { train, val, test, sum }))
        }
    }

    /// The split of forecasts of so many rows.
    #[must_use]
    pub fn with_horizon(self, horizon: usize) -> Self {
        match self {
            Self::Last { rows: 0 } => Self::Last { rows: horizon },
            Self::Last { .. } | Self::Ett | Self::Ratio { .. } => self,
        }
    }

    /// Rows of train, validation and test, each without the context before it.
    ///
    /// # Errors
    /// [`WindowError::BadRatios`], [`WindowError::TooShortForEtt`].
    pub fn rows(self, rows: usize) -> Result<[usize; 3], DataError> {
        match self {
            Self::Ett => {
                let needed = ETT.iter().sum();
                if rows < needed {
                    Err(DataError::Window(WindowError::TooShortForEtt { needed, rows }))
                } else {
                    Ok(ETT)
                }
            }
            Self::Ratio { train, val, test } => {
                // The variant's fields are public, so they are checked where they are used.
                Self::ratio(train, val, test)?;
                let [train, test] = [train, test].map(|share| (rows as f64 * share) as usize);
                Ok([train, rows.saturating_sub(train + test), test])
            }
            Self::Last { rows: test } => {
                let (test, val) = (test.min(rows), (rows as f64 * VALIDATION) as usize);
                Ok([rows.saturating_sub(test + val), val.min(rows - test), test])
            }
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ett => f.write_str("ett"),
            Self::Ratio { train, val, test } => write!(f, "{train},{val},{test}"),
            Self::Last { rows: 0 } => f.write_str("last"),
            Self::Last { rows } => write!(f, "last:{rows}"),
        }
    }
}

impl FromStr for Split {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        if text.trim() == "ett" {
            return Ok(Self::Ett);
        }
        if let Some(rest) = text.trim().strip_prefix("last") {
            let rows =
                rest.strip_prefix(':').and_then(|rows| rows.trim().parse().ok()).filter(|rows| *rows > 0);
            return match (rest, rows) {
                ("", _) => Ok(Self::Last { rows: 0 }),
                (_, Some(rows)) => Ok(Self::Last { rows }),
                (_, None) => Err(DataError::Window(WindowError::BadSplit { text: text.to_owned() })),
            };
        }
        let shares = text.split(',').map(|share| share.trim().parse()).collect::<Result<Vec<f64>, _>>();
        match shares.as_deref() {
            Ok(&[train, val, test]) => Self::ratio(train, val, test),
            Ok(_) | Err(_) => Err(DataError::Window(WindowError::BadSplit { text: text.to_owned() })),
        }
    }
}

impl TryFrom<String> for Split {
    type Error = DataError;

    fn try_from(text: String) -> Result<Self, DataError> {
        text.parse()
    }
}

impl From<Split> for String {
    fn from(split: Split) -> Self {
        split.to_string()
    }
}

/// Whether validation must hold a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// It must: the weights are chosen by it.
    Required,
    /// It need not: a series too short for a window there has none.
    Optional,
}

/// Row ranges of the three segments, each of which holds at least one window (validation: where it is required).
///
/// Validation and test start one context before their own first row, so that their first window
/// forecasts that row: contexts reach back into the earlier segment, targets never do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments {
    train: Range<usize>,
    val: Range<usize>,
    test: Range<usize>,
    windows: [Windows; 3],
}

impl Segments {
    /// Divides `rows` rows for windows of `context` rows in and `horizon` rows out.
    ///
    /// # Errors
    /// A context or horizon of 0, ratios that are not a partition, a series too short for the split or
    /// for one window in each segment; the last says which windows would fit.
    pub fn new(split: Split, rows: usize, context: usize, horizon: usize) -> Result<Self, DataError> {
        Self::with_validation(split, rows, (context, horizon), Validation::Required)
    }

    /// As [`Segments::new`], with validation required or not.
    ///
    /// # Errors
    /// As [`Segments::new`].
    pub fn with_validation(
        split: Split,
        rows: usize,
        (context, horizon): (usize, usize),
        validation: Validation,
    ) -> Result<Self, DataError> {
        if context == 0 {
            return Err(DataError::Window(WindowError::ZeroContext));
        }
        if horizon == 0 {
            return Err(DataError::Window(WindowError::ZeroHorizon));
        }
        let [train, val, test] = split.rows(rows)?;
        let short = |segment, rows| too_short([train, val, test], (segment, rows), (context, horizon));
        let windows = |segment, range: &Range<usize>| {
            Windows::new(range.clone(), context, horizon).map_err(|_| short(segment, range.len()))
        };
        let of_train = windows(Segment::Train, &(0..train))?;
        // Train holds a window, so it holds a context.
        let (val, test) = (train - context..train + val, train + val - context..train + val + test);
        let train = 0..train;
        let of_val = match (windows(Segment::Validation, &val), validation) {
            (Err(_), Validation::Optional) => Windows::none(val.start, context, horizon),
            (of_val, _) => of_val?,
        };
        let windows = [of_train, of_val, windows(Segment::Test, &test)?];
        Ok(Self { train, val, test, windows })
    }

    /// All of so many rows train, since they have no room for a window that tests.
    pub(crate) fn untested(rows: usize, (context, horizon): (usize, usize)) -> Self {
        let last = rows.saturating_sub(context)..rows;
        let none = Windows::none(last.start, context, horizon);
        let train = Windows::new(0..rows, context, horizon).unwrap_or(Windows::none(0, context, horizon));
        Self { train: 0..rows, val: last.clone(), test: last, windows: [train, none, none] }
    }

    /// Ends the test rows before this row.
    pub(crate) fn test_to(&mut self, end: usize) -> Result<(), DataError> {
        let [.., test] = &mut self.windows;
        *test = Windows::new(self.test.start..end, test.context(), test.horizon())?;
        self.test.end = end;
        Ok(())
    }

    /// Row range of a segment, with the context before it.
    pub fn rows(&self, segment: Segment) -> Range<usize> {
        match segment {
            Segment::Train => self.train.clone(),
            Segment::Validation => self.val.clone(),
            Segment::Test => self.test.clone(),
        }
    }

    /// The windows of a segment.
    pub fn windows(&self, segment: Segment) -> Windows {
        let [train, val, test] = self.windows;
        match segment {
            Segment::Train => train,
            Segment::Validation => val,
            Segment::Test => test,
        }
    }
}

/// The error of a segment of so many rows, with the windows that would fit. Validation and test have the context for
/// free, so only the horizon is bound to their rows.
fn too_short(
    [train, val, test]: [usize; 3],
    (segment, rows): (Segment, usize),
    (context, horizon): (usize, usize),
) -> DataError {
    let shortest = val.min(test);
    let limits = Limits {
        context,
        horizon,
        max_horizon: train.saturating_sub(context).min(shortest),
        max_context: if horizon <= shortest { train.saturating_sub(horizon) } else { 0 },
        max_window: if shortest > 0 && train > 1 { train } else { 0 },
    };
    DataError::Window(WindowError::TooShort { segment, rows, limits })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(split: Split, rows: usize, context: usize, horizon: usize) -> String {
        Segments::new(split, rows, context, horizon).expect_err("must be refused").to_string()
    }

    #[test]
    fn ett_rows_and_window_counts() {
        for (horizon, train, rest, whole) in [
            (96, 8209, 2785, 2688),
            (192, 8113, 2689, 2688),
            (336, 7969, 2545, 2432),
            (720, 7585, 2161, 2048),
        ] {
            let segments = Segments::new(Split::Ett, 17_420, 336, horizon).expect("long enough");
            assert_eq!(segments.rows(Segment::Train), 0..8640);
            assert_eq!(segments.rows(Segment::Validation), 8304..11_520);
            assert_eq!(segments.rows(Segment::Test), 11_184..14_400);
            assert_eq!(Segment::ALL.map(|s| segments.windows(s).count()), [train, rest, rest]);
            assert_eq!(segments.windows(Segment::Test).drop_last(128), whole);
        }
    }

    #[test]
    fn ratios_floor_as_python_does() {
        // int(90 * 0.7) is 62 in Python (62.99999999999999), int(10 * 0.7) is 7.
        let split = "0.7,0.1,0.2".parse::<Split>().expect("ratios");
        assert_eq!(split.rows(90).expect("rows"), [62, 10, 18]);
        assert_eq!(split.rows(10).expect("rows"), [7, 1, 2]);
        assert_eq!(split.rows(52_696).expect("rows"), [36_887, 5_270, 10_539]);
    }

    #[test]
    fn text_round_trips() {
        for text in ["ett", "0.7,0.1,0.2", "0.6,0.2,0.2", "last", "last:24"] {
            let split: Split = text.parse().expect(text);
            assert_eq!(split.to_string(), text);
            let json = serde_json::to_string(&split).expect("json");
            assert_eq!(serde_json::from_str::<Split>(&json).expect("json"), split);
        }
        assert_eq!(" 0.7, 0.1, 0.2 ".parse::<Split>().expect("spaces").to_string(), "0.7,0.1,0.2");
    }

    #[test]
    fn the_last_rows_test_however_long_a_series_is() {
        let split: Split = "last".parse().expect("a split");
        let of = |rows: usize| split.with_horizon(12).rows(rows).expect("rows");
        assert_eq!([of(100), of(40), of(5)], [[78, 10, 12], [24, 4, 12], [0, 0, 5]]);
        assert_eq!("last:24".parse::<Split>().expect("a split").with_horizon(12), Split::Last { rows: 24 });
    }

    #[test]
    fn what_is_no_split_is_refused() {
        let text = |text: &str| text.parse::<Split>().expect_err(text).to_string();
        for bad in ["", "etth1", "0.7,0.3", "0.7,0.1,0.1,0.1", "a,b,c", "last:0", "last12", "last:x"] {
            let expected = format!(
                "split `{bad}` cannot be read; write three ratios as `0.7,0.1,0.2`, `last` or `last:24` for the last rows as the \
                 test rows, or `ett`"
            );
            assert_eq!(text(bad), expected);
        }
        assert_eq!(
            text("0.5,0.25,0.5"),
            "split 0.5,0.25,0.5: the ratios must sum to 1, and their sum is 1.25; correct them"
        );
        assert_eq!(text("1,0,0"), "split 1,0,0: each ratio must be above 0, and the 2nd is 0; correct it");
        assert_eq!(
            text("nan,0.5,0.5"),
            "split NaN,0.5,0.5: each ratio must be above 0, and the 1st is NaN; correct it"
        );
        let built = Split::Ratio { train: 2.0, val: -0.5, test: -0.5 };
        assert_eq!(
            refused(built, 100, 1, 1),
            "split 2,-0.5,-0.5: each ratio must be above 0, and the 2nd is -0.5; correct it"
        );
    }

    #[test]
    fn short_series_are_told_what_fits() {
        let split = Split::ratio(0.7, 0.1, 0.2).expect("ratios");
        assert_eq!(
            refused(Split::Ett, 14_399, 336, 96),
            "split ett needs 14400 rows, the series has 14399; use ratios such as `0.7,0.1,0.2`"
        );
        let or = |sizes| format!("reduce {sizes}, or change split");
        let (either, horizon_alone) = (or("context or horizon"), or("horizon"));
        let context_alone = or("context");
        let none = "no window fits: use a longer series or another split";
        let swapped = Split::ratio(0.7, 0.2, 0.1).expect("ratios");
        let short = Split::ratio(0.2, 0.4, 0.4).expect("ratios");
        for (split, rows, context, horizon, text) in [
            (
                split,
                1000,
                336,
                365,
                format!(
                    "training split has 700 rows; 701 needed (context 336 + horizon 365): {horizon_alone} (context 336 allows a horizon \
                 up to 100, no context fits horizon 365)"
                ),
            ),
            (
                split,
                1000,
                650,
                96,
                format!(
                    "training split has 700 rows; 746 needed (context 650 + horizon 96): {either} (context 650 allows a horizon up \
                 to 50, horizon 96 allows a context up to 604)"
                ),
            ),
            (
                split,
                1000,
                336,
                101,
                format!(
                    "validation split has 100 rows; 101 needed (horizon 101): {horizon_alone} (context 336 allows a horizon up to 100, no \
                 context fits horizon 101)"
                ),
            ),
            (
                swapped,
                1000,
                336,
                101,
                format!(
                    "test split has 100 rows; 101 needed (horizon 101): {horizon_alone} (context 336 allows a horizon up to 100, no \
                 context fits horizon 101)"
                ),
            ),
            (
                split,
                1000,
                700,
                1,
                format!(
                    "training split has 700 rows; 701 needed (context 700 + horizon 1): {context_alone} (no horizon fits context 700, \
                 horizon 1 allows a context up to 699)"
                ),
            ),
            (split, 3, 1, 1, format!("test split has 0 rows; 1 needed (horizon 1): {none}")),
            (short, 5, 1, 1, format!("training split has 1 row; 2 needed (context 1 + horizon 1): {none}")),
            (
                split,
                0,
                usize::MAX,
                usize::MAX,
                format!(
                    "training split has 0 rows; {0} needed (context {0} + horizon {0}): {none}",
                    usize::MAX
                ),
            ),
        ] {
            assert_eq!(refused(split, rows, context, horizon), text);
        }
        assert_eq!(refused(split, 1000, 0, 1), "the context is 0; give at least 1 row");
        assert_eq!(refused(split, 1000, 1, 0), "the horizon is 0; give at least 1 step");
    }

    proptest! {
        #[test]
        fn segments_cover_the_rows_and_targets_stay_inside(
            rows in 0_usize..5000, train in 1_u32..100, val in 1_u32..100, test in 1_u32..100,
            context in 1_usize..200, horizon in 1_usize..100,
        ) {
            let sum = f64::from(train + val + test);
            let [train, val, test] = [train, val, test].map(|share| f64::from(share) / sum);
            let split = Split::ratio(train, val, test).expect("a partition");
            let Ok(segments) = Segments::new(split, rows, context, horizon) else { return Ok(()) };
            let [train, val, test] = Segment::ALL.map(|s| segments.rows(s));
            prop_assert_eq!(train.start, 0);
            prop_assert_eq!(val.start + context, train.end);
            prop_assert_eq!(test.start + context, val.end);
            prop_assert_eq!(test.end, rows);
            for segment in Segment::ALL {
                let range = segments.rows(segment);
                let own = if segment == Segment::Train { 0 } else { range.start + context };
                let windows = segments.windows(segment);
                let starts: Vec<_> = windows.starts().collect();
                prop_assert_eq!(starts.len(), range.len() - context - horizon + 1);
                prop_assert_eq!(starts.first(), Some(&range.start));
                for start in starts {
                    let target = windows.target(start);
                    prop_assert_eq!(target.len(), horizon);
                    prop_assert!(target.start >= own && target.end <= range.end);
                }
            }
        }

        #[test]
        fn the_named_limits_are_the_limits(
            rows in 0_usize..300, context in 1_usize..200, horizon in 1_usize..100,
        ) {
            let split = Split::ratio(0.7, 0.1, 0.2).expect("ratios");
            let fits = |context, horizon| Segments::new(split, rows, context, horizon).is_ok();
            let Err(DataError::Window(WindowError::TooShort { limits, .. })) = Segments::new(split, rows, context, horizon) else {
                return Ok(());
            };
            prop_assert_eq!(limits.max_horizon > 0, fits(context, limits.max_horizon));
            prop_assert!(!fits(context, limits.max_horizon + 1));
            prop_assert_eq!(limits.max_context > 0, fits(limits.max_context, horizon));
            prop_assert!(!fits(limits.max_context + 1, horizon));
            prop_assert_eq!(limits.max_window > 0, fits(limits.max_window.saturating_sub(1), 1));
            prop_assert!((1..=limits.max_window).all(|h| !fits(limits.max_window + 1 - h, h)));
        }
    }
}
