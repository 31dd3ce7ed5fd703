//! The models of this crate, a line each.

use super::configuration::{Configuration, Predicts, Reads};
use super::option::{ModelOption, OptionError, OptionValue};
use super::{
    Columns, CrossAssetConfig, DLinearConfig, Model, NBeatsConfig, NLinearConfig, PatchTstConfig, TideConfig,
    TsMixerConfig, WindowRegressorConfig, ZeroShotForecasterConfig, regression,
};
use serde::{Deserialize, Serialize};

macro_rules! models {
    ($($(#[doc = $doc:literal])* $Kind:ident = $name:literal: $Config:ident,)*) => {
        /// The kinds of models.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum ModelKind {
            $($(#[doc = $doc])* #[serde(rename = $name)] $Kind,)*
        }

        impl ModelKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$Kind),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Kind => $name),*
                }
            }

            /// What it is.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$Kind => concat!($($doc),*)),*
                }
            }

            /// Its configuration with every default.
            #[must_use]
            pub fn config(self) -> ModelConfig {
                match self {
                    $(Self::$Kind => ModelConfig::$Kind($Config::default())),*
                }
            }
        }

        /// The configuration of one of this crate's models.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum ModelConfig {
            $($(#[doc = $doc])* $Kind($Config),)*
        }

        impl ModelConfig {
            /// Of which kind it is.
            #[must_use]
            pub const fn kind(&self) -> ModelKind {
                match self {
                    $(Self::$Kind(_) => ModelKind::$Kind),*
                }
            }

            fn any(&self) -> &dyn Configuration {
                match self {
                    $(Self::$Kind(config) => config),*
                }
            }

            fn any_mut(&mut self) -> &mut dyn Configuration {
                match self {
                    $(Self::$Kind(config) => config),*
                }
            }
        }
    };
}

models! {
    /// PatchTST: a transformer over patches of each column (Nie et al. 2023).
    Patchtst = "patchtst": PatchTstConfig,
    /// DLinear: two linear maps, of the trend and of the rest (Zeng et al. 2023).
    Dlinear = "dlinear": DLinearConfig,
    /// NLinear: one linear map of the differences from the last value (Zeng et al. 2023).
    Nlinear = "nlinear": NLinearConfig,
    /// TiDE: a dense encoder and decoder of each column, with covariates (Das et al. 2023).
    Tide = "tide": TideConfig,
    /// TSMixer: layers that mix rows and columns in turn, with covariates (Chen et al. 2023).
    Tsmixer = "tsmixer": TsMixerConfig,
    /// N-BEATS: dense blocks, each of which explains a part of the window and forecasts (Oreshkin et al. 2020).
    Nbeats = "nbeats": NBeatsConfig,
    /// Zero-shot: the pretrained transformer, trained further.
    ZeroShot = "zero-shot": ZeroShotForecasterConfig,
    /// Window-regressor: a PatchTST that predicts one value for a window.
    WindowRegressor = "window-regressor": WindowRegressorConfig,
    /// CrossAsset: attention across the tokens of a sample, one class for each.
    CrossAsset = "cross-asset": CrossAssetConfig,
}

impl ModelConfig {
    /// Length of what it reads: rows of a window, or features of a token.
    #[must_use]
    pub fn context(&self) -> usize {
        self.any().context()
    }

    /// What it reads.
    #[must_use]
    pub fn reads(&self) -> Reads {
        self.any().reads()
    }

    /// What it predicts.
    #[must_use]
    pub fn predicts(&self) -> Predicts {
        self.any().predicts()
    }

    /// Rows that a forecast has; 1 where no rows are forecast.
    #[must_use]
    pub fn horizon(&self) -> usize {
        match self.predicts() {
            Predicts::Rows(rows) => rows,
            Predicts::Value | Predicts::Classes(_) => 1,
        }
    }

    /// Whether it forecasts rows of series.
    #[must_use]
    pub fn forecasts(&self) -> bool {
        matches!(self.predicts(), Predicts::Rows(_))
    }

    /// Tokens of a sample, of a model that reads samples.
    #[must_use]
    pub fn tokens(&self) -> Option<usize> {
        match self.reads() {
            Reads::Tokens(tokens) => Some(tokens),
            Reads::EachColumn | Reads::Together(_) | Reads::Labelled => None,
        }
    }

    /// A PatchTST's configuration, if it is one.
    #[must_use]
    pub fn patchtst(self) -> Option<PatchTstConfig> {
        if let Self::Patchtst(config) = self { Some(config) } else { None }
    }

    /// Whether it has batch norms.
    ///
    /// ```
    /// use landfall_train::models::ModelKind;
    /// assert!(ModelKind::Patchtst.config().has_batch_norm() && !ModelKind::Dlinear.config().has_batch_norm());
    /// ```
    #[must_use]
    pub fn has_batch_norm(&self) -> bool {
        self.any().has_batch_norm()
    }

    /// The options that its model declares.
    #[must_use]
    pub fn options(&self) -> &'static [ModelOption] {
        self.any().options()
    }

    /// The value of a size (`context`, `horizon`, `columns`, `dropout`, `outputs`) or of an option, if the model has one of
    /// this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<OptionValue> {
        self.any().value(name)
    }

    /// Changes a size or an option.
    ///
    /// ```
    /// use landfall_train::models::{ModelKind, OptionError, OptionValue};
    /// let mut config = ModelKind::Tsmixer.config();
    /// config.set("d_ff", OptionValue::Count(64))?;
    /// assert_eq!(config.value("d_ff"), Some(OptionValue::Count(64)));
    /// assert_eq!(config.set("patch", OptionValue::Count(16)), Err(OptionError::Unknown));
    /// # Ok::<(), OptionError>(())
    /// ```
    ///
    /// # Errors
    /// No size or option of this name; a value of another kind.
    pub fn set(&mut self, name: &str, value: OptionValue) -> Result<(), OptionError> {
        self.any_mut().set(name, value)
    }

    /// The same with a size or option, where the model has one of this name and kind.
    #[must_use]
    pub fn with(mut self, name: &str, value: OptionValue) -> Self {
        match self.set(name, value) {
            Ok(()) | Err(OptionError::Unknown | OptionError::Kind(_)) => self,
        }
    }

    /// The same sizes for data of these columns, where they depend on them.
    #[must_use]
    pub fn with_columns(self, columns: Columns) -> Self {
        self.with("columns", OptionValue::Columns(columns))
    }

    /// The same sizes with so many rows predicted; of a model that classifies nothing changes.
    #[must_use]
    pub fn with_horizon(self, horizon: usize) -> Self {
        self.with("horizon", OptionValue::Count(horizon))
    }

    /// Checks that the sizes fit together.
    ///
    /// # Errors
    /// A sentence that says which do not.
    pub fn check(&self) -> Result<(), String> {
        self.any().check()
    }

    /// The model.
    ///
    /// # Errors
    /// As [`ModelConfig::check`].
    pub fn build(&self) -> Result<Box<dyn Model>, String> {
        self.any().build()
    }

    /// The model for data of these columns. Around a model that reads each column by itself stands a regression on the
    /// covariates.
    ///
    /// # Errors
    /// As [`ModelConfig::check`]; covariates for a model that has none, or other columns than a model was sized for.
    pub fn build_for(&self, columns: &Columns) -> Result<Box<dyn Model>, String> {
        match self.reads() {
            Reads::Together(own) if own != *columns => {
                Err(format!("the model is sized for {own:?}, and the data has {columns:?}"))
            }
            Reads::Labelled if columns.covariates() => {
                Err("a window-regressor has no covariates; leave them out".to_owned())
            }
            Reads::EachColumn if columns.covariates() => {
                let outputs = if let Some(OptionValue::Count(n)) = self.value("outputs") { n } else { 1 };
                let sizes = (self.context(), self.horizon(), outputs);
                Ok(Box::new(regression::WithCovariates::new(self.build()?, *columns, sizes)))
            }
            Reads::EachColumn | Reads::Together(_) | Reads::Labelled | Reads::Tokens(_) => self.build(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::OptionKind;
    use std::collections::BTreeMap;

    #[test]
    fn an_option_of_a_name_is_of_one_kind_in_every_model() {
        let mut kinds: BTreeMap<&str, OptionKind> = BTreeMap::new();
        for kind in ModelKind::ALL {
            let mut config = kind.config();
            for option in config.options() {
                assert!(!option.doc.trim().is_empty(), "{} {}", kind.name(), option.name);
                assert_eq!(*kinds.entry(option.name).or_insert(option.kind), option.kind, "{}", option.name);
                let value = config.value(option.name).expect("a declared option has a value");
                assert_eq!(config.set(option.name, value), Ok(()));
            }
            assert_eq!(config, kind.config());
            assert_eq!(config.kind(), *kind);
            assert_eq!(config.set("nothing", OptionValue::Flag(true)), Err(OptionError::Unknown));
        }
        assert!(kinds.len() > 15, "{kinds:?}");
    }

    #[test]
    fn every_default_builds() {
        for kind in ModelKind::ALL {
            assert_eq!(kind.config().check(), Ok(()), "{}", kind.name());
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        let refused = ModelKind::Tsmixer.config().set("norm", OptionValue::Count(1));
        assert_eq!(refused, Err(OptionError::Kind(OptionKind::Choice(&["batch", "layer"]))));
    }
}
