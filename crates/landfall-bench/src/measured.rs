//! What is measured of a row beside its peers, and the tables of it.

use crate::ours::{HostTime, TrainingFacts};
use crate::record;
use crate::samples::Samples;
use landfall::ops::Cost;
use landfall_forecast::report::table;
use landfall_forecast::run::Precision;
use serde_json::{Value, json};

/// What was measured of a row.
pub(crate) struct MeasuredRow {
    pub(crate) row: String,
    pub(crate) dtype: Precision,
    pub(crate) ours: Samples,
    pub(crate) peers: Vec<Samples>,
    pub(crate) cost: Cost,
    pub(crate) host: Option<HostTime>,
    pub(crate) training: Option<TrainingFacts>,
}

impl MeasuredRow {
    /// The peer with the lowest median.
    fn best(&self) -> Option<&Samples> {
        self.peers.iter().min_by(|a, b| a.median().total_cmp(&b.median()))
    }

    /// Windows or samples that a step row trains on in a second.
    fn samples_per_s(&self) -> Option<f64> {
        self.training.map(|t| t.samples as f64 / self.ours.median() * 1e6)
    }

    /// Bytes and operations in a nanosecond: GB/s and GFLOP/s.
    fn rates(&self) -> (f64, f64) {
        let ns = self.ours.median() * 1e3;
        (self.cost.bytes as f64 / ns, self.cost.flops as f64 / ns)
    }

    /// The row as a line of the record.
    pub(crate) fn recorded(&self) -> record::Line {
        record::Line {
            row: self.row.clone(),
            dtype: self.dtype.name().to_owned(),
            ours_us: self.ours.median(),
            peer: self.best().map(|p| (p.median(), p.name.clone())),
        }
    }

    /// The row as an object of JSON.
    pub(crate) fn json(&self) -> Value {
        let peers: Vec<Value> = self.peers.iter().map(Samples::json).collect();
        let mut object =
            json!({"row": self.row, "dtype": self.dtype.name(), "ours": self.ours.json(), "peers": peers});
        if let Some(best) = self.best() {
            object["best_peer"] = json!(best.name);
            object["ratio"] = json!(self.ours.median() / best.median());
        }
        let (gb, gflop) = self.rates();
        object["gb_per_s"] = json!(gb);
        object["gflop_per_s"] = json!(gflop);
        object["bytes"] = json!(self.cost.bytes);
        object["flops"] = json!(self.cost.flops);
        if let Some(host) = self.host {
            object["host_us"] = json!(host.us);
            object["launches"] = json!(host.launches);
            if let Some(floor) = host.floor {
                object["bare_us"] = json!(floor.bare_us);
                object["null_us"] = json!(floor.null_us);
            }
        }
        if let Some(t) = &self.training {
            object["parameters"] = json!(t.parameters);
            object["samples_per_s"] = json!(self.samples_per_s());
            object["losses"] = json!([t.first_loss, t.last_loss]);
        }
        object
    }
}

/// A table of rows, one of every side with its spread and, of a GPU, one of what the host does for a step.
pub(crate) fn report(measured: &[MeasuredRow]) -> String {
    let words = |list: &[&str]| list.iter().map(|&w| w.to_owned()).collect::<Vec<String>>();
    let mut rows = vec![words(&[
        "row",
        "dtype",
        "ours us",
        "samples/s",
        "GB/s",
        "GFLOP/s",
        "best peer us",
        "peer",
        "ours/peer",
    ])];
    let mut sides = vec![words(&["row", "dtype", "side", "median us", "least", "most"])];
    let mut hosts =
        vec![words(&["row", "dtype", "host us", "bare us", "null us", "launches", "MB", "MFLOP"])];
    for m in measured {
        let dtype = m.dtype.name().to_owned();
        let (gb, gflop) = m.rates();
        let mut cells = vec![m.row.clone(), dtype.clone()];
        cells.push(format!("{:.1}", m.ours.median()));
        cells.push(m.samples_per_s().map_or_else(String::new, |x| format!("{x:.0}")));
        cells.extend([gb, gflop].map(|x| format!("{x:.1}")));
        if let Some(host) = m.host {
            let mut cells = vec![m.row.clone(), dtype.clone(), format!("{:.2}", host.us)];
            cells.extend(host.floor.map_or_else(
                || words(&["", ""]),
                |f| [f.bare_us, f.null_us].map(|x| format!("{x:.2}")).to_vec(),
            ));
            let numbers = [host.launches, m.cost.bytes as f64 / 1e6, m.cost.flops as f64 / 1e6];
            cells.extend(numbers.map(|x| format!("{x:.1}")));
            hosts.push(cells);
        }
        if let Some(best) = m.best() {
            let ratio = m.ours.median() / best.median();
            cells.extend([format!("{:.1}", best.median()), best.name.clone(), format!("{ratio:.2}")]);
        }
        rows.push(cells);
        for side in std::iter::once(&m.ours).chain(&m.peers) {
            let (least, most) = side.spread();
            let times = [side.median(), least, most].map(|us| format!("{us:.1}"));
            sides.push([m.row.clone(), dtype.clone(), side.name.clone()].into_iter().chain(times).collect());
        }
    }
    let tables = [rows, sides, hosts];
    tables.iter().filter(|t| t.len() > 1).map(|t| table(t)).collect::<Vec<_>>().join("\n\n")
}
