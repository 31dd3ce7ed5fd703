//! The options of networks that a configuration may have.

use super::settings_error::SettingsError;
use super::words::Text;
use crate::models::{Columns, ModelKind, ModelOption, OptionKind, OptionType, OptionValue};
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::LazyLock;

/// The options of all models, each once, in the order in which a file has them, with the names that it has there.
static OPTIONS: LazyLock<Vec<(&ModelOption, String)>> = LazyLock::new(|| {
    let mut all: Vec<(&ModelOption, String)> = Vec::new();
    for option in ModelKind::ALL.iter().flat_map(|kind| kind.config().options()) {
        if all.iter().all(|(known, _)| known.name != option.name) {
            all.push((option, option.name.replace('_', "-")));
        }
    }
    all
});

/// The names that a table of options may have.
static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| OPTIONS.iter().map(|(_, name)| name.as_str()).chain([COLUMNS]).collect());

/// The name of the numbers of columns.
const COLUMNS: &str = "columns";

/// Options of the network that its model declares; a value here wins over the preset's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkOptions {
    /// Positions in the list of all options, ascending, with their values.
    values: Vec<(usize, OptionValue)>,
    /// Numbers of columns to forecast and of covariates; a run with covariates writes them.
    pub columns: Option<Columns>,
}

impl NetworkOptions {
    /// These numbers of columns and no option.
    pub(super) fn of_columns(columns: Option<Columns>) -> Self {
        Self { values: Vec::new(), columns }
    }

    /// The value of an option by its name, `d_model`, if it is set.
    #[must_use]
    pub fn get<T: OptionType>(&self, name: &str) -> Option<T> {
        self.iter().find(|(option, _)| option.name == name).and_then(|(_, value)| T::from_value(value))
    }

    /// Sets an option of any model by its name; of a name that no model declares nothing is set.
    pub fn set<T: OptionType>(&mut self, name: &str, value: T) {
        self.put(name, value.value());
    }

    /// The value of an option, which becomes this one where none was set.
    pub fn get_or_insert<T: OptionType>(&mut self, name: &str, value: T) -> T {
        self.get(name).unwrap_or_else(|| {
            self.set(name, value);
            value
        })
    }

    /// The names of the options that are set.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.iter().map(|(option, _)| option.name)
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.columns.is_none()
    }

    /// The options that are set.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static ModelOption, OptionValue)> + '_ {
        self.values.iter().filter_map(|(at, value)| Some((OPTIONS.get(*at)?.0, *value)))
    }

    pub(super) fn put(&mut self, name: &str, value: OptionValue) {
        if let Some(at) = OPTIONS.iter().position(|(option, _)| option.name == name) {
            self.values.retain(|(other, _)| *other != at);
            self.values.push((at, value));
            self.values.sort_by_key(|(at, _)| *at);
        }
    }

    /// These options over others.
    pub(super) fn over(&self, base: &Self) -> Self {
        let mut all = base.clone();
        self.iter().for_each(|(option, value)| all.put(option.name, value));
        Self { columns: self.columns.or(all.columns), ..all }
    }

    /// Refuses sizes that are mistyped.
    pub(super) fn check_sizes(&self) -> Result<(), SettingsError> {
        for (option, value) in self.iter() {
            if let OptionValue::Count(n) = value
                && n > option.most
            {
                let (setting, value) = (Text::option(option.name, None), n.to_string());
                let rule = format!("it must be at most {}", option.most).into();
                return Err(SettingsError::Range { setting, value, rule });
            }
        }
        Ok(())
    }
}

impl Serialize for NetworkOptions {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut table = to.serialize_map(None)?;
        for (option, value) in self.iter() {
            let name = option.name.replace('_', "-");
            match value {
                OptionValue::Count(n) => table.serialize_entry(&name, &n)?,
                OptionValue::Number(x) => table.serialize_entry(&name, &x)?,
                OptionValue::Flag(on) => table.serialize_entry(&name, &on)?,
                OptionValue::Choice(choice) => table.serialize_entry(&name, choice)?,
                OptionValue::Columns(columns) => table.serialize_entry(&name, &columns)?,
            }
        }
        if let Some(columns) = &self.columns {
            table.serialize_entry(COLUMNS, columns)?;
        }
        table.end()
    }
}

/// Reads a value of an option's kind.
struct ValueOf(OptionKind);

impl<'de> DeserializeSeed<'de> for ValueOf {
    type Value = OptionValue;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<OptionValue, D::Error> {
        Ok(match self.0 {
            OptionKind::Count => OptionValue::Count(usize::deserialize(from)?),
            OptionKind::Number => OptionValue::Number(f64::deserialize(from)?),
            OptionKind::Flag => OptionValue::Flag(bool::deserialize(from)?),
            OptionKind::Columns => OptionValue::Columns(Columns::deserialize(from)?),
            OptionKind::Choice(names) => {
                let given = String::deserialize(from)?;
                let known = names.iter().find(|name| **name == given);
                OptionValue::Choice(known.ok_or_else(|| D::Error::unknown_variant(&given, names))?)
            }
        })
    }
}

/// Reads the name of an option; none is that of the numbers of columns. It refuses an unknown one itself, so that the error has
/// the place of the name.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<&'static ModelOption>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(from)?;
        let known = OPTIONS.iter().find(|(_, name)| *name == key).map(|(option, _)| *option);
        if known.is_none() && key != COLUMNS {
            return Err(D::Error::unknown_field(&key, &NAMES));
        }
        Ok(known)
    }
}

impl<'de> Deserialize<'de> for NetworkOptions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = NetworkOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of options")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<NetworkOptions, A::Error> {
                let mut all = NetworkOptions::default();
                while let Some(key) = table.next_key_seed(Key)? {
                    match key {
                        Some(option) => {
                            all.put(option.name, table.next_value_seed(ValueOf(option.kind))?);
                        }
                        None => all.columns = Some(table.next_value()?),
                    }
                }
                Ok(all)
            }
        }

        from.deserialize_map(Table)
    }
}
