//! The pretrained network that a run names for its ensemble.

use super::presets::Preset;
use super::settings::Settings;
use super::settings_error::SettingsError;
use super::words::Text;
use super::{Device, RunError};
use crate::ensemble::{Members, NamedNetwork, Reach};
use crate::pretrained_network::SHIPPED;
use std::path::{Path, PathBuf};

impl Settings {
    /// The path of its weights, unless they are those that the library carries.
    pub(super) fn network_path(&self) -> Option<&Path> {
        self.pretrained.as_deref().filter(|path| *path != Path::new(SHIPPED))
    }

    /// Its weights, and what they are.
    #[must_use]
    pub(super) fn named_network(&self) -> Option<(PathBuf, NamedNetwork)> {
        Some((self.network_path()?.to_owned(), self.pretrained_weights.clone()?))
    }

    /// The name of its kind, where that is not the one that the library carries.
    pub(super) fn network_name(&self) -> Option<&str> {
        let name = self.network_path().and(self.pretrained_weights.as_ref())?.name.as_str();
        (name != SHIPPED).then_some(name)
    }

    /// How far the ensemble's network reaches on the device of the run.
    pub(super) fn reach(&self) -> Reach {
        let on_gpu = match self.computed_on.or(self.device).unwrap_or(Device::Auto) {
            Device::Cuda(_) => true,
            Device::Cpu | Device::Null => false,
            Device::Auto => landfall::cuda::count().is_ok_and(|count| count > 0),
        };
        let network = self.network_path().and(self.pretrained_weights.as_ref());
        network.map_or_else(Reach::default, |network| network.reach(on_gpu))
    }

    /// Refuses a network that no ensemble would have.
    pub(super) fn check_pretrained(&self, preset: &Preset) -> Result<(), SettingsError> {
        if self.pretrained.is_none() {
            return Ok(());
        }
        let second = match self.ensemble {
            _ if !preset.is_auto() => Text::given("preset", preset.name),
            Some(members) if members.share() == 0.0 => Text::given("ensemble", members.setting()),
            _ if !self.has_point_forecasts() => "another loss than mse".into(),
            None if self.model.is_some() => "{model} without {ensemble}".into(),
            None if self.candidates.is_some() => "{candidates} without {ensemble}".into(),
            Some(_) | None => return Ok(()),
        };
        let why = "it is the network of the default recipe's ensemble, and there is none that has one; leave it out, or give {ensemble all} \
                   or {ensemble pretrained}";
        Err(SettingsError::Conflict { first: Text::setting("pretrained"), second, why: why.into() })
    }

    /// Refuses more rows than it forecasts.
    pub(super) fn check_rows_of_network(&self, horizon: usize) -> Result<(), SettingsError> {
        let most = self.reach().most_rows;
        if self.pretrained.is_none() || horizon <= most {
            return Ok(());
        }
        let (first, second) = (Text::setting("pretrained"), Text::given("horizon", horizon));
        let why = format!("that network forecasts at most {most} rows; give fewer, or leave it out");
        Err(SettingsError::Conflict { first, second, why: why.into() })
    }

    /// These settings, with what the weights that are named are.
    ///
    /// # Errors
    /// Weights that are not there, damaged or of something else.
    pub(super) fn with_known_network(&self) -> Result<Self, RunError> {
        let known = match (self.network_path(), &self.pretrained_weights) {
            (Some(path), None) => Some(NamedNetwork::read(path)?),
            (Some(_), Some(known)) => Some(known.clone()),
            (None, _) => None,
        };
        Ok(Self { pretrained_weights: known, ..self.clone() })
    }

    /// Refuses weights that are no longer those that the run was made with.
    ///
    /// # Errors
    /// [`EnsembleError::Weights`](crate::ensemble::EnsembleError::Weights).
    pub(crate) fn check_known_network(&self) -> Result<(), RunError> {
        match self.named_network() {
            Some((path, network)) => Ok(network.check(&path)?),
            None => Ok(()),
        }
    }

    /// Without a network for members that have none.
    #[must_use]
    pub(crate) fn without_network_unless(mut self, members: Option<Members>) -> Self {
        if members.is_none_or(|members| members.share() == 0.0) {
            (self.pretrained, self.pretrained_weights) = (None, None);
        }
        self
    }
}
