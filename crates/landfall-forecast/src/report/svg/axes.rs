//! Axes: scales and the values that are labelled on them.

use chrono::{Datelike, NaiveDateTime, NaiveTime};

/// An affine map of values to the coordinates of a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Scale {
    pub(super) fn at(&self, x: f64) -> f64 {
        self.from + (x - self.low) / (self.high - self.low) * (self.to - self.from)
    }
}

/// The least and the greatest of finite values, widened where they are equal; 0 to 1 where there are none.
pub(super) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = values.filter(|v| v.is_finite()).fold(start, |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        (0.0, 1.0)
    } else if high - low <= 1e-12 * high.abs().max(low.abs()) {
        let half = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
        (low - half, high + half)
    } else {
        (low, high)
    }
}

/// Values 1, 2 or 5 times a power of ten apart, from `low` to `high`, about as many as asked for and at least two of four, with labels.
pub(crate) fn ticks(low: f64, high: f64, about: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / about.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough * 0.75);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let largest = low.abs().max(high.abs());
    let label = |x: f64| {
        if x == 0.0 {
            "0".to_owned()
        } else if !(1e-4..1e7).contains(&largest) {
            let places = (largest.log10().floor() - step.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{x:.places$e}")
        } else {
            let places = (-step.log10().floor()).max(0.0) as usize;
            format!("{x:.places$}")
        }
    };
    let count = (last - first).clamp(-1.0, 50.0) as i32;
    (0..=count).map(|i| (first + f64::from(i)) * step).map(|x| (x, label(x))).collect()
}

/// Row numbers as whole ticks.
pub(crate) fn row_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    ticks(low, high, 5).into_iter().filter(|(x, _)| x.fract().abs() < 1e-9).collect()
}

/// What a tick of an axis of dates stands for.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Minutes(i64),
    Days(i64),
    Months(i64),
}

impl Unit {
    /// Number of the unit that a date lies in.
    fn number(self, d: NaiveDateTime) -> i64 {
        match self {
            Self::Minutes(n) => d.and_utc().timestamp().div_euclid(60 * n),
            // Weeks begin on Monday, and the first day is a Thursday.
            Self::Days(n) => (d.and_utc().timestamp().div_euclid(86_400) + 3).div_euclid(n),
            Self::Months(n) => (i64::from(d.year()) * 12 + i64::from(d.month0())).div_euclid(n),
        }
    }

    fn label(self, d: NaiveDateTime) -> String {
        let form = match self {
            Self::Minutes(_) => "%-d %b %H:%M",
            Self::Days(_) => "%-d %b %Y",
            Self::Months(n) if n < 12 => "%b %Y",
            Self::Months(_) => "%Y",
        };
        d.format(form).to_string()
    }
}

/// From the finest; the first that gives few enough ticks is taken.
const UNITS: [Unit; 25] = [
    Unit::Minutes(1),
    Unit::Minutes(5),
    Unit::Minutes(15),
    Unit::Minutes(30),
    Unit::Minutes(60),
    Unit::Minutes(180),
    Unit::Minutes(360),
    Unit::Minutes(720),
    Unit::Days(1),
    Unit::Days(2),
    Unit::Days(7),
    Unit::Days(14),
    Unit::Months(1),
    Unit::Months(2),
    Unit::Months(3),
    Unit::Months(6),
    Unit::Months(12),
    Unit::Months(24),
    Unit::Months(60),
    Unit::Months(120),
    Unit::Months(240),
    Unit::Months(600),
    Unit::Months(1_200),
    Unit::Months(6_000),
    Unit::Months(12_000),
];

/// Ticks at the first rows of days, months or other units, at most `most`; `first` is the number of the first row.
pub(crate) fn date_ticks(dates: &[NaiveDateTime], first: usize, most: usize) -> Vec<(f64, String)> {
    // Dates without a time of day are labelled without one.
    let timed = dates.iter().any(|d| d.time() != NaiveTime::MIN);
    for unit in UNITS.into_iter().filter(|unit| timed || !matches!(unit, Unit::Minutes(_))) {
        let begins = dates.windows(2).enumerate().filter(|(_, d)| unit.number(d[0]) != unit.number(d[1]));
        let rows: Vec<usize> = begins.map(|(i, _)| i + 1).take(most + 1).collect();
        if rows.len() <= most {
            return rows.into_iter().map(|i| ((first + i) as f64, unit.label(dates[i]))).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Days, NaiveDate};

    #[test]
    fn ticks_are_round() {
        let labels = |low, high| ticks(low, high, 4).into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(-0.3, 1.1), ["0.0", "0.5", "1.0"].map(|t| if t == "0.0" { "0" } else { t }));
        assert_eq!(labels(96.0, 640.0), ["200", "400", "600"]);
        assert_eq!(labels(60.05, 69.95), ["62", "64", "66", "68"]);
        assert_eq!(labels(0.0, 4e9), ["0", "1e9", "2e9", "3e9", "4e9"]);
        assert!(labels(1.0, 1.0).is_empty() && labels(0.0, f64::NAN).is_empty());
        assert_eq!(extent([2.0, f64::NAN, -1.0].into_iter()), (-1.0, 2.0));
        assert_eq!(extent([5.0, 5.0].into_iter()), (4.5, 5.5));
    }

    #[test]
    fn dates_are_labelled_by_what_they_span() {
        let start =
            NaiveDate::from_ymd_opt(2019, 12, 28).and_then(|d| d.and_hms_opt(0, 0, 0)).expect("a date");
        let days = |n: u64| (0..n).map(|i| start + Days::new(i)).collect::<Vec<_>>();
        let texts = |n, first| date_ticks(&days(n), first, 4);
        assert_eq!(texts(4, 10)[0], (11.0, "29 Dec 2019".to_owned()));
        let months: Vec<String> = texts(100, 0).into_iter().map(|t| t.1).collect();
        assert_eq!(months, ["Jan 2020", "Feb 2020", "Mar 2020", "Apr 2020"]);
        assert_eq!(texts(900, 0).iter().map(|t| t.1.as_str()).collect::<Vec<_>>(), ["2020", "2021", "2022"]);
    }
}
