//! What is to be known first of the results of a run.

use super::begun::Finished;
use super::choice::Chosen;
use crate::choice::{MIN_WINDOWS, Metric};
use crate::data::{Segment, Setting};
use crate::report::digits;
use crate::run::{Choice, ENSEMBLE_STAYS, Scored};

/// Fewer test windows than these say little: neighbouring windows share most of their rows.
const FEW_WINDOWS: usize = 20;

impl Finished {
    /// Whether the forecast beats the baselines, how it was chosen, and how far the figures can be trusted: a sentence or two
    /// each.
    #[must_use]
    pub fn verdict(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.unbeaten().into_iter().collect();
        if let Some(c) = &self.chosen {
            lines.extend(chosen_lines(&c.choice, self.resolved.has_networks()));
            lines.extend(self.unread(&c.choice));
            lines.extend(c.without_intervals.iter().map(|why| format!("The run has no intervals: {why}.")));
            if c.tested.is_none() {
                lines.push("Nothing was tested: there are too few rows for it.".to_owned());
            }
        }
        if let Some(last) = self.records.last()
            && last.windows < FEW_WINDOWS
            && last.split == Segment::Test.to_string()
        {
            let windows = if last.windows == 1 { "window" } else { "windows" };
            lines.push(format!(
                "Test has {} {windows}: these errors may be chance; a longer series or a shorter {} gives more.",
                last.windows,
                Setting("horizon")
            ));
        }
        lines
    }

    /// That what forecasts reads no covariates, where there are some.
    fn unread(&self, c: &Choice) -> Option<String> {
        let covariates = self.resolved.columns().covariates();
        let reads = c.forecaster.ridge.is_none() && c.forecaster.share > 0.0;
        (covariates && !reads && self.resolved.has_networks()).then(|| {
            format!(
                "{} reads no covariates, so that they have no part in the forecast: by the errors above no network that reads them \
                 was better.",
                c.winner.name
            )
        })
    }

    /// That a baseline is as good as the forecast on the test windows, where one is, and what to try. Forecasts that MASE chose are
    /// compared by it, others by the squared error.
    #[must_use]
    pub fn unbeaten(&self) -> Option<String> {
        let is_baseline = self.chosen.as_ref().is_some_and(|c| c.choice.forecaster.baseline().is_some());
        if is_baseline && !self.resolved.has_networks() {
            // It was asked for.
            return None;
        }
        let metric = self.chosen.as_ref().map_or(Metric::Mse, |c| c.choice.metric);
        let compared = self.records.last()?.beside_baseline(metric)?;
        if compared.own < compared.other {
            return None;
        }
        let baseline = &compared.baseline.name;
        let alone = |c: &Chosen| c.choice.forecaster.share == 0.0 && !c.choice.forecaster.ensemble;
        let what = if self.chosen.as_ref().is_some_and(alone) {
            "No network was better than a baseline on the validation data".to_owned()
        } else {
            format!(
                "The forecast does not beat {baseline}: {} {} against {}",
                compared.metric.name(),
                digits(compared.own),
                digits(compared.other)
            )
        };
        let tries = match self.chosen {
            Some(_) => format!(
                "a longer series, a shorter {}, another {}, or further series of the same kind",
                Setting("horizon"),
                Setting("context")
            ),
            None if self.steps == 0 => format!("to train these weights further, by {}", Setting("init")),
            None => format!(
                "the default recipe (leave out {}), a larger {}, or more {}",
                Setting("preset"),
                Setting("lr"),
                Setting("epochs")
            ),
        };
        Some(format!("{what}. Try {tries}."))
    }
}

/// What was chosen, by what, and by how much.
fn chosen_lines(c: &Choice, has_networks: bool) -> Vec<String> {
    if c.windows == 0 {
        return vec![format!("Forecaster: {}, for want of a window to choose by.", c.winner.name)];
    }
    let by = if c.rolling {
        format!(
            "rolling origins before the test rows, {} windows in all (validation has {}, at least {MIN_WINDOWS} are needed)",
            c.windows, c.validation_windows
        )
    } else {
        format!("validation, {} windows", c.windows)
    };
    let scored = |s: &Scored| match s.ridge {
        Some(strength) => format!("{} (ridge strength {strength}) {}", s.name, digits(c.error(s))),
        None => format!("{} {}", s.name, digits(c.error(s))),
    };
    let how = if has_networks { "chosen by" } else { "the only candidate; its errors are those of" };
    let mut lines = vec![format!("Forecaster: {}, {how} {by}.", c.winner.name)];
    let network = c.network.as_ref();
    let others = network.into_iter().chain(&c.ensemble).chain([&c.baseline]);
    let others = others.filter(|one| one.name != c.winner.name);
    let parts: Vec<String> = std::iter::once(&c.winner).chain(others).map(scored).collect();
    lines.push(format!("{} there: {}.", c.metric.name(), parts.join(", ")));
    lines.extend(c.left_out.iter().map(|what| format!("Left out: {what}.")));
    let better = has_networks && c.candidates.iter().any(|one| c.error(one) < c.error(&c.winner));
    if better && c.forecaster.ensemble {
        lines.push(format!("Of many series and columns {ENSEMBLE_STAYS}."));
    } else if better {
        lines.push("Only networks have quantiles, so that one of them is chosen.".to_owned());
    }
    lines
}
