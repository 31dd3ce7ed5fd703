//! The step between the dates of a series, and the dates that follow.

use crate::error::series::SeriesError;
use std::collections::BTreeMap;
use std::fmt;

use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, TimeDelta, Weekday};

use crate::error::DataError;

/// How the dates of a series advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frequency {
    /// A constant step.
    Regular {
        /// The step.
        step: TimeDelta,
    },
    /// A constant number of weeks.
    Weekly {
        /// Weeks per step.
        weeks: u32,
        /// The day that all dates are.
        weekday: Weekday,
    },
    /// Days from Monday to Friday.
    BusinessDays,
    /// A constant number of calendar months (1 monthly, 3 quarterly, 12 yearly).
    Monthly {
        /// Months per step.
        months: u32,
        /// Where in its month each date is.
        day: MonthDay,
    },
    /// Steps differ.
    Irregular {
        /// Row, counted from 0, of the first date that is not one usual step after the date before.
        row: usize,
        /// Date of the row before.
        previous: NaiveDateTime,
        /// Date of the row.
        date: NaiveDateTime,
    },
    /// Fewer than two dates, so there is no step.
    Unknown,
}

/// The day of the month that dates keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MonthDay {
    /// This day; a shorter month takes its last day, so 31 means month ends.
    Day(u32),
    /// The first day that is no Saturday or Sunday.
    FirstBusinessDay,
    /// The last day that is no Saturday or Sunday.
    LastBusinessDay,
}

impl MonthDay {
    /// This day of a month.
    fn of(self, year: i32, month: u32) -> Option<NaiveDate> {
        let last = days_in_month(year, month);
        let first_of = |mut days: Box<dyn Iterator<Item = u32>>| {
            days.find_map(|day| NaiveDate::from_ymd_opt(year, month, day).filter(|d| is_business(*d)))
        };
        match self {
            Self::Day(day) => NaiveDate::from_ymd_opt(year, month, day.min(last)),
            Self::FirstBusinessDay => first_of(Box::new(1..=3)),
            Self::LastBusinessDay => first_of(Box::new((last - 2..=last).rev())),
        }
    }
}

fn is_business(date: NaiveDate) -> bool {
    !matches!(date.weekday(), Weekday::Sat | Weekday::Sun)
}

/// Days from Monday to Friday since an early Monday, for dates that are such days.
fn business_index(date: NaiveDateTime) -> i64 {
    let days = i64::from(date.num_days_from_ce()) - 1;
    days.div_euclid(7) * 5 + days.rem_euclid(7).min(4)
}

/// What the length of a step is counted in.
#[derive(Debug, Clone, Copy)]
enum Ruler {
    Months(MonthDay),
    BusinessDays,
    Nanoseconds,
}

impl Ruler {
    fn of(dates: &[NaiveDateTime]) -> Self {
        match month_day(dates) {
            Some(day) => Self::Months(day),
            None if business_days(dates) => Self::BusinessDays,
            None => Self::Nanoseconds,
        }
    }

    fn length(self, from: NaiveDateTime, to: NaiveDateTime) -> i64 {
        match self {
            Self::Months(_) => month_index(to) - month_index(from),
            Self::BusinessDays => business_index(to) - business_index(from),
            Self::Nanoseconds => nanoseconds(to - from),
        }
    }

    /// The frequency of steps of this length, for dates of which this is one.
    fn frequency(self, step: i64, date: NaiveDateTime) -> Frequency {
        const WEEK: i64 = 7 * 86_400 * 1_000_000_000;
        match (self, u32::try_from(step), u32::try_from(step / WEEK)) {
            (Self::Months(day), Ok(months), _) => Frequency::Monthly { months, day },
            (Self::BusinessDays, _, _) => Frequency::BusinessDays,
            (Self::Nanoseconds, _, Ok(weeks)) if weeks > 0 && step % WEEK == 0 => {
                Frequency::Weekly { weeks, weekday: date.weekday() }
            }
            (Self::Months(_) | Self::Nanoseconds, _, _) => {
                Frequency::Regular { step: TimeDelta::nanoseconds(step) }
            }
        }
    }
}

/// Whether dates are days from Monday to Friday over at least one weekend, most of them one after the other.
fn business_days(dates: &[NaiveDateTime]) -> bool {
    let (Some(first), Some(last)) = (dates.first(), dates.last()) else { return false };
    let days = dates.iter().all(|d| d.time() == first.time() && is_business(d.date()));
    let next = dates
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if business_index(*b) - business_index(*a) == 1));
    days && dates.len() > 5 && (*last - *first).num_days() > 6 && next.count() * 2 >= dates.len()
}

/// A place where ascending dates skip rows: a whole number of steps, more than one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Row, counted from 0, of the first date after the gap.
    pub row: usize,
    /// Date before the gap.
    pub from: NaiveDateTime,
    /// Date after it.
    pub to: NaiveDateTime,
    /// Dates between the two that are not there.
    pub missing: usize,
}

/// The usual step of dates, and where they leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spacing {
    /// The most frequent step: regular, monthly, or unknown.
    pub usual: Frequency,
    /// Where rows are skipped.
    pub gaps: Vec<Gap>,
    /// The first step that is no whole number of usual ones: its row, the date before, its date.
    pub uneven: Option<(usize, NaiveDateTime, NaiveDateTime)>,
}

impl Spacing {
    /// Finds the usual step of ascending dates and the gaps in them.
    ///
    /// Dates that all keep their day of the month and their time are monthly even where the seconds
    /// happen to be constant (July to August to September are 31 days each). The usual step is the most
    /// frequent one, so that a gap in the first rows is itself the gap.
    pub fn of(dates: &[NaiveDateTime]) -> Self {
        let ruler = Ruler::of(dates);
        let pairs = || dates.windows(2).filter_map(|pair| <[NaiveDateTime; 2]>::try_from(pair).ok());
        let lengths: Vec<i64> = pairs().map(|[a, b]| ruler.length(a, b)).collect();
        let mut counts = BTreeMap::new();
        // Most dates are even: one step, as often as there are pairs.
        for same in lengths.chunk_by(i64::eq) {
            same.first().into_iter().for_each(|step| *counts.entry(*step).or_insert(0) += same.len());
        }
        // Of equally frequent steps the smallest: a gap is longer than the usual step.
        let Some((&step, _)) = counts.iter().rev().max_by_key(|(_, count)| **count) else {
            return Self { usual: Frequency::Unknown, gaps: Vec::new(), uneven: None };
        };
        let usual = ruler.frequency(step, dates.first().copied().unwrap_or_default());
        let (mut gaps, mut uneven) = (Vec::new(), None);
        for (i, ([from, to], found)) in pairs().zip(lengths).enumerate() {
            let row = i + 1;
            if step > 0 && found > step && found % step == 0 {
                gaps.push(Gap { row, from, to, missing: usize::try_from(found / step - 1).unwrap_or(0) });
            } else if found != step || step <= 0 {
                uneven.get_or_insert((row, from, to));
            }
        }
        Self { usual, gaps, uneven }
    }

    /// Dates that are not there, over all gaps.
    pub fn missing(&self) -> usize {
        self.gaps.iter().fold(0, |sum, gap| sum.saturating_add(gap.missing))
    }

    /// What is not even about the dates, in words; `None` when they are.
    pub fn irregularity(&self) -> Option<String> {
        /// Gaps that are named one by one.
        const NAMED: usize = 3;
        if let Some((row, from, to)) = self.uneven {
            let usual = &self.usual;
            return Some(format!(
                "row {} steps from {from} to {to}, where the usual step is {usual}",
                row + 1
            ));
        }
        let named = |g: &Gap| format!("{} between {} and {}", g.missing, g.from, g.to);
        let mut text = self.gaps.iter().take(NAMED).map(named).collect::<Vec<_>>().join(", ");
        if let Some(more) = self.gaps.len().checked_sub(NAMED).filter(|more| *more > 0) {
            text += &format!(", and more at {more} other places");
        }
        let (usual, missing) = (&self.usual, self.missing());
        (!self.gaps.is_empty()).then(|| format!("dates are {usual} with {missing} missing: {text}"))
    }
}

impl Frequency {
    /// Finds the step of ascending dates that have no gap: see [`Spacing::of`].
    pub fn detect(dates: &[NaiveDateTime]) -> Self {
        let Spacing { usual, gaps, uneven } = Spacing::of(dates);
        let gap = gaps.first().map(|gap| (gap.row, gap.from, gap.to));
        match gap.into_iter().chain(uneven).min_by_key(|(row, ..)| *row) {
            Some((row, previous, date)) => Self::Irregular { row, previous, date },
            None => usual,
        }
    }

    /// Its name without the day on which dates are; none where there is no step.
    pub(crate) fn name(&self) -> Option<String> {
        match *self {
            Self::Weekly { weeks: 1, .. } => Some("weekly".to_owned()),
            Self::Weekly { weeks, .. } => Some(format!("every {weeks} weeks")),
            Self::Regular { .. } | Self::BusinessDays | Self::Monthly { .. } => Some(self.to_string()),
            Self::Irregular { .. } | Self::Unknown => None,
        }
    }

    /// Whether it is none of these names. `few` dates of one week may be business days or not.
    pub(crate) fn contradicts(&self, names: &[String], few: bool) -> bool {
        let is = |name: &str| names.iter().any(|n| n == name);
        let days = matches!(*self, Self::Regular { step } if step.num_days() < 5 && step == TimeDelta::days(step.num_days()));
        self.name().is_some_and(|name| !(is(&name) || few && days && is("business days")))
    }

    /// Its step alone, whatever day the dates are: the number of its unit, and the unit.
    pub fn step(&self) -> (i64, &'static str) {
        match self {
            Self::Regular { step } => (nanoseconds(*step), "ns"),
            Self::Weekly { weeks, .. } => (i64::from(*weeks), "weeks"),
            Self::BusinessDays => (1, "business days"),
            Self::Monthly { months, .. } => (i64::from(*months), "months"),
            Self::Irregular { .. } | Self::Unknown => (0, "none"),
        }
    }

    /// How many steps lead from one date to another, back ones below 0, parts of a step left out; none where there is no step.
    ///
    /// ```
    /// use chrono::NaiveDate;
    /// use landfall_data::{Frequency, MonthDay};
    /// let day = |year, month| NaiveDate::from_ymd_opt(year, month, 1).and_then(|d| d.and_hms_opt(0, 0, 0)).expect("a day");
    /// let quarterly = Frequency::Monthly { months: 3, day: MonthDay::Day(1) };
    /// assert_eq!(quarterly.steps(day(2024, 4), day(2025, 1)), Some(3));
    /// assert_eq!(quarterly.steps(day(2024, 4), day(2024, 1)), Some(-1));
    /// ```
    #[must_use]
    pub fn steps(&self, from: NaiveDateTime, to: NaiveDateTime) -> Option<i64> {
        let (days, sevenths) = ((to.date() - from.date()).num_days(), |d: NaiveDateTime| {
            // Business days since a Monday, of which a weekend has none.
            i64::from(d.weekday().num_days_from_monday().min(5))
        });
        match *self {
            Self::Regular { step } => nanoseconds(to - from).checked_div(nanoseconds(step)),
            Self::Weekly { weeks, .. } => (days / 7).checked_div(i64::from(weeks)),
            Self::BusinessDays => {
                let mondays = |d: NaiveDateTime| i64::from(d.weekday().num_days_from_monday());
                let weeks = (days - mondays(to) + mondays(from)) / 7;
                Some(5 * weeks + sevenths(to) - sevenths(from))
            }
            Self::Monthly { months, .. } => {
                (month_index(to) - month_index(from)).checked_div(i64::from(months))
            }
            Self::Irregular { .. } | Self::Unknown => None,
        }
    }

    /// The `steps` dates that follow `last`.
    ///
    /// # Errors
    /// [`SeriesError::NoFrequency`] when there is no step, [`SeriesError::PastCalendar`] past the calendar's
    /// end.
    pub fn future(&self, last: NaiveDateTime, steps: usize) -> Result<Vec<NaiveDateTime>, DataError> {
        let past = || DataError::Series(SeriesError::PastCalendar { last, steps });
        match *self {
            Self::Regular { step } => std::iter::successors(Some(last), |date| date.checked_add_signed(step))
                .skip(1)
                .map(Ok)
                .chain(std::iter::repeat_with(|| Err(past())))
                .take(steps)
                .collect(),
            Self::Weekly { weeks, .. } => {
                Self::Regular { step: TimeDelta::weeks(i64::from(weeks)) }.future(last, steps)
            }
            Self::BusinessDays => std::iter::successors(Some(last), |date| {
                let days = match date.weekday() {
                    Weekday::Fri => 3,
                    Weekday::Sat => 2,
                    Weekday::Sun | Weekday::Mon | Weekday::Tue | Weekday::Wed | Weekday::Thu => 1,
                };
                date.checked_add_days(Days::new(days))
            })
            .skip(1)
            .map(Ok)
            .chain(std::iter::repeat_with(|| Err(past())))
            .take(steps)
            .collect(),
            Self::Monthly { months, day } => (1..=steps)
                .map(|i| {
                    let months = i64::try_from(i).ok()?.checked_mul(i64::from(months))?;
                    in_month(month_index(last).checked_add(months)?, day).map(|d| d.and_time(last.time()))
                })
                .map(|date| date.ok_or_else(past))
                .collect(),
            Self::Irregular { .. } | Self::Unknown => {
                Err(DataError::Series(SeriesError::NoFrequency { why: self.to_string() }))
            }
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Regular { step } => {
                let nanos = nanoseconds(step);
                let units = [
                    (86_400_000_000_000, "days", "daily"),
                    (3_600_000_000_000, "hours", "hourly"),
                    (60_000_000_000, "min", "every minute"),
                    (1_000_000_000, "s", "every second"),
                    (1_000_000, "ms", "every 1 ms"),
                    (1_000, "us", "every 1 us"),
                    (1, "ns", "every 1 ns"),
                ];
                match units.iter().find(|(unit, ..)| nanos % unit == 0) {
                    Some((unit, _, one)) if nanos == *unit => f.write_str(one),
                    Some((unit, name, _)) => write!(f, "every {} {name}", nanos / unit),
                    None => write!(f, "every {nanos} ns"),
                }
            }
            Self::Weekly { weeks: 1, weekday } => write!(f, "weekly ({})", day_name(weekday)),
            Self::Weekly { weeks, weekday } => write!(f, "every {weeks} weeks ({})", day_name(weekday)),
            Self::BusinessDays => f.write_str("business days"),
            Self::Monthly { months: 1, .. } => f.write_str("monthly"),
            Self::Monthly { months: 3, .. } => f.write_str("quarterly"),
            Self::Monthly { months: 12, .. } => f.write_str("yearly"),
            Self::Monthly { months, .. } => write!(f, "every {months} months"),
            Self::Irregular { row, previous, date } => {
                write!(f, "irregular, row {} steps from {previous} to {date}", row + 1)
            }
            Self::Unknown => f.write_str("fewer than two dates"),
        }
    }
}

fn day_name(day: Weekday) -> &'static str {
    match day {
        Weekday::Mon => "Monday",
        Weekday::Tue => "Tuesday",
        Weekday::Wed => "Wednesday",
        Weekday::Thu => "Thursday",
        Weekday::Fri => "Friday",
        Weekday::Sat => "Saturday",
        Weekday::Sun => "Sunday",
    }
}

/// The day of the month that all dates keep, if they also keep their time.
fn month_day(dates: &[NaiveDateTime]) -> Option<MonthDay> {
    let time = dates.first()?.time();
    let ends = dates.iter().all(|d| d.day() == days_in_month(d.year(), d.month()));
    let day = if ends { 31 } else { dates.iter().map(Datelike::day).max()? };
    let keeps = |anchor: &MonthDay| {
        dates.iter().all(|d| d.time() == time && anchor.of(d.year(), d.month()) == Some(d.date()))
    };
    [MonthDay::Day(day), MonthDay::LastBusinessDay, MonthDay::FirstBusinessDay].into_iter().find(keeps)
}

/// Saturates beyond 292 years, where dates have no common step but a yearly one.
fn nanoseconds(step: TimeDelta) -> i64 {
    step.num_nanoseconds().unwrap_or(i64::MAX)
}

fn month_index(date: NaiveDateTime) -> i64 {
    i64::from(date.year()) * 12 + i64::from(date.month0())
}

fn in_month(index: i64, day: MonthDay) -> Option<NaiveDate> {
    let year = i32::try_from(index.div_euclid(12)).ok()?;
    let month = u32::try_from(index.rem_euclid(12)).ok()? + 1;
    day.of(year, month)
}

fn days_in_month(year: i32, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dates::form::DateForm;

    fn dates(texts: &[&str]) -> Vec<NaiveDateTime> {
        let form = DateForm::new("%Y-%m-%d %H:%M:%S%.3f").expect("a pattern");
        texts.iter().map(|t| form.read(t).expect(t).local).collect()
    }

    #[test]
    fn steps_lead_to_the_dates_that_follow() {
        let last = dates(&["2024-02-27 12:00:00.000"])[0];
        let monthly = |months, day| Frequency::Monthly { months, day: MonthDay::Day(day) };
        let all = [
            Frequency::Regular { step: TimeDelta::hours(7) },
            Frequency::Weekly { weeks: 2, weekday: Weekday::Tue },
            Frequency::BusinessDays,
            monthly(1, 27),
            monthly(3, 31),
            monthly(12, 1),
        ];
        for frequency in all {
            for (i, date) in frequency.future(last, 40).expect("dates").into_iter().enumerate() {
                let steps = i as i64 + 1;
                assert_eq!(frequency.steps(last, date), Some(steps), "{frequency:?} to {date}");
                assert_eq!(frequency.steps(date, last), Some(-steps), "{frequency:?} from {date}");
            }
        }
        assert_eq!(Frequency::Unknown.steps(last, last), None);
    }

    /// Detects, then continues, and expects the last `n` dates again.
    fn continues(texts: &[&str], n: usize, name: &str) {
        let all = dates(texts);
        let known = &all[..all.len() - n];
        let frequency = Frequency::detect(known);
        assert_eq!(frequency.to_string(), name);
        let last = *known.last().expect("some");
        assert_eq!(frequency.future(last, n).expect("regular"), &all[all.len() - n..]);
    }

    #[test]
    fn constant_steps_continue() {
        continues(
            &["2016-07-01 22:00", "2016-07-01 23:00", "2016-07-02 00:00", "2016-07-02 01:00"],
            2,
            "hourly",
        );
        continues(&["2016-12-31 23:30", "2016-12-31 23:45", "2017-01-01 00:00"], 1, "every 15 min");
        continues(&["2016-02-28", "2016-02-29", "2016-03-01"], 1, "daily");
        continues(
            &["2016-01-01 0:00:00.1", "2016-01-01 0:00:00.2", "2016-01-01 0:00:00.3"],
            1,
            "every 100 ms",
        );
    }

    #[test]
    fn weeks_and_business_days_continue() {
        continues(&["2020-01-05", "2020-01-12", "2020-01-19", "2020-01-26"], 2, "weekly (Sunday)");
        continues(&["2020-01-06", "2020-01-20", "2020-02-03"], 1, "every 2 weeks (Monday)");
        let days = ["02", "03", "06", "07", "08", "09", "10", "13", "14", "15", "16", "17", "20"];
        let days = days.map(|day| format!("2020-01-{day}"));
        let days: Vec<&str> = days.iter().map(String::as_str).collect();
        continues(&days, 5, "business days");
        // A holiday is a gap, a weekend is none.
        let spacing = Spacing::of(&dates(&[&days[..5], &days[6..]].concat()));
        assert_eq!((spacing.usual, spacing.missing(), spacing.gaps.len()), (Frequency::BusinessDays, 1, 1));
        assert_eq!(spacing.usual.future(spacing.gaps[0].from, 1).expect("a day"), dates(&days[5..6]));
        continues(&["2020-01-31", "2020-02-28", "2020-03-31", "2020-04-30", "2020-05-29"], 1, "monthly");
        continues(&["2020-02-03", "2020-03-02", "2020-04-01", "2020-05-01", "2020-06-01"], 2, "monthly");
        // Mondays, Wednesdays and Fridays are no business days.
        let odd = dates(&[
            "2020-01-06",
            "2020-01-08",
            "2020-01-10",
            "2020-01-13",
            "2020-01-15",
            "2020-01-17",
            "2020-01-20",
        ]);
        assert!(Spacing::of(&odd).uneven.is_some());
    }

    #[test]
    fn calendar_steps_continue() {
        continues(&["2016-12-31", "2017-01-31", "2017-02-28", "2017-03-31", "2017-04-30"], 2, "monthly");
        continues(&["2016-12-30", "2017-01-30", "2017-02-28", "2017-03-30"], 1, "monthly");
        // 31 days each, and still monthly.
        continues(&["2016-07-01", "2016-08-01", "2016-09-01", "2016-10-01", "2016-11-01"], 2, "monthly");
        continues(&["2016-03-31", "2016-06-30", "2016-09-30", "2016-12-31"], 1, "quarterly");
        continues(&["2016-06-30", "2016-09-30", "2016-12-31"], 1, "quarterly");
        continues(&["2015-01-01", "2016-01-01", "2017-01-01", "2018-01-01"], 1, "yearly");
        continues(&["2016-02-29", "2017-02-28", "2018-02-28", "2019-02-28", "2020-02-29"], 2, "yearly");
    }

    #[test]
    fn the_first_gap_is_named() {
        for (texts, text) in [
            (
                &["2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 02:00", "2016-07-01 04:00"][..],
                "irregular, row 4 steps from 2016-07-01 02:00:00 to 2016-07-01 04:00:00",
            ),
            (
                &["2016-07-01", "2016-07-03", "2016-07-04", "2016-07-05"],
                "irregular, row 2 steps from 2016-07-01 00:00:00 to 2016-07-03 00:00:00",
            ),
            (
                &["2016-07-01", "2016-07-03", "2016-07-04"],
                "irregular, row 2 steps from 2016-07-01 00:00:00 to 2016-07-03 00:00:00",
            ),
            (
                &["2016-01-01", "2016-02-01", "2016-03-01", "2016-05-01"],
                "irregular, row 4 steps from 2016-03-01 00:00:00 to 2016-05-01 00:00:00",
            ),
        ] {
            let frequency = Frequency::detect(&dates(texts));
            assert_eq!(frequency.to_string(), text);
            let error = frequency.future(dates(texts)[0], 1).expect_err("irregular").to_string();
            assert_eq!(
                error,
                format!("the dates cannot be continued: {text}; give evenly spaced dates or none")
            );
        }
        let one = dates(&["2016-07-01"]);
        assert_eq!(Frequency::detect(&one), Frequency::Unknown);
        assert_eq!(Frequency::detect(&[]), Frequency::Unknown);
        assert_eq!(Frequency::detect(&[one[0], one[0]]).to_string().split(',').next(), Some("irregular"));
    }

    #[test]
    fn gaps_are_counted_in_steps() {
        let text = |texts: &[&str]| Spacing::of(&dates(texts)).irregularity();
        assert_eq!(text(&["2016-07-01 00:00", "2016-07-01 00:15", "2016-07-01 00:30"]), None);
        let hourly = ["2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 02:00", "2016-07-01 06:00"];
        let spacing = Spacing::of(&dates(&hourly));
        assert_eq!((spacing.missing(), spacing.gaps[0].row, spacing.uneven), (3, 3, None));
        assert_eq!(
            text(&hourly).expect("a gap"),
            "dates are hourly with 3 missing: 3 between 2016-07-01 02:00:00 and 2016-07-01 06:00:00"
        );
        let monthly = ["2016-01-31", "2016-02-29", "2016-05-31", "2016-06-30", "2016-07-31"];
        assert_eq!(
            text(&monthly).expect("a gap"),
            "dates are monthly with 2 missing: 2 between 2016-02-29 00:00:00 and 2016-05-31 00:00:00"
        );
        let days: Vec<String> = [1, 2, 3, 5, 6, 8, 9, 11, 12, 14].map(|d| format!("2016-07-{d:02}")).into();
        let days: Vec<&str> = days.iter().map(String::as_str).collect();
        assert!(text(&days).expect("gaps").ends_with(", and more at 1 other places"), "{:?}", text(&days));
        assert_eq!(
            text(&["2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 02:30", "2016-07-01 03:30"])
                .expect("uneven"),
            "row 3 steps from 2016-07-01 01:00:00 to 2016-07-01 02:30:00, where the usual step is hourly"
        );
    }

    #[test]
    fn the_calendar_ends() {
        let last = NaiveDateTime::MAX;
        let hour = Frequency::Regular { step: TimeDelta::hours(1) };
        let error = hour.future(last, 3).expect_err("past the end").to_string();
        assert_eq!(error, format!("3 steps after {last} leave the calendar; check the dates"));
        assert!(Frequency::Monthly { months: 12, day: MonthDay::Day(1) }.future(last, 1).is_err());
    }
}
