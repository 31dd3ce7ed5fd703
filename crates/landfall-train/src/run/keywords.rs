//! Settings by keyword, for programs that have no file of them.

use super::settings::{Settings, SettingsError};
use serde::Deserializer;
use serde::de::value::Error as ValueError;
use serde::de::{Deserialize, Error, Visitor};
use serde_json::{Map, Value};

/// What a run measures or chooses, and writes into its settings itself.
const OF_A_RUN: [&str; 7] =
    ["version", "computed-on", "frequency", "names", "scaler", "forecaster", "kernels"];

/// Holds no value; learns the names of a struct's fields when it is asked for one.
struct FieldNames(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut FieldNames {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ValueError> {
        Err(ValueError::custom("only the names of a struct's fields are asked for"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl Settings {
    /// The names of the settings that a person may give, as keywords: `max_steps`.
    #[must_use]
    pub fn keywords() -> Vec<String> {
        let mut names = FieldNames(&[]);
        // It fails, as it has no value to give, and has the names then.
        let _ = Self::deserialize(&mut names);
        names.0.iter().filter(|name| !OF_A_RUN.contains(name)).map(|name| name.replace('-', "_")).collect()
    }

    /// Settings of keywords and their values; `null` is a setting that is left out.
    ///
    /// ```
    /// use landfall_train::run::Settings;
    /// let given = serde_json::json!({"max_steps": 100, "network": {"d_model": 16}, "lr": null});
    /// let settings = Settings::of_keywords(given.as_object().expect("an object"))?;
    /// assert_eq!((settings.max_steps, settings.lr), (Some(100), None));
    /// let typo = serde_json::json!({"lr": "fast"});
    /// let error = Settings::of_keywords(typo.as_object().expect("an object")).expect_err("a text");
    /// assert_eq!(error.to_string(), "lr: invalid type: string \"fast\", expected a number");
    /// # Ok::<(), landfall_train::run::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// [`SettingsError::Keyword`] for an unknown name, and for a value of the wrong type or that is none of a list.
    pub fn of_keywords(given: &Map<String, Value>) -> Result<Self, SettingsError> {
        let known = Self::keywords();
        for (key, value) in given {
            let refused = |why| SettingsError::Keyword { key: key.clone(), why };
            if !known.contains(key) {
                return Err(refused(format!("no such setting; choose from {}", known.join(", "))));
            }
            // Each on its own, so that an error can name it.
            let one = Map::from_iter([(key.clone(), value.clone())]);
            Self::of_table(one).map_err(|e| refused(in_words(&e)))?;
        }
        Self::of_table(given.clone()).map_err(|e| SettingsError::Unwritable(e.to_string()))
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

/// What is wrong with a value, without the names of Rust's types.
fn in_words(e: &serde_json::Error) -> String {
    let text = e.to_string().replace("field", "option");
    let types =
        [("usize", "a whole number from 0 on"), ("u64", "a whole number from 0 on"), ("f64", "a number")];
    let said = types.iter().find_map(|(name, words)| {
        let rest = text.strip_suffix(name)?.strip_suffix("expected ")?;
        Some(format!("{rest}expected {words}"))
    });
    said.unwrap_or(text)
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
            assert!(known.iter().any(|k| k == name), "{known:?}");
        }
        for name in ["version", "computed_on", "scaler"] {
            assert!(!known.iter().any(|k| k == name), "{known:?}");
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        let unknown = refused(&serde_json::json!({"max-steps": 3}));
        assert!(unknown.starts_with("max-steps: no such setting; choose from data, "), "{unknown}");
        assert_eq!(
            refused(&serde_json::json!({"horizon": -1})),
            "horizon: invalid value: integer `-1`, expected a whole number from 0 on"
        );
        let schedule = refused(&serde_json::json!({"schedule": "fast"}));
        assert!(schedule.starts_with("schedule: unknown variant `fast`, expected one of"), "{schedule}");
        let network = refused(&serde_json::json!({"network": {"d_modell": 3}}));
        assert!(network.starts_with("network: unknown option `d-modell`, expected one of"), "{network}");
    }
}
