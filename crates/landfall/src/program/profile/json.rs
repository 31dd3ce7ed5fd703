//! A profile as JSON, and as a timeline for Perfetto or Chrome.

use super::{Node, ProductRate, Profile, Row, Timed, distance, per_ns};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::time::Duration;

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn texts<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(T::to_string).collect()
}

impl Row {
    fn rates(&self) -> (f64, f64) {
        let time = self.time();
        (per_ns(self.cost.bytes, time), per_ns(self.cost.flops, time))
    }

    fn object(&self) -> Value {
        let (gb_per_s, gflop_per_s) = self.rates();
        let node = |node: &Node| json!({"kernel": node.kernel, "us": us(node.time)});
        json!({
            "instruction": self.instruction,
            "op": self.op,
            "kernel": self.kernel,
            "names": self.names,
            "inputs": texts(&self.inputs),
            "outputs": texts(&self.outputs),
            "us": us(self.time()),
            "bytes": self.cost.bytes,
            "flops": self.cost.flops,
            "gb_per_s": gb_per_s,
            "gflop_per_s": gflop_per_s,
            "floor_us": us(self.floor),
            "distance": distance(self.time(), self.floor),
            "nodes": self.nodes.iter().map(node).collect::<Vec<Value>>(),
        })
    }
}

impl Serialize for Profile {
    /// Times in microseconds, rates in GB/s and GFLOP/s; `timed` is `graph`, `launches` (with `why`) or `host`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (timed, why) = match &self.timed {
            Timed::Graph => ("graph", None),
            Timed::Launches { why } => ("launches", Some(why)),
            Timed::Host => ("host", None),
        };
        let product =
            |p: &ProductRate| json!({"dtype": p.name(), "gflop_per_s": p.flops / 1e9, "size": p.size});
        let (time, cost, floor) = (self.time(), self.cost(), self.floor());
        json!({
            "program": self.program,
            "device": self.device,
            "timed": timed,
            "why": why,
            "runs": self.runs,
            "us": us(self.step),
            "nodes_us": us(time),
            "resolution_us": us(self.resolution),
            "launches": self.launches(),
            "bytes": cost.bytes,
            "flops": cost.flops,
            "floor_us": us(floor),
            "distance": distance(self.step, floor),
            "rates": {
                "copy_gb_per_s": self.rates.copy / 1e9,
                "launch_us": us(self.rates.launch),
                "products": self.rates.products.iter().map(product).collect::<Vec<Value>>(),
            },
            "rows": self.rows.iter().map(Row::object).collect::<Vec<Value>>(),
        })
        .serialize(serializer)
    }
}

/// Profiles as a timeline in the Trace Event Format, which Perfetto (<https://ui.perfetto.dev>) and Chrome open: a process for
/// each named profile, a track for each of its ops, and a slice for each node with its measured time, one after the
/// other. A slice has the kernel's name, and as arguments what the profile says of its instruction.
///
/// ```
/// # use landfall::{DType, Engine, Graph, Program, State, StateSpec};
/// # let engine = Engine::cpu()?;
/// # let nothing = std::sync::Arc::new(StateSpec::new());
/// # let mut state = State::new(&engine, &nothing)?;
/// # let g = Graph::new(&nothing);
/// # let x = g.input("x", DType::F32, [4]);
/// # g.output("y", g.tanh(x)?);
/// # let mut program = Program::compile(&engine, &state, "tanh", &g)?;
/// # program.write("x", &[0.0f32; 4])?;
/// let profile = program.profile(&mut state, 5)?;
/// let timeline = landfall::profile::trace([("step", &profile)]);
/// assert!(timeline.contains("\"ph\":\"X\""));
/// # Ok::<(), landfall::Error>(())
/// ```
#[must_use]
pub fn trace<'p>(profiles: impl IntoIterator<Item = (&'p str, &'p Profile)>) -> String {
    let mut events = Vec::new();
    for (process, (name, profile)) in profiles.into_iter().enumerate() {
        let pid = process + 1;
        let label = |name: &str, tid: usize, args: Value| json!({"ph": "M", "pid": pid, "tid": tid, "name": name, "args": args});
        events.push(label("process_name", 0, json!({"name": name})));
        let mut tracks: Vec<&str> = Vec::new();
        let mut start = Duration::ZERO;
        for row in &profile.rows {
            let track = tracks.iter().position(|op| *op == row.op).unwrap_or(tracks.len());
            if track == tracks.len() {
                tracks.push(row.op);
                events.push(label("thread_name", track + 1, json!({"name": row.op})));
                events.push(label("thread_sort_index", track + 1, json!({"sort_index": track})));
            }
            let mut args = row.object();
            if let Some(args) = args.as_object_mut() {
                args.remove("nodes");
            }
            for (n, node) in row.nodes.iter().enumerate() {
                args["node"] = json!(format!("{} of {}", n + 1, row.nodes.len()));
                events.push(json!({
                    "ph": "X",
                    "pid": pid,
                    "tid": track + 1,
                    "ts": us(start),
                    "dur": us(node.time),
                    "name": node.kernel,
                    "cat": row.op,
                    "args": args,
                }));
                start += node.time;
            }
        }
    }
    json!({"displayTimeUnit": "ns", "traceEvents": events}).to_string()
}
