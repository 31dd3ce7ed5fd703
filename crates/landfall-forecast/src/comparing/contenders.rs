//! Forecasters that may be compared, by their names.

use crate::ensemble::Members;
use crate::models::ModelKind;
use crate::run::{Settings, SettingsError};

/// A forecaster that is compared with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// The default recipe.
    Auto,
    /// The season before; of data without a season the last value.
    SeasonalNaive,
    /// An ensemble, or one of its members, alone.
    Ensemble(Members),
    /// A network, alone or in the mean with a baseline, as validation chooses.
    Network(ModelKind),
}

impl Contender {
    /// Those that are compared where none are named: fast ones.
    pub const USUAL: [Self; 8] = [
        Self::SeasonalNaive,
        Self::Ensemble(Members::Ets),
        Self::Ensemble(Members::DynamicTheta),
        Self::Ensemble(Members::Pretrained),
        Self::Ensemble(Members::All),
        Self::Network(ModelKind::Nlinear),
        Self::Network(ModelKind::Dlinear),
        Self::Auto,
    ];

    /// All that there are.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let members = Members::ALONE.into_iter().map(Self::Ensemble);
        let networks = ModelKind::ALL.iter().filter(|kind| kind.config().forecasts());
        let networks = networks.map(|kind| Self::Network(*kind));
        let first = [Self::Auto, Self::SeasonalNaive, Self::Ensemble(Members::All)];
        first.into_iter().chain(members).chain(networks).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::SeasonalNaive => "seasonal-naive",
            Self::Ensemble(members) => members.name(),
            Self::Network(kind) => kind.name(),
        }
    }

    /// Those of these names, in letters of any case.
    ///
    /// ```
    /// use landfall_forecast::comparing::Contender;
    /// assert_eq!(Contender::named(&["ets", "Auto"])?.len(), 2);
    /// let typo = Contender::named(&["ets", "tetha"]).expect_err("no such forecaster").to_string();
    /// assert!(typo.starts_with("unknown candidate `tetha`; did you mean `theta`?"), "{typo}");
    /// # Ok::<(), landfall_forecast::run::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// [`SettingsError::Unknown`] with all names; [`SettingsError::Range`] for a name that is given twice, and for fewer than two.
    pub fn named<T: AsRef<str>>(names: &[T]) -> Result<Vec<Self>, SettingsError> {
        let mut found: Vec<Self> = Vec::with_capacity(names.len());
        let refused = |rule: &'static str| {
            let value = names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(",");
            SettingsError::Range { setting: "the candidates".into(), value, rule: rule.into() }
        };
        for name in names {
            let name = name.as_ref().trim();
            let is = |one: &Self| one.name().eq_ignore_ascii_case(name);
            let one = Self::all().into_iter().find(is).ok_or_else(|| SettingsError::Unknown {
                key: "candidate",
                value: name.to_owned(),
                known: Self::all().into_iter().map(Self::name).collect::<Vec<_>>().join(", "),
            })?;
            if found.contains(&one) {
                return Err(refused("one is named twice; name each once"));
            }
            found.push(one);
        }
        if found.len() < 2 {
            return Err(refused("a comparison needs two at least; name another one"));
        }
        Ok(found)
    }

    /// The settings of its run, over those that all runs share.
    #[must_use]
    pub fn settings(self, shared: &Settings) -> Settings {
        let mut own = shared.clone();
        match self {
            Self::Auto => {}
            Self::SeasonalNaive => (own.candidates, own.ensemble) = (Some(Vec::new()), Some(Members::None)),
            Self::Ensemble(members) => (own.candidates, own.ensemble) = (Some(Vec::new()), Some(members)),
            Self::Network(kind) => own.model = Some(kind),
        }
        own.without_network_unless(self.members())
    }

    /// The members of its ensemble, where it has one.
    #[must_use]
    pub fn members(self) -> Option<Members> {
        match self {
            Self::Auto => Some(Members::All),
            Self::Ensemble(members) => Some(members),
            Self::SeasonalNaive | Self::Network(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_each_ones_own() {
        let names: Vec<&str> = Contender::all().into_iter().map(Contender::name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name} twice");
            assert_eq!(
                Contender::named(&[*name, if i == 0 { "ets" } else { "auto" }]).expect("known")[0].name(),
                *name
            );
        }
        assert!(Contender::USUAL.iter().all(|one| Contender::all().contains(one)));
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let refused = |names: &[&str]| Contender::named(names).expect_err("refused").to_string();
        assert!(refused(&["ets"]).contains("two at least"));
        assert!(refused(&["ets", "tide", "ETS"]).contains("twice"));
        assert!(refused(&["ets", "window-regressor"]).contains("choose from auto, "));
    }
}
