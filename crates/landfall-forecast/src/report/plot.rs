//! A forecast as a picture of characters, for a terminal.

use super::digits;

/// Dots of a braille character by row and column, as Unicode numbers them.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// Lines of text with the last values of a history (dots on every second column) and the forecast after it (a closed line).
///
/// `columns` and `rows` are the size of the picture in characters, without the labels of the axis at its left; each
/// character has 2 by 4 dots. Values that are not finite are left out. No lines where no value is left.
#[must_use]
pub fn plot(history: &[f64], forecast: &[f64], (columns, rows): (usize, usize)) -> Vec<String> {
    let all: Vec<f64> = history.iter().chain(forecast).copied().collect();
    let finite = || all.iter().copied().filter(|x| x.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if low > high || columns == 0 || rows == 0 {
        return Vec::new();
    }
    let (width, height) = (2 * columns, 4 * rows);
    let mut cells = vec![0u32; columns * rows];
    let row_of = |x: f64| {
        let share = if high > low { (high - x) / (high - low) } else { 0.5 };
        (share * (height - 1) as f64).round() as usize
    };
    let mut before: Option<usize> = None;
    for dot in 0..width {
        let place = dot as f64 / (width - 1) as f64 * (all.len() - 1) as f64;
        let (left, share) = (place.floor() as usize, place.fract());
        let value = match all.get(left + 1) {
            Some(next) if share > 0.0 => all[left] * (1.0 - share) + next * share,
            Some(_) | None => all[left],
        };
        let forecasts = place >= history.len().saturating_sub(1) as f64 && !forecast.is_empty();
        if !value.is_finite() {
            before = None;
            continue;
        }
        let row = row_of(value);
        if forecasts || dot.is_multiple_of(2) {
            // A steep line stays closed: the dots between two places are set too.
            let from = before.unwrap_or(row);
            for y in from.min(row)..=from.max(row) {
                cells[y / 4 * columns + dot / 2] |= DOTS[y % 4][dot % 2];
            }
        }
        before = forecasts.then_some(row);
    }
    let labels = [(0, digits(high)), (rows - 1, digits(low))];
    let margin = labels.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
    let line = |(row, cells): (usize, &[u32])| {
        let label = labels.iter().rev().find(|(at, _)| *at == row).map_or("", |(_, label)| label);
        let drawn: String = cells.iter().filter_map(|bits| char::from_u32(0x2800 + bits)).collect();
        format!("{label:>margin$} ┤{drawn}")
    };
    cells.chunks(columns).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_forecast_ends_at_the_top_right() {
        let lines = plot(&[0.0, 1.0, 2.0], &[3.0, 4.0], (10, 3));
        assert_eq!(lines.len(), 3);
        let cell = |line: usize, at: usize| lines[line].chars().rev().nth(9 - at).expect("a cell") as u32;
        // The last dot of the first row, and the first of the last one.
        assert_ne!((cell(0, 9) - 0x2800) & 0x08, 0, "{lines:?}");
        assert_ne!((cell(2, 0) - 0x2800) & 0x40, 0, "{lines:?}");
        assert_eq!(cell(0, 0), 0x2800, "{lines:?}");
        assert!(lines[0].starts_with("4.000 ┤") && lines[2].starts_with("    0 ┤"), "{lines:?}");
    }

    #[test]
    fn a_constant_is_one_line_and_nothing_is_none() {
        let lines = plot(&[5.0; 4], &[5.0; 2], (8, 3));
        let marked = |line: &String| line.chars().any(|c| c > '\u{2800}' && c <= '\u{28ff}');
        assert_eq!(lines.iter().filter(|l| marked(l)).count(), 1, "{lines:?}");
        assert!(plot(&[f64::NAN], &[f64::INFINITY], (8, 3)).is_empty());
        assert!(plot(&[], &[], (8, 3)).is_empty());
        assert_eq!(plot(&[1.0], &[], (4, 2)).len(), 2);
    }
}
