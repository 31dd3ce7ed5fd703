//! The seasonal period of data: after how many rows its pattern repeats.
//!
//! The dates say it first: 12 for months, 24 for hours. Windows count rows, so that where dates skip the same times in each
//! day, week or year the period is the number of rows that are there: 10 for the hours from 8 to 17, 5 for days from Monday to
//! Friday ([`rows_of`]). Where they say nothing (years, no dates) the autocorrelation
//! does. It is that of the values without their straight line, `r(k)` at lag `k`, the mean over columns and series, of the
//! training share of the rows. A period is a peak of `r` after its first zero crossing that chance does not explain:
//! above `z · s`, where `s = sqrt((1 + 2 Σ r(j)²) / n)`, the sum over the lags before the crossing, is the standard error of
//! a series that remembers no longer than that (Bartlett), or above `z / sqrt(n)` both in the values and in their
//! differences, which a random walk is not. `z = sqrt(2 ln L) + 0.5` allows for the best of `L` lags. Of such peaks
//! the first counts that has 80 % of the highest, since multiples of a period are peaks too; and of the lags about it the
//! one with the largest `r(k) + r(2k)`, since noise moves a peak.

use crate::dates::frequency::Frequency;
use crate::series::Series;
use chrono::{Datelike, NaiveDateTime, TimeDelta};
use serde::Serialize;
use std::collections::BTreeMap;

/// Share of the rows that are looked at: those that train by default.
const TRAIN: f64 = 0.7;

/// Most rows of a series, columns of a panel and lags that are looked at.
const ROWS: usize = 20_000;
const COLUMNS: usize = 20;
const LAGS: usize = 1500;

/// A seasonal period, and where it is known from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Season {
    /// Rows after which the pattern repeats; 1 where none was found.
    pub period: usize,
    /// Where the period is known from, in words.
    pub why: String,
}

impl Season {
    /// The season of series with this frequency.
    pub fn find(frequency: Option<Frequency>, series: &[Series]) -> Self {
        let rows = series.iter().map(Series::rows).max().unwrap_or(0);
        let named = frequency.map(|f| (calendar(f), f)).filter(|(spans, _)| !spans.is_empty());
        if let Some((spans, frequency)) = named {
            let counted: Vec<(Span, usize, usize)> = spans
                .into_iter()
                .filter_map(|(span, full)| Some((span, full, rows_of(span, full, series)?)))
                .filter(|(.., rows)| *rows > 1)
                .collect();
            let periods: Vec<usize> = counted.iter().map(|(.., rows)| *rows).collect();
            // A period that is not there twice cannot be seen, nor be used.
            let fitting: Vec<usize> = periods.iter().copied().filter(|p| 2 * p <= rows).collect();
            let period = match fitting.as_slice() {
                [] => None,
                [one] => Some(*one),
                several => strongest(series, several),
            };
            if let Some(period) = period {
                let part = counted.iter().find(|(_, full, rows)| *rows == period && rows != full);
                let why = match part {
                    Some((span, ..)) => format!("{frequency} dates, {period} rows a {}", span.name()),
                    None => format!("{frequency} dates"),
                };
                return Self { period, why };
            }
            if periods.is_empty() {
                return Self::of_values(series, "no season found".to_owned());
            }
            let needed = 2 * periods.iter().min().copied().unwrap_or(1);
            let why = format!("{frequency} dates need {needed} rows for a season, there are {rows}");
            return Self::of_values(series, why);
        }
        Self::of_values(series, "no season found".to_owned())
    }

    /// The season that the values alone have; `otherwise` says why there is none.
    fn of_values(series: &[Series], otherwise: String) -> Self {
        let Some(acf) = Autocorrelation::of(series, LAGS) else {
            return Self { period: 1, why: otherwise };
        };
        match acf.period() {
            Some(period) => {
                let r = acf.values.get(period).copied().unwrap_or(0.0);
                Self { period, why: format!("autocorrelation {r:.2} after {period} rows") }
            }
            None => Self { period: 1, why: otherwise },
        }
    }
}

/// A part of the calendar after which patterns repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    Minute,
    Hour,
    Day,
    Week,
    Year,
}

impl Span {
    fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Year => "year",
        }
    }

    /// Its number, ascending in time.
    fn number(self, date: NaiveDateTime) -> i64 {
        let days = i64::from(date.num_days_from_ce()) - 1;
        match self {
            Self::Minute => date.and_utc().timestamp().div_euclid(60),
            Self::Hour => date.and_utc().timestamp().div_euclid(3600),
            Self::Day => days,
            Self::Week => days.div_euclid(7),
            Self::Year => i64::from(date.year()),
        }
    }
}

/// Spans that a frequency makes likely, with the rows of each where no date is skipped: those of an hour, a day, a week or a
/// year.
fn calendar(frequency: Frequency) -> Vec<(Span, usize)> {
    let whole = |n: u32, of: u32| {
        if of.is_multiple_of(n) && of > n { vec![(Span::Year, (of / n) as usize)] } else { Vec::new() }
    };
    match frequency {
        Frequency::Monthly { months, .. } => whole(months, 12),
        Frequency::Weekly { weeks, .. } => whole(weeks, 52),
        Frequency::BusinessDays => vec![(Span::Week, 5)],
        Frequency::Regular { step } if step == TimeDelta::days(1) => vec![(Span::Week, 7)],
        Frequency::Regular { step } => {
            let step = step.num_nanoseconds().unwrap_or(0);
            let minute = 60_000_000_000_i64;
            // An hour is a season of what is sampled every minute or more often, a minute of what is sampled more often.
            let spans = [
                (Span::Day, 1440 * minute, i64::MAX),
                (Span::Hour, 60 * minute, minute),
                (Span::Minute, minute, minute - 1),
            ];
            let within = spans
                .iter()
                .filter(|(_, span, most)| step > 0 && step <= *most && span % step == 0 && *span > step);
            within.filter_map(|(of, span, _)| Some((*of, usize::try_from(span / step).ok()?))).collect()
        }
        Frequency::Irregular { .. } | Frequency::Unknown => Vec::new(),
    }
}

/// The rows that most spans have, of the whole ones between the first and the last of each series; `full` where there is none
/// to count. `None` where less than half of them have one number of rows: then dates tell no period.
fn rows_of(span: Span, full: usize, series: &[Series]) -> Option<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let every = series.len().div_ceil(COLUMNS).max(1);
    for dates in series.iter().step_by(every).filter_map(Series::dates) {
        let values = dates.values();
        let seen = values.get(values.len().saturating_sub(ROWS)..).unwrap_or_default();
        let mut groups: Vec<(i64, usize)> = Vec::new();
        for date in seen {
            match groups.last_mut() {
                Some((number, rows)) if *number == span.number(*date) => *rows += 1,
                _ => groups.push((span.number(*date), 1)),
            }
        }
        let whole = groups.get(1..groups.len().saturating_sub(1)).unwrap_or_default();
        whole.iter().for_each(|(_, rows)| *counts.entry(*rows).or_insert(0) += 1);
    }
    let all: usize = counts.values().sum();
    let Some((&rows, &most)) = counts.iter().max_by_key(|(_, count)| **count) else { return Some(full) };
    // A year of 52 weeks has a 53rd one now and then.
    let is_full = rows == full || (span == Span::Year && full > 12 && rows.abs_diff(full) <= 1);
    match (is_full, 2 * most >= all) {
        (true, _) => Some(full),
        (false, true) => Some(rows),
        (false, false) => None,
    }
}

/// The period at which the autocorrelation is highest above that of half the period: at a short lag it is high for a
/// slow wave too, and as high half way.
fn strongest(series: &[Series], periods: &[usize]) -> Option<usize> {
    let at = |period: &usize| {
        let at = |x: &[f64], lag: usize| autocorrelation(x, lag..lag + 1)?.pop();
        let above = |x: &[f64]| Some(at(x, *period)? - at(x, period / 2)?);
        let values: Vec<f64> = columns(series).into_iter().filter_map(|x| above(&detrended(x))).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    periods.iter().map(|p| (*p, at(p))).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(period, _)| period)
}

/// The training rows of the columns, those of a longer series cut.
fn columns(series: &[Series]) -> Vec<&[f64]> {
    let all = series.iter().flat_map(|s| {
        let end = (s.rows() as f64 * TRAIN) as usize;
        s.values().iter().filter_map(move |v| v.get(end.saturating_sub(ROWS)..end))
    });
    // A step through all of them, where they are many.
    let every = series.iter().map(Series::channels).sum::<usize>().div_ceil(COLUMNS).max(1);
    all.step_by(every).collect()
}

/// Mean autocorrelations over columns, at lags from 0 to twice the longest period that is looked for.
struct Autocorrelation {
    values: Vec<f64>,
    /// Those of the differences from row to row.
    differences: Vec<f64>,
    rows: usize,
    /// The longest period that is looked for.
    longest: usize,
}

impl Autocorrelation {
    /// `None` where no column has enough rows or any variance.
    fn of(series: &[Series], most: usize) -> Option<Self> {
        let columns = columns(series);
        let rows = columns.iter().map(|x| x.len()).max().filter(|rows| *rows >= 9)?;
        let longest = (rows / 3).min(most);
        let lags = 2 * longest;
        let mean = |each: &dyn Fn(&[f64]) -> Vec<f64>| {
            let all: Vec<Vec<f64>> = columns
                .iter()
                .filter(|x| x.len() == rows)
                .filter_map(|x| autocorrelation(&each(x), 0..lags + 1))
                .collect();
            let at = |lag: usize| all.iter().filter_map(|r| r.get(lag)).sum::<f64>() / all.len() as f64;
            (!all.is_empty()).then(|| (0..=lags).map(at).collect::<Vec<f64>>())
        };
        let steps = |x: &[f64]| x.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()?)).collect();
        Some(Self { values: mean(&detrended)?, differences: mean(&steps)?, rows, longest })
    }

    /// The first of the highest peaks that chance does not explain.
    fn period(&self) -> Option<usize> {
        let (r, n) = (&self.values, self.rows as f64);
        let at = |of: &[f64], lag: usize| of.get(lag).copied().unwrap_or(f64::NEG_INFINITY);
        let zero = r.iter().take(self.longest).position(|r| *r <= 0.0)?;
        let z = (2.0 * (self.longest as f64).ln()).sqrt() + 0.5;
        let memory: f64 = r.iter().take(zero).skip(1).map(|r| r * r).sum();
        let (wide, narrow) = (z * ((1.0 + 2.0 * memory) / n).sqrt(), z / n.sqrt());
        let peak = |&lag: &usize| {
            let value = at(r, lag);
            let differences =
                (lag - 1..lag + 2).map(|lag| at(&self.differences, lag)).fold(f64::MIN, f64::max);
            let top = value > at(r, lag - 1) && value >= at(r, lag + 1);
            top && (value > wide || (value > narrow && differences > narrow))
        };
        let peaks: Vec<usize> = (zero.max(1) + 1..self.longest).filter(peak).collect();
        let highest = peaks.iter().map(|lag| at(r, *lag)).fold(f64::MIN, f64::max);
        let first = peaks.into_iter().find(|lag| at(r, *lag) >= 0.8 * highest)?;
        let twice = |lag: &usize| at(r, *lag) + r.get(2 * lag).copied().unwrap_or(0.0);
        let about = (first - first / 8).max(2)..(first + first / 4 + 1).min(self.longest + 1);
        about.max_by(|a, b| twice(a).total_cmp(&twice(b)))
    }
}

/// The values without the straight line that fits them best.
fn detrended(x: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let mean = x.iter().sum::<f64>() / n;
    let time = |i: usize| i as f64 - middle;
    let along: f64 = x.iter().enumerate().map(|(i, x)| time(i) * (x - mean)).sum();
    let squares: f64 = (0..x.len()).map(|i| time(i) * time(i)).sum();
    let slope = if squares > 0.0 { along / squares } else { 0.0 };
    x.iter().enumerate().map(|(i, x)| x - mean - slope * time(i)).collect()
}

/// Autocorrelations at these lags; `None` for values without variance, or with more than floats hold.
fn autocorrelation(x: &[f64], lags: std::ops::Range<usize>) -> Option<Vec<f64>> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let x: Vec<f64> = x.iter().map(|x| x - mean).collect();
    let variance: f64 = x.iter().map(|x| x * x).sum();
    let at = |lag: usize| {
        let later = x.get(lag..).unwrap_or_default();
        later.iter().zip(&x).map(|(a, b)| a * b).sum::<f64>() / variance
    };
    (variance > 0.0 && variance.is_finite()).then(|| lags.map(at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dates::Dates;
    use crate::dates::form::DateForm;
    use chrono::{Timelike, Weekday};

    /// Numbers between -1 and 1 with variance 1/3.
    fn noise(seed: u64, n: usize) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as f64 / u64::MAX as f64 * 2.0 - 1.0
        };
        (0..100).for_each(|_| {
            next();
        });
        (0..n).map(|_| next()).collect()
    }

    fn period(values: Vec<f64>) -> usize {
        let series = Series::new("s", vec!["a".to_owned()], vec![values], None).expect("a series");
        Season::find(None, &[series]).period
    }

    #[test]
    fn a_wave_in_noise_is_found() {
        for p in [4, 7, 11, 24, 52] {
            let wave = |(i, e): (usize, f64)| {
                let phase = std::f64::consts::TAU * i as f64 / p as f64;
                1.2 * phase.sin() + e + 0.05 * i as f64
            };
            assert_eq!(period(noise(p as u64, 12 * p).into_iter().enumerate().map(wave).collect()), p);
        }
        // A pattern of a few rows, and no wave.
        let weekly: Vec<f64> =
            noise(3, 200).iter().enumerate().map(|(i, e)| e + if i % 7 > 4 { 3.0 } else { 0.0 }).collect();
        assert_eq!(period(weekly), 7);
    }

    #[test]
    fn what_has_no_season_has_period_1() {
        let mut found = 0;
        for seed in 0..60 {
            let white = noise(seed, 300);
            let walk = |e: &[f64], memory: f64| {
                let step = |sum: &mut f64, e: &f64| {
                    *sum = *sum * memory + e;
                    Some(*sum)
                };
                e.iter().scan(0.0, step).collect::<Vec<f64>>()
            };
            let trend = white.iter().enumerate().map(|(i, e)| e + i as f64).collect();
            for values in [walk(&white, 1.0), walk(&white, 0.8), trend, white] {
                found += usize::from(period(values) != 1);
            }
        }
        assert!(found <= 3, "{found} of 240");
        assert_eq!(
            [period(vec![1.0; 50]), period(vec![1.0, 2.0]), period((0..50).map(f64::from).collect())],
            [1; 3]
        );
    }

    #[test]
    fn dates_say_the_period_first() {
        let series = |values| Series::new("s", vec!["a".to_owned()], vec![values], None).expect("a series");
        let of = |step: TimeDelta, rows| {
            Season::find(Some(Frequency::Regular { step }), &[series(noise(1, rows))]).period
        };
        assert_eq!(of(TimeDelta::hours(1), 100), 24);
        assert_eq!(of(TimeDelta::minutes(30), 100), 48);
        assert_eq!(of(TimeDelta::minutes(15), 200), 96);
        assert_eq!(of(TimeDelta::minutes(10), 400), 144);
        assert_eq!(of(TimeDelta::days(1), 100), 7);
        let weeks = Frequency::Weekly { weeks: 1, weekday: Weekday::Sun };
        assert_eq!(Season::find(Some(weeks), &[series(noise(1, 200))]).period, 52);
        let short = Season::find(Some(weeks), &[series(noise(1, 100))]);
        assert_eq!(
            (short.period, short.why.as_str()),
            (1, "weekly (Sunday) dates need 104 rows for a season, there are 100")
        );
        let kept = |step: TimeDelta, rows: i32, keep: &dyn Fn(NaiveDateTime) -> bool| {
            let start = chrono::NaiveDate::from_ymd_opt(2021, 1, 6).and_then(|d| d.and_hms_opt(0, 0, 0));
            let all = (0..rows).map(|i| start.expect("a date") + step * i).filter(|date| keep(*date));
            let dates = Dates::new("ds", DateForm::new("%Y-%m-%d %H:%M").expect("a form"), all.collect());
            let dates = dates.expect("ascending");
            let values = vec![noise(1, dates.values().len())];
            let series = Series::new("s", vec!["a".to_owned()], values, Some(dates)).expect("a series");
            crate::series::panel::Panel::from(series).season()
        };
        let workday = |date: NaiveDateTime| date.weekday().num_days_from_monday() < 5;
        let hour = |date: NaiveDateTime, hours: std::ops::Range<u32>| hours.contains(&date.hour());
        let hours = TimeDelta::hours(1);
        // Ten hours of the days from Monday to Friday; half hours of trading; shifts over midnight; days of a weekend.
        let ten = kept(hours, 2000, &|d| workday(d) && hour(d, 8..18));
        assert_eq!((ten.period, ten.why.as_str()), (10, "hourly dates, 10 rows a day"));
        assert_eq!(kept(TimeDelta::minutes(30), 3000, &|d| workday(d) && hour(d, 9..16)).period, 14);
        assert_eq!(kept(hours, 2000, &|d| !hour(d, 6..22)).period, 8);
        assert_eq!(kept(TimeDelta::days(1), 400, &|d| d.weekday().num_days_from_monday() >= 4).period, 3);
        assert_eq!(kept(TimeDelta::days(1), 400, &|d| d.weekday() != Weekday::Sun).period, 6);
        // A few missing rows change nothing.
        let few = kept(hours, 2000, &|d| d.and_utc().timestamp() / 3600 % 97 != 0);
        assert_eq!((few.period, few.why.as_str()), (24, "hourly dates"));
        // Minutes: a wave of an hour, or of a day.
        for p in [60, 1440] {
            let wave = |(i, e): (usize, f64)| (std::f64::consts::TAU * i as f64 / p as f64).sin() + 0.2 * e;
            let values = noise(2, 5000).into_iter().enumerate().map(wave).collect();
            let minutes = Frequency::Regular { step: TimeDelta::minutes(1) };
            assert_eq!(Season::find(Some(minutes), &[series(values)]).period, p);
        }
    }
}
