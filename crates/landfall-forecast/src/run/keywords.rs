//! Settings by keyword, for programs that have no file of them.

use super::near_names::{meant, quoted};
use super::settings::{SETTINGS, Settings};
use super::settings_error::SettingsError;
use serde_json::{Map, Value};

impl Settings {
    /// The names of the settings that a person may give, as keywords: `max_steps`.
    #[must_use]
    pub fn keywords() -> Vec<&'static str> {
        SETTINGS.iter().filter(|setting| setting.by_person()).map(|setting| setting.name).collect()
    }

    /// Settings of keywords and their values; `null` is a setting that is left out.
    ///
    /// ```
    /// use landfall_forecast::run::Settings;
    /// let given = serde_json::json!({"max_steps": 100, "network": {"d_model": 16}, "lr": null});
    /// let settings = Settings::of_keywords(given.as_object().expect("an object"))?;
    /// assert_eq!((settings.max_steps, settings.lr), (Some(100), None));
    /// let typo = serde_json::json!({"lr": "fast"});
    /// let error = Settings::of_keywords(typo.as_object().expect("an object")).expect_err("a text");
    /// assert_eq!(error.to_string(), "lr: \"fast\" is a text; give a number");
    /// // One value may stand for a list of one, and names in any case.
    /// let given = serde_json::json!({"interval": 80, "model": "PatchTST"});
    /// let settings = Settings::of_keywords(given.as_object().expect("an object"))?;
    /// assert_eq!(settings.interval, Some(vec![80.0]));
    /// # Ok::<(), landfall_forecast::run::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// [`SettingsError::Keyword`] for an unknown name, and for a value of the wrong type or that is none of a list.
    pub fn of_keywords(given: &Map<String, Value>) -> Result<Self, SettingsError> {
        let known = Self::keywords();
        let mut all = Map::new();
        for (key, value) in given {
            let refused = |why| SettingsError::Keyword { key: key.clone(), why };
            if !known.contains(&key.as_str()) {
                return Err(refused(format!("no such setting; choose from {}", known.join(", "))));
            }
            // Each on its own, so that an error can name it.
            let read = |value: Value| {
                let one = Map::from_iter([(key.clone(), value.clone())]);
                Self::of_table(one).map(|_| value)
            };
            let value = read(value.clone())
                .or_else(|why| others(key, value).into_iter().find_map(|value| read(value).ok()).ok_or(why));
            all.insert(key.clone(), value.map_err(|e| refused(in_words(&e.to_string())))?);
        }
        Self::of_table(all).map_err(|e| SettingsError::Unwritable(e.to_string()))
    }

    fn of_table(table: Map<String, Value>) -> Result<Self, serde_json::Error> {
        serde_json::from_value(with_hyphens(Value::Object(table)))
    }
}

/// The same values under names as a file has them.
fn with_hyphens(value: Value) -> Value {
    match value {
        Value::Object(all) => {
            Value::Object(all.into_iter().map(|(k, v)| (k.replace('_', "-"), with_hyphens(v))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value,
    }
}

/// What else a value may have been meant as: a name in small letters, the only one of a list, no network.
fn others(key: &str, value: &Value) -> Vec<Value> {
    let small = value.as_str().map(|text| Value::String(text.to_lowercase()));
    let listed =
        matches!(value, Value::Number(_) | Value::String(_)).then(|| Value::Array(vec![value.clone()]));
    let none = key == "candidates" && value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("none"));
    let none = none.then(|| Value::Array(Vec::new()));
    small.into_iter().chain(listed).chain(none).collect()
}

/// What is wrong with a value, in words that say what a person gave and what is needed: serde's name the types of Rust.
fn in_words(text: &str) -> String {
    if let Some((name, known)) = between(text, "unknown variant `", "`, expected ") {
        return unknown(name, "value", &quoted(known));
    }
    if let Some((name, known)) = between(text, "unknown field `", "`, expected ") {
        return unknown(name, "option", &quoted(known));
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let Some((found, needed)) = kinds.iter().find_map(|kind| between(text, kind, ", expected ")) else {
        return text.to_owned();
    };
    // A value of a file or of several lines has its place behind.
    let (needed, place) = needed.find(" at line").map_or((needed, ""), |at| needed.split_at(at));
    let kinds = [
        ("string ", " is a text"),
        ("integer ", ""),
        ("floating point ", ""),
        ("boolean ", ""),
        ("sequence", "a list"),
        ("map", "a table"),
        ("null", "null"),
        ("unit value", "null"),
    ];
    let found = kinds.iter().find_map(|(kind, what)| {
        let value = found.strip_prefix(kind)?.trim_matches('`');
        Some(if value.is_empty() { format!("it is {what}") } else { format!("{value}{what}") })
    });
    let needed = match needed {
        "usize" | "u64" | "u32" | "u16" => "a whole number from 0 on",
        "f64" | "f32" => "a number",
        "a sequence" => "a list",
        "a map" => "a table",
        "a boolean" => "true or false",
        "a string" | "string" => "a text",
        other => other,
    };
    found.map_or_else(|| text.to_owned(), |found| format!("{found}; give {needed}{place}"))
}

/// What stands behind a beginning, and behind a separator.
fn between<'t>(text: &'t str, begin: &str, separator: &str) -> Option<(&'t str, &'t str)> {
    text.strip_prefix(begin)?.split_once(separator)
}

/// A name that is none of those that are known: the nearest one, and all.
fn unknown(name: &str, what: &str, known: &[&str]) -> String {
    format!("no {what} `{name}`; {}choose {}", meant(name, known), known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(given: &Value) -> String {
        Settings::of_keywords(given.as_object().expect("an object")).expect_err("refused").to_string()
    }

    #[test]
    fn keywords_are_the_settings_that_a_person_gives() {
        let known = Settings::keywords();
        for name in ["horizon", "max_steps", "checkpoint_every", "network", "lr"] {
            assert!(known.contains(&name), "{known:?}");
        }
        for name in ["version", "computed_on", "scaler"] {
            assert!(!known.contains(&name), "{known:?}");
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        let unknown = refused(&serde_json::json!({"max-steps": 3}));
        assert!(unknown.starts_with("max-steps: no such setting; choose from data, "), "{unknown}");
        assert_eq!(
            refused(&serde_json::json!({"horizon": -1})),
            "horizon: -1; give a whole number from 0 on"
        );
        let schedule = refused(&serde_json::json!({"schedule": "fast"}));
        assert!(schedule.starts_with("schedule: no value `fast`; choose constant, "), "{schedule}");
        let network = refused(&serde_json::json!({"network": {"d_modell": 3}}));
        assert!(network.starts_with("network: no option `d-modell`; did you mean `d-model`?"), "{network}");
        let model = refused(&serde_json::json!({"model": "patchst"}));
        assert!(model.starts_with("model: no value `patchst`; did you mean `patchtst`?"), "{model}");
        for (given, said) in [
            (serde_json::json!({"lr": "high"}), "lr: \"high\" is a text; give a number"),
            (serde_json::json!({"fill_gaps": 1}), "fill_gaps: 1; give true or false"),
            (serde_json::json!({"horizon": [1]}), "horizon: it is a list; give a whole number from 0 on"),
            (serde_json::json!({"interval": "wide"}), "interval: \"wide\" is a text; give a list"),
        ] {
            assert_eq!(refused(&given), said);
        }
    }

    #[test]
    fn what_is_meant_is_accepted() {
        let of =
            |given: Value| Settings::of_keywords(given.as_object().expect("an object")).expect("accepted");
        let one =
            of(serde_json::json!({"interval": 80, "model": "PatchTST", "columns": "Sales", "dtype": "BF16"}));
        let listed = of(
            serde_json::json!({"interval": [80], "model": "patchtst", "columns": ["Sales"], "dtype": "bf16"}),
        );
        assert_eq!(one, listed);
        assert_eq!(of(serde_json::json!({"candidates": "None"})).candidates, Some(Vec::new()));
    }
}
