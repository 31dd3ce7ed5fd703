//! A profile as text: a header, and tables of equal instructions and of ops.

use super::{Profile, Row, Timed, distance, per_ns};
use crate::contract::Cost;
use crate::kernel::cuda::segment::{GROUP, SEGMENT};
use crate::values::Spec;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Rows of a profile with one op and kernel, and one list of shapes, or with one op; sums over them.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The op; `op/kernel` where the kernel has another name and all rows have it.
    pub name: String,
    /// Dtypes and shapes, `inputs -> outputs`; empty if the rows differ in them.
    pub shapes: String,
    /// The number of rows.
    pub count: usize,
    /// The number of launches.
    pub launches: usize,
    /// Their time.
    pub time: Duration,
    /// Their bytes and operations.
    pub cost: Cost,
    /// The sum of their floors.
    pub floor: Duration,
}

/// A list of specs in which a run of equal ones stands once, with its length.
fn listed(specs: &[Spec]) -> String {
    let one = |same: &[Spec]| match same {
        [spec] => spec.to_string(),
        _ => format!("{} x{}", same[0], same.len()),
    };
    specs.chunk_by(|a, b| a == b).map(one).collect::<Vec<_>>().join(", ")
}

impl Row {
    /// The kernel that does it and others.
    fn joined(&self) -> Option<&'static str> {
        self.nodes.iter().map(|node| node.kernel).find(|kernel| [SEGMENT, GROUP].contains(kernel))
    }

    /// The op, and its kernel where that has another name, or that it is the first of a segment or a group.
    #[must_use]
    pub fn name(&self) -> String {
        if let Some(joined) = self.joined() {
            return format!("{joined} from {} on", self.op);
        }
        if self.op == self.kernel { self.op.to_owned() } else { format!("{}/{}", self.op, self.kernel) }
    }

    /// Dtypes and shapes, `inputs -> outputs`.
    #[must_use]
    pub fn shapes(&self) -> String {
        format!("{} -> {}", listed(&self.inputs), listed(&self.outputs))
    }
}

impl Profile {
    /// Rows of one op, kernel and list of shapes as one, the longest first.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        self.grouped(|row| (row.name(), row.shapes()))
    }

    /// Rows of one op as one, segments as one and groups as one, the longest first.
    #[must_use]
    pub fn by_op(&self) -> Vec<Group> {
        self.grouped(|row| (row.joined().unwrap_or(row.op).to_owned(), String::new()))
    }

    fn grouped(&self, key: impl Fn(&Row) -> (String, String)) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<(String, String), usize> = HashMap::new();
        for row in &self.rows {
            let place = *places.entry(key(row)).or_insert_with_key(|(name, shapes)| {
                groups.push(Group {
                    name: name.clone(),
                    shapes: shapes.clone(),
                    count: 0,
                    launches: 0,
                    time: Duration::ZERO,
                    cost: Cost::default(),
                    floor: Duration::ZERO,
                });
                groups.len() - 1
            });
            let group = &mut groups[place];
            group.count += 1;
            group.launches += row.nodes.len();
            group.time += row.time();
            group.cost = group.cost + row.cost;
            group.floor += row.floor;
        }
        // Equal times keep the order of the run.
        groups.sort_by_key(|group| std::cmp::Reverse(group.time));
        groups
    }
}

fn us(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e6)
}

fn times(distance: Option<f64>) -> String {
    distance.map_or_else(|| "-".to_owned(), |x| format!("{x:.2}"))
}

/// One line of a table: numbers to the right, and behind them what they are of.
fn line(f: &mut fmt::Formatter<'_>, cells: [&str; 9], of: &str) -> fmt::Result {
    const WIDTHS: [usize; 9] = [6, 8, 11, 6, 10, 9, 10, 11, 9];
    for (cell, width) in cells.into_iter().zip(WIDTHS) {
        write!(f, "{cell:>width$} ")?;
    }
    writeln!(f, " {of}")
}

fn table(f: &mut fmt::Formatter<'_>, groups: &[Group], whole: Duration, title: &str) -> fmt::Result {
    let header = ["count", "launches", "us", "%", "MB", "GB/s", "GFLOP/s", "floor us", "distance"];
    line(f, header, title)?;
    for g in groups {
        let share = if whole.is_zero() { 0.0 } else { 100.0 * g.time.as_secs_f64() / whole.as_secs_f64() };
        let cells = [
            g.count.to_string(),
            g.launches.to_string(),
            us(g.time),
            format!("{share:.1}"),
            format!("{:.2}", g.cost.bytes as f64 / 1e6),
            format!("{:.1}", per_ns(g.cost.bytes, g.time)),
            format!("{:.1}", per_ns(g.cost.flops, g.time)),
            us(g.floor),
            times(distance(g.time, g.floor)),
        ];
        let of = [g.name.as_str(), g.shapes.as_str()].join("  ");
        line(f, cells.each_ref().map(String::as_str), of.trim_end())?;
    }
    Ok(())
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph => {
                f.write_str("by events between the nodes of the replayed graph, one after the other")
            }
            Self::Launches { why } => {
                write!(
                    f,
                    "launch by launch, so that short ones include the device's wait for the host ({why})"
                )
            }
            Self::Host => f.write_str("by the host's clock around each launch"),
        }
    }
}

impl fmt::Display for Profile {
    /// A header, a table of equal instructions and one of ops, each sorted by time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, cost, floor) = (self.time(), self.cost(), self.floor());
        writeln!(f, "{} on {}", self.program, self.device)?;
        writeln!(f, "timed {}; medians of {}", self.timed, self.runs)?;
        write!(f, "an empty interval measures {} us, ", us(self.resolution))?;
        write!(f, "a copy of one element {} us; ", us(self.rates.launch))?;
        write!(f, "rates: copy {:.1} GB/s", self.rates.copy / 1e9)?;
        for product in self.rates.products.iter().filter(|p| p.size > 0) {
            write!(f, ", {} matmul {:.1} GFLOP/s", product.name(), product.flops / 1e9)?;
        }
        writeln!(
            f,
            "\nrun {} us; its {} nodes of {} instructions {} us one after the other",
            us(self.step),
            self.launches(),
            self.rows.len(),
            us(nodes)
        )?;
        writeln!(
            f,
            "{:.2} MB, {:.3} GFLOP; floor {} us, distance {} of the run and {} of the nodes\n",
            cost.bytes as f64 / 1e6,
            cost.flops as f64 / 1e9,
            us(floor),
            times(distance(self.step, floor)),
            times(distance(nodes, floor))
        )?;
        table(f, &self.groups(), nodes, "op/kernel and shapes")?;
        writeln!(f)?;
        table(f, &self.by_op(), nodes, "op")
    }
}
