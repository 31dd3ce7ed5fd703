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
const SERIES: u64 = 4;
/// Size of a picture, with its margin.
const CELL: (f64, f64) = (460.0, 150.0);

const STYLE: &str = "<style>text{font:24px sans-serif;fill:#57606a}path{fill:none;stroke:#0969da;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#9198a1}path{stroke:#4493f8}}</style>";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let parts: Parts = arguments.next().map_or(Ok(Parts::ALL), |text| text.parse())?;
    let simulator = Simulator::new(seed).with_parts(parts);
    let (width, height) = (CELL.0 * SERIES as f64, (CELL.1 + 34.0) * KINDS.len() as f64);
    let mut svg =
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\">{STYLE}\n");
    for (line, (kind, name, rows)) in KINDS.into_iter().enumerate() {
        let top = (CELL.1 + 34.0) * line as f64;
        writeln!(svg, "<text x=\"4\" y=\"{}\">{name}: the last {rows} rows</text>", top + 24.0)?;
        for number in 0..SERIES {
            let mut values = vec![0.0; 1152];
            simulator.clone().with_kind(kind).series(line as u64 * SERIES + number, &mut values);
            let path = path(&values[values.len() - rows..], number as f64 * CELL.0 + 4.0, top + 36.0);
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
        ((CELL.0 - 24.0) / values.len() as f64, (CELL.1 - 12.0) / f64::from((high - low).max(1e-30)));
    // Whole steps from point to point are the shortest text.
    let (mut text, mut pen, mut last) = (String::new(), 'm', (0, 0));
    for (t, value) in values.iter().enumerate() {
        if value.is_nan() {
            pen = 'm';
            continue;
        }
        let (x, y) = (left + across * t as f64, top + up * f64::from(high - value));
        let point = (x.round() as i64, y.round() as i64);
        text += &format!("{pen}{} {}", point.0 - last.0, point.1 - last.1);
        last = point;
        pen = 'l';
    }
    text
}
