//! The members of an ensemble.

use landfall_local::{Model, is_intermittent};
use serde::{Deserialize, Serialize};

/// The share of the pretrained network, chosen on M1 with [`MODELS`]: docs/decisions/0058.
const SHARE: f64 = 0.5;
/// The statistical models of a series.
const MODELS: &[Model] = &[Model::Ets, Model::DynamicTheta];
/// Those of demand with many zeros.
const DEMAND: &[Model] = &[Model::Croston, Model::Tsb];

/// Which members an ensemble has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Members {
    /// The pretrained network and the statistical models.
    #[default]
    All,
    /// The statistical models alone.
    Statistical,
    /// Exponential smoothing alone.
    Ets,
    /// The Theta method alone.
    Theta,
    /// The dynamic optimised Theta model alone.
    DynamicTheta,
    /// Croston's model of demand alone.
    Croston,
    /// The model of demand of Teunter, Syntetos and Babai alone.
    Tsb,
    /// The pretrained network alone.
    Pretrained,
    /// None: there is no ensemble.
    None,
}

impl Members {
    /// Those that have one member alone.
    pub const ALONE: [Self; 6] =
        [Self::Ets, Self::Theta, Self::DynamicTheta, Self::Croston, Self::Tsb, Self::Pretrained];

    /// The name of a forecast by them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All | Self::Statistical => "ensemble",
            Self::Ets => "ets",
            Self::Theta => "theta",
            Self::DynamicTheta => "dynamic-theta",
            Self::Croston => "croston",
            Self::Tsb => "tsb",
            Self::Pretrained => "pretrained",
            Self::None => "none",
        }
    }

    /// The name of a forecast by them, whose pretrained network is of this name where it is not the shipped one.
    ///
    /// ```
    /// use landfall_forecast::ensemble::Members;
    /// assert_eq!(Members::Pretrained.name_with(Some("chronos-2")), "chronos-2");
    /// assert_eq!(Members::All.name_with(Some("chronos-2")), "ensemble with chronos-2");
    /// assert_eq!(Members::Ets.name_with(Some("chronos-2")), "ets");
    /// ```
    #[must_use]
    pub fn name_with(self, network: Option<&str>) -> String {
        match (self, network.filter(|_| self.share() > 0.0)) {
            (Self::Pretrained, Some(network)) => network.to_owned(),
            (_, Some(network)) => format!("{} with {network}", self.name()),
            (_, None) => self.name().to_owned(),
        }
    }

    /// The value of the setting that asks for them.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Statistical => "statistical",
            Self::Ets
            | Self::Theta
            | Self::DynamicTheta
            | Self::Croston
            | Self::Tsb
            | Self::Pretrained
            | Self::None => self.name(),
        }
    }

    /// These, where they are one member alone.
    #[must_use]
    pub fn alone(self) -> Option<Self> {
        Self::ALONE.contains(&self).then_some(self)
    }

    /// The statistical models of rows.
    #[must_use]
    pub fn models(self, values: &[f64]) -> &'static [Model] {
        match self {
            Self::All | Self::Statistical if is_intermittent(values) => DEMAND,
            Self::All | Self::Statistical => MODELS,
            Self::Ets => &[Model::Ets],
            Self::Theta => &[Model::Theta],
            Self::DynamicTheta => &[Model::DynamicTheta],
            Self::Croston => &[Model::Croston],
            Self::Tsb => &[Model::Tsb],
            Self::Pretrained | Self::None => &[],
        }
    }

    /// The share of the pretrained network in a forecast.
    #[must_use]
    pub fn share(self) -> f64 {
        match self {
            Self::All => SHARE,
            Self::Pretrained => 1.0,
            Self::Statistical
            | Self::Ets
            | Self::Theta
            | Self::DynamicTheta
            | Self::Croston
            | Self::Tsb
            | Self::None => 0.0,
        }
    }
}
