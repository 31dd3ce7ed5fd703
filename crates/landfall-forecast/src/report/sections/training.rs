//! How training went.

use super::super::curves::Curves;
use super::super::page::Page;
use super::super::svg::{Line, LineChart, digits, row_ticks};
use super::style::SIZE;
use crate::run::Run;

/// Values of so wide a range are shown by their logarithm.
const WIDE: f64 = 30.0;

/// Loss, validation error and learning rate.
pub(crate) fn curves(page: &mut Page, run: &Run, curves: &Curves) {
    page.heading(2, "Training");
    let (loss, rate) = (curves.loss.points(), curves.rate.points());
    if loss.is_empty() {
        page.paragraph("soft", "No step was trained: metrics.jsonl has no loss.");
        return;
    }
    if run.forecaster().is_some_and(|f| f.ridge.is_some() || f.share == 0.0) {
        let kind = run.resolved().trained_kind().name();
        let text = format!("These curves are those of {kind}, a candidate that was not chosen.");
        page.paragraph("soft", &text);
    }
    let best = curves.best.map(|(step, error)| format!("best validation: step {step}, {}", digits(error)));
    let marks = curves.best.zip(best.clone()).map(|((step, _), name)| (step as f64, name));
    let validation = curves.validation.points();
    let last = loss.last().map_or(0.0, |p| p.0);
    let mut lines =
        vec![Line { class: "forecast", name: "training loss".to_owned(), points: loss, dots: false }];
    if !validation.is_empty() {
        let name = "validation error".to_owned();
        let dots = validation.len() <= 60;
        lines.push(Line { class: "valid", name, points: validation, dots });
    }
    let values = || lines.iter().flat_map(|l| &l.points).map(|p| p.1);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let log = low > 0.0 && high / low > WIDE;
    let (scale, beside) =
        if log { (", logarithmic", "logarithmic scale") } else { ("", run.resolved().units()) };
    let loss = LineChart {
        title: "Loss and validation error".to_owned(),
        description:
            "Loss of the training batches and validation error after steps; the best validation is marked."
                .to_owned(),
        size: SIZE,
        x_ticks: row_ticks(0.0, last),
        x_name: "step".to_owned(),
        y_name: format!("loss{scale}"),
        lines,
        marks: marks.into_iter().collect(),
        log,
        ..LineChart::default()
    };
    let rate = LineChart {
        title: "Learning rate".to_owned(),
        description: "Learning rate of each step.".to_owned(),
        size: SIZE,
        x_ticks: row_ticks(0.0, last),
        x_name: "step".to_owned(),
        y_name: "learning rate".to_owned(),
        lines: vec![Line { class: "forecast", name: "learning rate".to_owned(), points: rate, dots: false }],
        ..LineChart::default()
    };
    page.charts(&[
        ("Loss and validation error".to_owned(), beside.to_owned(), loss.svg()),
        ("Learning rate".to_owned(), String::new(), rate.svg()),
    ]);
}
