//! Charts of lines over one axis.

use super::axes::{Scale, extent, ticks};
use super::text::escape;
use std::fmt::Write;

/// Points of a line that are drawn at most.
const POINTS: usize = 400;

/// A line of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Its class in the style sheet.
    pub(crate) class: &'static str,
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether its points are marked.
    pub(crate) dots: bool,
}

/// A place, and the lower and the upper value there.
pub(crate) type BandPoint = (f64, f64, f64);

/// Lines, bands between two values, and marked places.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineChart {
    pub(crate) title: String,
    pub(crate) description: String,
    /// Width and height in pixels.
    pub(crate) size: (f64, f64),
    pub(crate) x_ticks: Vec<(f64, String)>,
    pub(crate) x_name: String,
    pub(crate) y_name: String,
    pub(crate) lines: Vec<Line>,
    /// Bands, the widest first: their names and places.
    pub(crate) bands: Vec<(String, Vec<BandPoint>)>,
    /// Vertical lines.
    pub(crate) marks: Vec<(f64, String)>,
    /// Whether the values are shown by their logarithm.
    pub(crate) log: bool,
    /// Style sheet of a picture that stands on its own.
    pub(crate) style: Option<&'static str>,
}

/// At most [`POINTS`] of these, evenly, the last one among them.
fn thinned<T: Copy>(points: &[T]) -> Vec<T> {
    let every = points.len().div_ceil(POINTS).max(1);
    let mut kept: Vec<T> = points.iter().copied().step_by(every).collect();
    if !points.len().saturating_sub(1).is_multiple_of(every) {
        kept.extend(points.last().copied());
    }
    kept
}

/// At most [`POINTS`] of a line's points: of each stretch the least and the greatest, so that a season stays visible.
fn extremes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let stretch = (2 * points.len()).div_ceil(POINTS);
    let both = |part: &[(f64, f64)]| {
        let order = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = part.iter().min_by(order).zip(part.iter().max_by(order));
        ends.map_or_else(
            Vec::new,
            |(low, high)| if low.0 <= high.0 { vec![*low, *high] } else { vec![*high, *low] },
        )
    };
    points.chunks(stretch).flat_map(both).collect()
}

/// The class of the n-th band: those within the widest are darker.
fn band_class(n: usize) -> &'static str {
    if n == 0 { "band" } else { "band inner" }
}

/// A path through points; it is broken where a value is not finite.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let (mut text, mut pen) = (String::new(), 'M');
    for (x, y) in points {
        if !(x.is_finite() && y.is_finite()) {
            pen = 'M';
            continue;
        }
        let _ = write!(text, "{pen}{x:.1} {y:.1}");
        pen = 'L';
    }
    text
}

impl LineChart {
    fn value(&self, y: f64) -> f64 {
        if self.log { y.log10() } else { y }
    }

    /// The scales of both axes; `top` is the height of the legend.
    fn scales(&self, top: f64) -> (Scale, Scale) {
        let band = || self.bands.iter().flat_map(|(_, band)| band);
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let (low, high) = extent(all().map(|p| p.0).chain(band().map(|b| b.0)));
        let (width, height) = self.size;
        let (left, right) = (low, high);
        let values = all().map(|p| p.1).chain(band().flat_map(|b| [b.1, b.2]));
        let (low, high) = extent(values.map(|v| self.value(v)));
        let margin = 0.04 * (high - low);
        let low = if low == 0.0 { 0.0 } else { low - margin };
        let y = Scale { low, high: high + margin, from: height - 40.0, to: top };
        // The name of the axis stands left of its longest label.
        let longest = self.labels(&y).iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let from = (7.0 * longest as f64 + 27.0).max(62.0);
        (Scale { low: left, high: right, from, to: width - 14.0 }, y)
    }

    /// Values and labels of the vertical axis.
    fn labels(&self, y: &Scale) -> Vec<(f64, String)> {
        let decades = || {
            let range = y.low.ceil() as i32..=y.high.floor() as i32;
            range.map(|e| (f64::from(e), format!("1e{e}"))).collect::<Vec<_>>()
        };
        let linear = || {
            let of = |(v, _): (f64, String)| (v, super::digits(10f64.powf(v)));
            ticks(y.low, y.high, 4).into_iter().map(of).collect()
        };
        match (self.log, y.high - y.low > 2.0) {
            (true, true) => decades(),
            (true, false) => linear(),
            (false, _) => ticks(y.low, y.high, 4),
        }
    }

    /// The chart as SVG.
    pub(crate) fn svg(&self) -> String {
        let (legend, top) = self.legend();
        let (x, y) = self.scales(top);
        let mut svg = opening(&self.title, &self.description, self.size, self.style);
        svg += &legend;
        svg += &self.frame(&x, &y);
        for (i, (_, band)) in self.bands.iter().enumerate() {
            let (band, class) = (thinned(band), band_class(i));
            let upper = band.iter().map(|b| (x.at(b.0), y.at(self.value(b.2))));
            let lower = band.iter().rev().map(|b| (x.at(b.0), y.at(self.value(b.1))));
            let _ = write!(svg, r#"<path class="{class}" d="{}Z"/>"#, path(upper.chain(lower)));
        }
        for (place, name) in &self.marks {
            let at = x.at(*place);
            let _ = write!(
                svg,
                r#"<path class="mark" d="M{at:.1} {top:.1}V{:.1}"><title>{}</title></path>"#,
                y.from,
                escape(name)
            );
        }
        for line in &self.lines {
            let points: Vec<(f64, f64)> =
                extremes(&line.points).iter().map(|p| (x.at(p.0), y.at(self.value(p.1)))).collect();
            let _ =
                write!(svg, r#"<path class="line {}" d="{}"/>"#, line.class, path(points.iter().copied()));
            let dots = points.iter().filter(|p| (line.dots || points.len() == 1) && p.1.is_finite());
            for (x, y) in dots {
                let _ =
                    write!(svg, r#"<circle class="dot {}" cx="{x:.1}" cy="{y:.1}" r="2.5"/>"#, line.class);
            }
        }
        svg + "</svg>"
    }

    /// Grid, ticks and names of the axes.
    fn frame(&self, x: &Scale, y: &Scale) -> String {
        let mut svg = String::new();
        let (left, right, bottom) = (x.from, x.to, y.from);
        for (value, label) in self.labels(y) {
            let at = y.at(value);
            let _ = write!(svg, r#"<path class="grid" d="M{left} {at:.1}H{right}"/>"#);
            let _ =
                write!(svg, r#"<text x="{:.1}" y="{:.1}" class="end">{label}</text>"#, left - 6.0, at + 4.0);
        }
        for (place, label) in &self.x_ticks {
            let at = x.at(*place);
            if !(left - 0.5..=right + 0.5).contains(&at) {
                continue;
            }
            // A label near an end would leave the picture.
            let half = 3.3 * label.chars().count() as f64;
            let text = at.clamp(half + 2.0, self.size.0 - half - 2.0);
            let _ = write!(svg, r#"<path class="axis" d="M{at:.1} {bottom}v4"/>"#);
            let _ = write!(
                svg,
                r#"<text x="{text:.1}" y="{:.1}" class="mid">{}</text>"#,
                bottom + 17.0,
                escape(label)
            );
        }
        let _ = write!(svg, r#"<path class="axis" d="M{left} {bottom}H{right}"/>"#);
        let middle = f64::midpoint(left, right);
        let name = escape(&self.x_name);
        let _ =
            write!(svg, r#"<text x="{middle:.1}" y="{:.1}" class="mid soft">{name}</text>"#, bottom + 34.0);
        let _ = write!(
            svg,
            r#"<text transform="translate(11 {:.1}) rotate(-90)" class="mid soft">{}</text>"#,
            f64::midpoint(y.from, y.to),
            escape(&self.y_name)
        );
        svg
    }

    /// What is what, in as many rows as it takes; and the height below it.
    fn legend(&self) -> (String, f64) {
        let band = self.bands.iter().enumerate().map(|(i, (name, _))| (band_class(i), name.as_str()));
        let marks = self.marks.iter().map(|(_, name)| ("mark", name.as_str()));
        let lines = self.lines.iter().map(|line| (line.class, line.name.as_str()));
        let entries = lines.chain(band).chain(marks).filter(|(_, name)| !name.is_empty());
        let (mut svg, mut x, mut y) = (String::new(), 8.0, 14.0);
        for (class, name) in entries {
            let width = 6.7 * name.chars().count() as f64 + 40.0;
            if x > 8.0 && x + width - 12.0 > self.size.0 {
                (x, y) = (8.0, y + 17.0);
            }
            let sample = match class {
                band if band.starts_with("band") => {
                    format!(r#"<path class="{band}" d="M{x} {}h20v10h-20Z"/>"#, y - 9.0)
                }
                "mark" => format!(r#"<path class="mark" d="M{} {}v12"/>"#, x + 10.0, y - 10.0),
                line => format!(r#"<path class="line {line}" d="M{x} {}h20"/>"#, y - 4.0),
            };
            let _ = write!(svg, r#"{sample}<text x="{}" y="{y}">{}</text>"#, x + 25.0, escape(name));
            x += width;
        }
        (svg, y + 12.0)
    }
}

/// The first tag of a picture, with its title and description.
pub(super) fn opening(title: &str, description: &str, size: (f64, f64), style: Option<&str>) -> String {
    let (width, height) = size;
    let alone = style.map_or(String::new(), |_| {
        format!(r#" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}""#)
    });
    let style = style.map_or(String::new(), |s| format!("<style>{s}</style>"));
    let (title, description) = (escape(title), escape(description));
    format!(
        r#"<svg{alone} class="chart" viewBox="0 0 {width} {height}" role="img"><title>{title}</title><desc>{description}</desc>{style}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_broken_where_a_value_is_missing() {
        let points = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.04)];
        assert_eq!(path(points.into_iter()), "M0.0 1.0L1.0 2.0M3.0 4.0");
    }

    #[test]
    fn long_lines_are_thinned_and_keep_both_ends() {
        let all: Vec<usize> = (0..5_000).collect();
        let kept = thinned(&all);
        assert!(kept.len() <= POINTS + 1, "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (Some(&0), Some(&4_999)));
        assert_eq!(thinned(&all[..3]), [0, 1, 2]);
    }

    #[test]
    fn a_chart_maps_its_values_to_its_frame() {
        let points = vec![(0.0, 0.0), (10.0, 5.0)];
        let line = Line { class: "forecast", name: "a<b".to_owned(), points, dots: false };
        let chart = LineChart { size: (440.0, 250.0), lines: vec![line], ..LineChart::default() };
        let svg = chart.svg();
        // Zero lies on the axis; the frame goes from 62 to 426.
        assert!(svg.contains(r#"<path class="line forecast" d="M62.0 210.0L426.0 33.1"/>"#), "{svg}");
        assert!(svg.contains("a&lt;b") && !svg.contains("http"), "{svg}");
    }

    #[test]
    fn the_name_of_an_axis_is_clear_of_its_labels() {
        let points = vec![(0.0, 130_000.0), (10.0, 140_000.0)];
        let line = Line { class: "forecast", name: String::new(), points, dots: false };
        let chart = LineChart { size: (440.0, 250.0), lines: vec![line], ..LineChart::default() };
        let (x, y) = chart.scales(20.0);
        let longest = chart.labels(&y).iter().map(|(_, label)| label.len()).max().expect("labels");
        // A digit is 7 wide at most, labels end 6 before the frame, and the name ends at 15.
        assert!(longest >= 6 && x.from - 6.0 - 7.0 * longest as f64 >= 15.0, "{longest} {}", x.from);
    }
}
