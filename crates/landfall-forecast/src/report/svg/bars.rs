//! Charts of horizontal bars, in groups.

use super::lines::opening;
use super::text::{digits, escape, shortened};
use std::fmt::Write;

/// A group of bars for each name.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) width: f64,
    /// Class and name of each bar of a group.
    pub(crate) kinds: Vec<(&'static str, String)>,
    /// Name and values of each group.
    pub(crate) groups: Vec<(String, Vec<f64>)>,
}

/// Where bars begin; names stand before.
const LEFT: f64 = 122.0;
/// Room for the number behind a bar.
const NUMBER: f64 = 62.0;
const BAR: f64 = 13.0;

impl Bars {
    /// The chart as SVG.
    pub(crate) fn svg(&self) -> String {
        let group = BAR * self.kinds.len() as f64 + 10.0;
        let top = 17.0 * self.kinds.len() as f64 + 10.0;
        let height = top + group * self.groups.len() as f64;
        let mut svg = opening(&self.title, &self.description, (self.width, height), None);
        for (i, (class, name)) in self.kinds.iter().enumerate() {
            let y = 4.0 + 17.0 * i as f64;
            let _ = write!(
                svg,
                r#"<rect class="bar {class}" x="8" y="{y}" width="20" height="10"/><text x="34" y="{}">{}</text>"#,
                y + 10.0,
                escape(name)
            );
        }
        let values = self.groups.iter().flat_map(|(_, values)| values);
        let most = values.copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let scale = if most > 0.0 { (self.width - LEFT - NUMBER) / most } else { 0.0 };
        for (g, (name, values)) in self.groups.iter().enumerate() {
            let y = top + group * g as f64;
            let middle = y + BAR * values.len() as f64 / 2.0 + 4.0;
            let label = escape(&shortened(name, 17));
            let _ = write!(
                svg,
                r#"<text x="{}" y="{middle:.1}" class="end">{label}<title>{}</title></text>"#,
                LEFT - 8.0,
                escape(&shortened(name, 200))
            );
            for (i, ((class, _), value)) in self.kinds.iter().zip(values).enumerate() {
                let (y, width) = (y + BAR * i as f64, (value * scale).max(1.0));
                let width = if width.is_finite() { width } else { 1.0 };
                let _ = write!(
                    svg,
                    r#"<rect class="bar {class}" x="{LEFT}" y="{y:.1}" width="{width:.1}" height="{}"/><text x="{:.1}" y="{:.1}">{}</text>"#,
                    BAR - 2.0,
                    LEFT + width + 5.0,
                    y + 10.0,
                    digits(*value)
                );
            }
        }
        svg + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bars = Bars {
            title: String::new(),
            description: String::new(),
            width: LEFT + NUMBER + 100.0,
            kinds: vec![("forecast", "forecast".to_owned())],
            groups: vec![("a".to_owned(), vec![2.0]), ("<b>".to_owned(), vec![0.5])],
        };
        let svg = bars.svg();
        assert!(svg.contains(r#"width="100.0""#) && svg.contains(r#"width="25.0""#), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && svg.contains(">0.5000<"), "{svg}");
    }
}
