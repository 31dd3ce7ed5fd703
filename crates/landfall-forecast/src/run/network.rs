//! The network of a run: a preset's, or the model's own, with the options that are set beside it.

use super::presets::Preset;
use super::resolve::Source;
use super::settings::{Settings, SettingsError};
use super::words::Text;
use crate::choice::Sizes;
use crate::data::nearest;
use crate::models::{
    Columns, ModelConfig, ModelKind, ModelOption, OptionError, OptionKind, OptionType, OptionValue, Predicts,
};
use crate::train::TrainingOptions;
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

/// Options that follow from a file of samples.
pub(super) const OF_SAMPLES: [&str; 3] = ["tokens", "features", "classes"];

/// Options of the network that its model declares; a value here wins over the preset's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkOptions {
    /// Positions in the list of all options, ascending, with their values.
    values: Vec<(usize, OptionValue)>,
    /// Numbers of columns to forecast and of covariates; a run with covariates writes them.
    pub columns: Option<Columns>,
}

impl NetworkOptions {
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

impl Settings {
    pub(super) fn network(
        &self,
        model: ModelKind,
        preset: &Preset,
        outputs: usize,
    ) -> Result<ModelConfig, SettingsError> {
        let mut config = self.base(model, preset);
        let foreign = |first: Text, hint: String| SettingsError::Conflict {
            first,
            second: Text::given("preset", preset.name),
            why: format!("that model has no such option; {hint}leave it out").into(),
        };
        let sizes = [
            ("context", self.context.map(OptionValue::Count)),
            ("horizon", self.horizon.map(OptionValue::Count)),
            ("dropout", self.dropout.map(OptionValue::Number)),
        ];
        for (name, value) in sizes.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            config.set(name, value).map_err(|_| foreign(Text::setting(name), String::new()))?;
        }
        for (option, value) in self.network.iter().flat_map(NetworkOptions::iter) {
            config.set(option.name, value).map_err(|why| match why {
                OptionError::Kind(_) => SettingsError::Network(format!("{}: {why}", option.name)),
                OptionError::Unknown => {
                    let near = nearest(option.name, config.options().iter().map(|option| option.name));
                    let near = near.first().map(|name| name.replace('_', "-"));
                    let hint =
                        near.map_or_else(String::new, |name| format!("did you mean `{name}`? otherwise "));
                    foreign(Text::option(option.name, None), hint)
                }
            })?;
        }
        if let Some(columns) = self.network.as_ref().and_then(|n| n.columns) {
            config = config.with_columns(columns);
        }
        let config = config.with("outputs", OptionValue::Count(outputs));
        if let (Predicts::Value, Some(horizon @ (0 | 2..))) = (config.predicts(), self.horizon) {
            return Err(SettingsError::Range {
                setting: Text::setting("horizon"),
                value: horizon.to_string(),
                rule: "a window-regressor predicts one value; leave it out".into(),
            });
        }
        config.check().map_err(SettingsError::Network)?;
        Ok(config)
    }

    /// The sizes that a network starts from: the preset's; by the default recipe those of the model that was asked for,
    /// with patches that fit its context.
    fn base(&self, model: ModelKind, preset: &Preset) -> ModelConfig {
        if !preset.is_auto() {
            return preset.config();
        }
        let config = model.config();
        let (patch, stride) = Sizes::patch(self.context.unwrap_or(config.context()));
        config.with("patch", OptionValue::Count(patch)).with("stride", OptionValue::Count(stride))
    }

    /// Every option of the network with its value. Of samples in a file only the sizes that were given: the file has the
    /// others.
    pub(super) fn filled(&self, n: &ModelConfig, source: &Source) -> NetworkOptions {
        let given = self.network.clone().unwrap_or_default();
        let open = matches!(source, Source::Files { .. });
        let mut all = NetworkOptions { columns: given.columns, ..NetworkOptions::default() };
        let defaults = n.kind().config();
        for option in n.options() {
            let follows = open && OF_SAMPLES.contains(&option.name);
            let value =
                if follows { given.get(option.name).map(OptionValue::Count) } else { n.value(option.name) };
            let omitted = option.omitted && value == defaults.value(option.name);
            if let Some(value) = value.filter(|_| !omitted) {
                all.put(option.name, value);
            }
        }
        all
    }
}

/// Refuses batch norm over all ranks where nothing has such statistics, or where no step has them at once.
pub(super) fn has_statistics(
    model: ModelKind,
    network: &ModelConfig,
    training: &TrainingOptions,
) -> Result<(), SettingsError> {
    let conflict = |second: Text, why: &'static str| {
        let (first, why) = (Text::setting("sync_batch_norm"), why.into());
        Err(SettingsError::Conflict { first, second, why })
    };
    if !training.sync_batch_norm {
        return Ok(());
    }
    if training.accumulate > 1 {
        return conflict(
            Text::given("accumulate", training.accumulate),
            "micro-batches run one after another, so none has the statistics of all; leave one of them out",
        );
    }
    if training.rank_order {
        let why =
            "the sums of its statistics' gradients have the order of the transport; leave one of them out";
        return conflict(Text::setting("rank_order"), why);
    }
    if !network.has_batch_norm() {
        let model = Text::given("model", model.name());
        return conflict(model, "it has no batch norm as it is set; leave it out");
    }
    Ok(())
}
