//! Types of settings that are a run's own.

use super::near_names::{meant, quoted};
use crate::data::Scaler;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Mean and standard deviation of each column of a series, fit on its training rows. A run writes one for each series,
/// for evaluations and forecasts; a new run fits its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalerTable {
    /// Name of the series.
    pub series: String,
    /// Means.
    pub mean: Vec<f64>,
    /// Population standard deviations.
    pub std: Vec<f64>,
    /// Which columns had one value in the training rows; empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constant: Vec<bool>,
    /// Whether the series was too short for the run's windows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub short: bool,
}

impl ScalerTable {
    /// That of a series.
    #[must_use]
    pub fn new(series: &str, scaler: &Scaler, short: bool) -> Self {
        let constant: Vec<bool> = (0..scaler.channels()).map(|column| scaler.is_constant(column)).collect();
        Self {
            series: series.to_owned(),
            mean: scaler.mean().to_vec(),
            std: scaler.std().to_vec(),
            constant: if constant.contains(&true) { constant } else { Vec::new() },
            short,
        }
    }
}

/// Which windows choose, where several runs are to be compared by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SameWindows {
    /// From one window that is scored to the next.
    pub every: usize,
    /// Whether rolling origins choose, wherever validation has enough windows too.
    pub rolling: bool,
}

/// Files of data: in a configuration a path, or a list of paths.
pub type Files = OneOrMore<PathBuf>;

/// Names of columns: in a configuration a name, or a list of names.
pub type Names = OneOrMore<String>;

/// In a configuration one value, or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written<T>", into = "Written<T>")]
#[serde(bound(serialize = "T: Serialize + Clone", deserialize = "T: Deserialize<'de>"))]
pub struct OneOrMore<T>(pub Vec<T>);

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "one value, or a list of them")]
enum Written<T> {
    One(T),
    More(Vec<T>),
}

impl<T> From<Written<T>> for OneOrMore<T> {
    fn from(written: Written<T>) -> Self {
        match written {
            Written::One(value) => Self(vec![value]),
            Written::More(values) => Self(values),
        }
    }
}

impl<T> From<OneOrMore<T>> for Written<T> {
    fn from(OneOrMore(mut values): OneOrMore<T>) -> Self {
        match (values.pop(), values.is_empty()) {
            (Some(value), true) => Self::One(value),
            (last, _) => Self::More(values.into_iter().chain(last).collect()),
        }
    }
}

/// A setting's value by the name that it has in a file, in letters of any case.
///
/// # Errors
/// The names that there are.
pub fn named<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    let read = |name: &str| T::deserialize(StrDeserializer::<ValueError>::new(name));
    read(name).or_else(|why| {
        read(&name.to_lowercase()).map_err(|_| {
            let text = why.to_string();
            let known = text.split_once("expected ").map_or(text.as_str(), |(_, known)| known);
            format!("{}choose {}", meant(name, &quoted(known)), known.replace('`', ""))
        })
    })
}

/// How long something may take: a whole or broken number of `s`, `m` or `h`; seconds without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenTime", into = "String")]
pub struct TimeLimit(Duration);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a time, as in \"60s\", \"5m\" or \"1h\"")]
enum WrittenTime {
    Text(String),
    Seconds(f64),
}

impl TimeLimit {
    /// The time of a text.
    ///
    /// # Errors
    /// What it should look like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
            Some(number) => (number, &text[number.len()..]),
            None => (text, "s"),
        };
        let seconds = number.trim().parse::<f64>().ok().map(|n| {
            n * if unit == "h" {
                3600.0
            } else if unit == "m" {
                60.0
            } else {
                1.0
            }
        });
        let time = seconds.filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok());
        time.map(Self).ok_or_else(|| "give a time above 0, as in 60s, 5m or 1h".to_owned())
    }

    /// As a duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

impl From<TimeLimit> for String {
    fn from(limit: TimeLimit) -> Self {
        limit.to_string()
    }
}

impl TryFrom<WrittenTime> for TimeLimit {
    type Error = String;

    fn try_from(written: WrittenTime) -> Result<Self, String> {
        match written {
            WrittenTime::Text(text) => Self::parse(&text),
            WrittenTime::Seconds(seconds) => Self::parse(&seconds.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_seconds_minutes_or_hours() {
        let seconds = |text: &str| TimeLimit::parse(text).map(|limit| limit.duration().as_secs_f64());
        assert_eq!(seconds("60s"), Ok(60.0));
        assert_eq!(seconds("1.5m"), Ok(90.0));
        assert_eq!(seconds("2 h"), Ok(7200.0));
        assert_eq!(seconds(" 0.5 "), Ok(0.5));
        for wrong in ["", "s", "0", "-3s", "1d", "nan", "inf", "1e300h", "5 minutes"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        let limit = TimeLimit::parse("5m").expect("a time");
        assert_eq!(limit.to_string(), "300s");
        assert_eq!(TimeLimit::parse(&limit.to_string()), Ok(limit));
    }
}
