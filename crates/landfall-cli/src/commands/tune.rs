//! `landfall tune`: the fastest kernel for each instruction of a training step.

use super::train::one_run::settings;
use super::{note_all, note_texts};
use crate::args::Tune;
use crate::error::CliError;
use crate::output::{self, table};
use landfall::World;
use landfall::tune::{Row, Tuned, Verdict};
use landfall_forecast::training::{load, start_of};
use serde_json::json;

/// Tunes and prints.
pub(crate) fn run(args: &Tune) -> Result<(), CliError> {
    let (settings, _, of_weights) =
        start_of(settings(args.setup.settings(), args.setup.shapes.config.as_deref())?)?;
    let mut resolved = settings.resolve()?;
    let mut loaded = load(&mut resolved, None, &World::single())?;
    loaded.notes.extend(of_weights);
    note_texts(&loaded.notes);
    let device = loaded.placed.line();
    let found = loaded.placed.made.tune(args.again)?;
    note_all(&found.notices.iter().map(ToString::to_string).collect::<Vec<_>>());
    if args.json {
        return output::json(&json!({"device": found.choices.device, "instructions": found.rows}));
    }
    output::line(&device)?;
    output::line(&shown(&found))
}

fn shown(found: &Tuned) -> String {
    let header = ["instruction", "count", "tried", "rejected", "own us", "us", "gain", "kernel"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let (mut own, mut chosen) = (0.0, 0.0);
    for row in &found.rows {
        let (before, after) = (microseconds(row, 0), microseconds(row, row.chosen));
        if let (Some(before), Some(after)) = (before, after) {
            own += before * row.count as f64;
            chosen += after * row.count as f64;
        }
        let number = |us: Option<f64>| us.map_or_else(|| "kept".to_owned(), |us| format!("{us:.1}"));
        let gain = before.zip(after).map(|(b, a)| format!("{:.2}x", b / a));
        let tried = row.candidates.iter().filter(|c| c.verdict != Verdict::Untried).count();
        rows.push(vec![
            row.instruction.clone(),
            row.count.to_string(),
            tried.to_string(),
            row.candidates.iter().filter(|c| c.rejected()).count().to_string(),
            number(before),
            number(after),
            gain.unwrap_or_default(),
            row.candidates[row.chosen].kernel.clone(),
        ]);
    }
    let rejected = found.rows.iter().flat_map(|row| {
        let why = |c: &landfall::tune::Candidate| match &c.verdict {
            Verdict::Rejected(why) => Some(format!("rejected {} for {}: {why}", c.kernel, row.instruction)),
            Verdict::Microseconds(_) | Verdict::Right | Verdict::Untried => None,
        };
        row.candidates.iter().filter_map(why)
    });
    let mut lines: Vec<String> = rejected.collect();
    if found.rows.is_empty() {
        lines.push("no instruction has several kernels".to_owned());
    } else {
        lines.insert(0, table(&rows));
    }
    if chosen > 0.0 {
        lines.push(format!(
            "{own:.0} us in the ops' own kernels, {chosen:.0} us in those chosen, of what was timed now, with cold caches"
        ));
    }
    lines.join("\n")
}

fn microseconds(row: &Row, candidate: usize) -> Option<f64> {
    match row.candidates[candidate].verdict {
        Verdict::Microseconds(us) => Some(us),
        Verdict::Right | Verdict::Rejected(_) | Verdict::Untried => None,
    }
}
