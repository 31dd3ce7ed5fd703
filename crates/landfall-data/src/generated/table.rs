//! Simulated series as a table in long form.

use crate::dates::frequency::{Frequency, MonthDay};
use crate::error::DataError;
use crate::error::generated::GeneratedError;
use crate::generated::kinds::Kind;
use crate::generated::simulator::Simulator;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Weekday};
use std::io::Write;

/// A frequency by the name that the summary of a file gives it, and the kind of series that has it.
type Named = (&'static str, Kind, Frequency);

/// Steps that are a number of minutes.
const fn minutes(name: &'static str, kind: Kind, minutes: i64) -> Named {
    (name, kind, Frequency::Regular { step: TimeDelta::minutes(minutes) })
}

const fn months(name: &'static str, kind: Kind, months: u32) -> Named {
    (name, kind, Frequency::Monthly { months, day: MonthDay::Day(1) })
}

/// Every frequency that a table may have.
const FREQUENCIES: [Named; 9] = [
    months("yearly", Kind::Yearly, 12),
    months("quarterly", Kind::Quarterly, 3),
    months("monthly", Kind::Monthly, 1),
    ("weekly", Kind::Weekly, Frequency::Weekly { weeks: 1, weekday: Weekday::Mon }),
    minutes("daily", Kind::Daily, 24 * 60),
    ("business days", Kind::Daily, Frequency::BusinessDays),
    minutes("hourly", Kind::Hourly, 60),
    minutes("every 30 min", Kind::Minutely, 30),
    minutes("every 15 min", Kind::Minutely, 15),
];

/// Writes `count` series of `length` rows as CSV in long form, `series,date,value`, of a kind of calendar that has this frequency.
///
/// Series are called `s0`, `s1`, …; dates begin in January of 2000; a missing value is an empty cell. Names of frequencies are those
/// of [`Frequency`]: `yearly`, `quarterly`, `monthly`, `weekly`, `daily`, `business days`, `hourly`, `every 30 min`, `every 15 min`.
///
/// ```
/// # fn main() -> Result<(), landfall_data::DataError> {
/// use landfall_data::generated::{Simulator, table};
///
/// let mut text = Vec::new();
/// table(&Simulator::new(1), 2, 3, "monthly", &mut text)?;
/// let text = String::from_utf8_lossy(&text);
/// assert!(text.starts_with("series,date,value\ns0,2000-01-01,"));
/// assert_eq!(text.lines().count(), 1 + 2 * 3);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`GeneratedError::Frequency`] for a name that is none of these, [`GeneratedError::Write`] where `out` cannot be written, and those of
/// [`Frequency::future`] for dates past the end of the calendar.
pub fn table(
    simulator: &Simulator,
    count: u64,
    length: usize,
    frequency: &str,
    out: &mut impl Write,
) -> Result<(), DataError> {
    let Some(&(_, kind, step)) = FREQUENCIES.iter().find(|(name, ..)| *name == frequency) else {
        let known = FREQUENCIES.map(|(name, ..)| name).join(", ");
        return Err(GeneratedError::Frequency { name: frequency.to_owned(), known }.into());
    };
    let dates = dates(step, length)?;
    let simulator = simulator.clone().with_kind(kind);
    let mut values = vec![0.0; length];
    let mut write = || {
        writeln!(out, "series,date,value")?;
        for number in 0..count {
            simulator.series(number, &mut values);
            for (date, value) in dates.iter().zip(&values) {
                match value.is_nan() {
                    true => writeln!(out, "s{number},{date},")?,
                    false => writeln!(out, "s{number},{date},{value}")?,
                }
            }
        }
        out.flush()
    };
    write().map_err(|source| GeneratedError::Write { source }.into())
}

/// The texts of dates from the first Monday of 2000 on, or from its first day where dates are those of months.
fn dates(step: Frequency, length: usize) -> Result<Vec<String>, DataError> {
    let day = if matches!(step, Frequency::Monthly { .. }) { 1 } else { 3 };
    let first = NaiveDate::from_ymd_opt(2000, 1, day).unwrap_or_default().and_time(NaiveTime::MIN);
    let within = matches!(step, Frequency::Regular { step } if step < TimeDelta::days(1));
    let pattern = if within { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d" };
    let text = |date: NaiveDateTime| date.format(pattern).to_string();
    let after = step.future(first, length.saturating_sub(1))?;
    Ok(std::iter::once(first).chain(after).take(length).map(text).collect())
}
