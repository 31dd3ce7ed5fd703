//! The results of a run as one object of JSON.

use super::begun::Finished;
use super::choice::Tested;
use super::comparison::Comparison;
use crate::data::Metrics;
use crate::run::EvaluationRecord;
use serde_json::{Value, json};
use std::path::Path;

impl Finished {
    /// Its errors on the test windows beside those of the baselines, and what it forecasts with: the object of
    /// `landfall train --json`, of a run in this directory.
    #[must_use]
    pub fn object(&self, path: &Path) -> Value {
        let mut object = errors(path, self.steps, &self.records, &self.comparison);
        if let Some(c) = &self.chosen {
            object["winner"] = json!(c.choice.winner.name);
            object["forecaster"] = json!(c.choice.forecaster);
            if let (Some(Tested { network, .. }), true) = (&c.tested, self.resolved.has_networks()) {
                let name = c.choice.forecaster.network.name();
                object["network"] = json!({"name": name, "mse": network.mse, "mae": network.mae});
            }
            object["tested"] = json!(c.tested.is_some());
            object["choice"] = json!({
                "rolling": c.choice.rolling,
                "validation_windows": c.choice.validation_windows,
                "windows": c.choice.windows,
                "candidates": c.choice.candidates,
            });
            object["seasonal_period"] = json!(self.resolved.period);
            object["context"] = json!(self.resolved.network.context());
        }
        object
    }
}

fn errors(path: &Path, steps: usize, records: &[EvaluationRecord], comparison: &Comparison) -> Value {
    let mut object = json!({"run": path, "steps": steps});
    if let Some(r) = records.last() {
        object["split"] = json!(r.split);
        object["mse"] = json!(r.mse);
        object["mae"] = json!(r.mae);
        object["mse_drop_last"] = json!(r.mse_drop_last);
        object["mae_drop_last"] = json!(r.mae_drop_last);
        object["windows"] = json!(r.windows);
        if let Some(Metrics { rmse, mase, smape, r2 }) = r.metrics {
            for (key, value) in [("rmse", rmse), ("mase", mase), ("smape", smape), ("r2", r2)] {
                object[key] = json!(value);
            }
            object["columns"] = json!(r.columns);
        }
        if let Some(q) = r.quantiles {
            object["quantiles"] = json!(q);
        }
        if let Some(nll) = r.nll {
            object["nll"] = json!(nll);
        }
        if let Some(q) = &r.quantile_scores {
            object["quantile_scores"] = json!(q);
        }
        if !r.intervals.is_empty() {
            object["intervals"] = json!(r.intervals);
        }
        if !r.series.is_empty() {
            object["series"] = json!(r.series);
        }
        if let Some(c) = r.classes {
            object["accuracy"] = json!(c.accuracy);
            object["cross_entropy"] = json!(c.cross_entropy);
        }
    }
    if let Comparison::Classes(known) = comparison {
        for (name, accuracy) in known.scores() {
            object[name.replace(' ', "_")] = json!({"accuracy": accuracy});
        }
    }
    for s in records.last().map_or(&[][..], |r| &r.baselines) {
        // The name without the period.
        let key = s.name.split(" (").next().unwrap_or(&s.name).replace(' ', "-");
        let Metrics { rmse, mase, smape, r2 } = s.metrics;
        object[key] =
            json!({"mse": s.mse, "mae": s.mae, "rmse": rmse, "mase": mase, "smape": smape, "r2": r2});
    }
    object
}
