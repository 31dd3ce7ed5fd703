//! The network of a run: a preset's, or the model's own, with the options that are set beside it.

use super::network_options::NetworkOptions;
use super::presets::Preset;
use super::settings::Settings;
use super::settings_error::SettingsError;
use super::source::Source;
use super::words::Text;
use crate::choice::Sizes;
use crate::data::nearest;
use crate::models::{ModelConfig, ModelKind, OptionError, OptionValue, Predicts};
use crate::train::TrainingOptions;

/// Options that follow from a file of samples.
pub(super) const OF_SAMPLES: [&str; 3] = ["tokens", "features", "classes"];

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
        if model != ModelKind::Patchtst {
            return config;
        }
        let (patch, stride) = Sizes::patch(self.context.unwrap_or(config.context()));
        config.with("patch", OptionValue::Count(patch)).with("stride", OptionValue::Count(stride))
    }

    /// Every option of the network with its value. Of samples in a file only the sizes that were given: the file has the
    /// others.
    pub(super) fn filled(&self, n: &ModelConfig, source: &Source) -> NetworkOptions {
        let given = self.network.clone().unwrap_or_default();
        let open = matches!(source, Source::Files { .. });
        let mut all = NetworkOptions::of_columns(given.columns);
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
