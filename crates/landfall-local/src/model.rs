//! The models by name: what a caller asks for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::intermittent::is_intermittent;

/// A statistical model of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Exponential smoothing with the error, trend and season that AICc chooses (Hyndman et al. 2008).
    Ets,
    /// The Theta method (Assimakopoulos & Nikolopoulos 2000).
    Theta,
    /// The dynamic optimised Theta model (Fiorucci et al. 2016).
    DynamicTheta,
    /// The last value, seasonally adjusted where the season passes a test: the reference of the M competitions.
    Naive2,
    /// Naive2 with the drift from the first row to the last.
    SeasonalDrift,
    /// Croston's model of intermittent demand (1972), with the correction of Syntetos & Boylan (2005).
    Croston,
    /// The model of intermittent demand of Teunter, Syntetos & Babai (2011), whose rate falls while there is none.
    Tsb,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 7] = [
        Self::Ets,
        Self::Theta,
        Self::DynamicTheta,
        Self::Naive2,
        Self::SeasonalDrift,
        Self::Croston,
        Self::Tsb,
    ];

    /// The models that suit a series: those of demand where it has many zeros ([`is_intermittent`]), otherwise the others.
    ///
    /// ```
    /// use landfall_local::Model;
    /// assert_eq!(Model::suited(&[0.0, 0.0, 2.0, 0.0]), &[Model::Croston, Model::Tsb]);
    /// ```
    pub fn suited(values: &[f64]) -> &'static [Self] {
        const DEMAND: [Model; 2] = [Model::Croston, Model::Tsb];
        const OTHERS: [Model; 5] =
            [Model::Ets, Model::Theta, Model::DynamicTheta, Model::Naive2, Model::SeasonalDrift];
        if is_intermittent(values) { &DEMAND } else { &OTHERS }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ets => "ETS",
            Self::Theta => "Theta",
            Self::DynamicTheta => "dynamic Theta",
            Self::Naive2 => "Naive2",
            Self::SeasonalDrift => "seasonal drift",
            Self::Croston => "Croston",
            Self::Tsb => "TSB",
        })
    }
}
