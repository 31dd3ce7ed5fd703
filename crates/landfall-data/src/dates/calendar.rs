//! Calendar features of dates: numbers between −0.5 and 0.5 that a forecaster knows in advance.

use crate::dates::frequency::Frequency;
use chrono::{Datelike, NaiveDateTime, TimeDelta, Timelike};
use serde::{Deserialize, Serialize};

/// A feature of a date, `value/largest − 0.5` as in GluonTS and TiDE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Calendar {
    /// Minute of the hour, 0 to 59.
    Minute,
    /// Hour of the day, 0 to 23.
    Hour,
    /// Day of the week, Monday 0 to Sunday 6.
    Weekday,
    /// Day of the month, from 1.
    Day,
    /// Day of the year, from 1.
    DayOfYear,
    /// ISO week of the year, from 1.
    Week,
    /// Month, from 1.
    Month,
    /// Quarter, from 1.
    Quarter,
}

impl Calendar {
    /// Every feature.
    pub const ALL: [Self; 8] = [
        Self::Minute,
        Self::Hour,
        Self::Weekday,
        Self::Day,
        Self::DayOfYear,
        Self::Week,
        Self::Month,
        Self::Quarter,
    ];

    /// Those that tell dates of this frequency apart, the finest first.
    ///
    /// ```
    /// use landfall_data::{Calendar, Frequency};
    /// let monthly = Frequency::Monthly { months: 1, day: landfall_data::MonthDay::Day(1) };
    /// assert_eq!(Calendar::of(&monthly), [Calendar::Month, Calendar::Quarter]);
    /// ```
    #[must_use]
    pub fn of(frequency: &Frequency) -> Vec<Self> {
        let all = |from: Self| Self::ALL[Self::ALL.iter().position(|f| *f == from).unwrap_or(0)..].to_vec();
        match frequency {
            Frequency::Regular { step } if *step < TimeDelta::hours(1) => all(Self::Minute),
            Frequency::Regular { step } if *step < TimeDelta::days(1) => all(Self::Hour),
            Frequency::Regular { .. } | Frequency::BusinessDays => all(Self::Weekday),
            Frequency::Weekly { .. } => vec![Self::DayOfYear, Self::Month, Self::Quarter],
            Frequency::Monthly { months: 1 | 2, .. } => vec![Self::Month, Self::Quarter],
            Frequency::Monthly { months, .. } if *months < 12 => vec![Self::Month],
            Frequency::Monthly { .. } => Vec::new(),
            Frequency::Irregular { .. } | Frequency::Unknown => all(Self::Minute),
        }
    }

    /// Its name, as it stands in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Weekday => "weekday",
            Self::Day => "day",
            Self::DayOfYear => "day-of-year",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
        }
    }

    /// The name of its column in a panel.
    #[must_use]
    pub fn column(self) -> String {
        format!("calendar: {}", self.name())
    }

    /// Its value at a date.
    ///
    /// ```
    /// use landfall_data::Calendar;
    /// let sunday = chrono::NaiveDate::from_ymd_opt(2024, 12, 29).and_then(|d| d.and_hms_opt(23, 0, 0)).unwrap();
    /// assert_eq!((Calendar::Hour.at(sunday), Calendar::Weekday.at(sunday)), (0.5, 0.5));
    /// ```
    #[must_use]
    pub fn at(self, date: NaiveDateTime) -> f64 {
        let (value, largest) = match self {
            Self::Minute => (date.minute(), 59),
            Self::Hour => (date.hour(), 23),
            Self::Weekday => (date.weekday().num_days_from_monday(), 6),
            Self::Day => (date.day0(), 30),
            Self::DayOfYear => (date.ordinal0(), 365),
            Self::Week => (date.iso_week().week0(), 52),
            Self::Month => (date.month0(), 11),
            Self::Quarter => (date.month0() / 3, 3),
        };
        f64::from(value) / f64::from(largest) - 0.5
    }
}
