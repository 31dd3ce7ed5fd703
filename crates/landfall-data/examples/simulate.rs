//! Draws a grid of simulated series, a line for each kind of calendar: `cargo run -p landfall-data --example simulate > series.svg`.
//! Arguments: a seed and the parts that are in, as `7 -missing,-outliers`.

use landfall_data::generated::{Kind, Parts, Simulator};
use std::fmt::Write;

/// The kinds and how many of the last rows of their series are drawn.
const KINDS: [(Kind, &str, usize); 8] = [
    (Kind::Yearly, "yearly", 40),
    (Kind::Quarterly, "quarterly", 60),
    (Kind::Monthly, "monthly", 120),
    (Kind::Weekly, "weekly", 156),
    (Kind::Daily, "daily", 180),
    (Kind::Hourly, "hourly", 240),
    (Kind::Minutely, "minutely", 240),
    (Kind::Other, "other", 160),
];

/// Series of each kind.
const SERIES: u64 = 5;
/// Size of a picture, with its margin.
const CELL: (f64, f64) = (190.0, 70.0);

const STYLE: &str = "<style>text{font:11px sans-serif;fill:#57606a}path{fill:none;stroke:#0969da;stroke-width:1}\
    @media(prefers-color-scheme:dark){text{fill:#9198a1}path{stroke:#4493f8}}</style>";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let parts: Parts = arguments.next().map_or(Ok(Parts::ALL), |text| text.parse())?;
    let simulator = Simulator::new(seed).with_parts(parts);
    let (width, height) = (CELL.0 * SERIES as f64, (CELL.1 + 16.0) * KINDS.len() as f64);
    let mut svg =
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\">{STYLE}\n");
    for (line, (kind, name, rows)) in KINDS.into_iter().enumerate() {
        let top = (CELL.1 + 16.0) * line as f64;
        writeln!(svg, "<text x=\"4\" y=\"{}\">{name}: the last {rows} rows</text>", top + 12.0)?;
        for number in 0..SERIES {
            let mut values = vec![0.0; 1152];
            simulator.clone().with_kind(kind).series(number, &mut values);
            let path = path(&values[values.len() - rows..], number as f64 * CELL.0 + 4.0, top + 18.0);
            writeln!(svg, "<path d=\"{path}\"/>")?;
        }
    }
    println!("{svg}</svg>");
    Ok(())
}

/// A line through the values that are known, from the lowest to the highest of them.
fn path(values: &[f32], left: f64, top: f64) -> String {
    let known = values.iter().filter(|x| x.is_finite());
    let (low, high) = known.fold((f32::MAX, f32::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    let (across, up) =
        ((CELL.0 - 14.0) / values.len() as f64, (CELL.1 - 8.0) / f64::from((high - low).max(1e-30)));
    let (mut text, mut pen) = (String::new(), 'M');
    for (t, value) in values.iter().enumerate() {
        if value.is_nan() {
            pen = 'M';
            continue;
        }
        let (x, y) = (left + across * t as f64, top + up * f64::from(high - value));
        text += &format!("{pen}{x:.1} {y:.1}");
        pen = 'L';
    }
    text
}
