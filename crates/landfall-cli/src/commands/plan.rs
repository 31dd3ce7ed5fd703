//! `landfall plan`: the memory of a training step, without data and without computing.

use crate::args::Plan;
use crate::error::CliError;
use crate::output::{self, mib, table};
use landfall::plan::Report;
use landfall_forecast::run::{Device, Group, Preset, Setting, Settings, on_device};
use landfall_train::data::synthetic::walk;
use landfall_train::models::{Columns, ModelKind, Predicts};
use landfall_train::train::{Dataset, Target};
use serde_json::json;

/// Plans and prints.
pub(crate) fn run(args: &Plan) -> Result<(), CliError> {
    let (flags, given) = (args.shapes.settings(), args.channels.settings.channels);
    let mut settings = match &args.shapes.config {
        Some(file) => {
            let mut stored = Settings::read(file)?;
            // Of a run's file the plan is that run's.
            let kernels = stored.kernels.take();
            Settings { kernels, ..flags.over(&stored.for_new_run())? }
        }
        None => flags,
    };
    if settings.model.is_none() {
        // The default recipe takes its sizes from data; a plan needs none.
        settings.preset.get_or_insert_with(|| Preset::of(ModelKind::Patchtst).name.to_owned());
    }
    let listed = settings.columns.take().map(|c| c.len());
    let channels = given.or(settings.channels).or(listed).unwrap_or(7);
    // The plan depends on no data, only on its number of columns.
    let targets = settings.target.take().map(|targets| targets.len());
    let of_data = |setting: &Setting| {
        setting.facts.of_files
            || setting.facts.group == Group::Covariates
            || ["data", "frequency"].contains(&setting.name)
    };
    settings = settings.without(of_data);
    let classifies = settings.model == Some(ModelKind::CrossAsset)
        || settings.preset.as_deref() == Some(Preset::of(ModelKind::CrossAsset).name);
    settings.channels = if classifies { given } else { Some(channels) };
    // Of a run with covariates its columns.
    let stored = settings.network.as_ref().and_then(|n| n.columns).filter(|_| given.is_none());
    let resolved = settings.resolve()?;
    let targets = targets.unwrap_or(channels).clamp(1, channels.max(1));
    let columns = stored.unwrap_or(Columns { targets, past: channels.saturating_sub(targets), known: 0 });
    let resolved = match resolved.network.predicts() {
        Predicts::Rows(_) => resolved.for_columns(columns)?,
        Predicts::Value | Predicts::Classes(_) => resolved,
    };
    let (n, t) = (&resolved.network, &resolved.training);
    let mut dataset = match n.predicts() {
        Predicts::Rows(_) => Dataset::blank(channels, n.context(), n.horizon(), t.batch),
        Predicts::Value => Dataset::regression(&walk(t.batch, channels, n.context(), t.seed)?),
        Predicts::Classes(classes) => {
            Dataset::blank_classes(n.tokens().unwrap_or(1), n.context(), classes, t.batch)
        }
    };
    let channels = n.tokens().unwrap_or(channels);
    if let Target::Future(all) = &mut dataset.target {
        (*all, dataset.known) = (columns.targets, columns.known);
    }
    let placed = on_device(args.device, None, |engine| resolved.session(engine, &dataset))?;
    let session = &placed.made;
    let [train, ..] = session.programs();
    let report = train.report();
    let peak = report.arena_bytes + report.state_bytes + report.own_bytes;
    if args.json {
        return output::json(
            &json!({"peak_bytes": peak, "peak_mib": peak as f64 / (1u64 << 20) as f64, "plan": report}),
        );
    }
    let preset = resolved.settings.preset.as_deref().unwrap_or_default();
    output::line(&format!(
        "{preset}: batch {}, {channels} channels, context {}, horizon {}, {} parameters{}\n\n{}\n\n{}",
        t.batch,
        n.context(),
        n.predicts().values(),
        session.model().parameters().count(),
        if placed.device == Device::Null { String::new() } else { format!("; {}", placed.line()) },
        values(&report, args.all),
        summary(&report, peak)
    ))
}

/// The values alive at the peak, largest first; or all, in the order they are made.
fn values(r: &Report, all: bool) -> String {
    let mut shown: Vec<_> = (r.rows.iter())
        .filter(|row| all || (row.first <= r.peak_instruction && r.peak_instruction <= row.last))
        .collect();
    if !all {
        shown.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    }
    let header =
        ["value", "dtype and shape", "made by", "from", "to", "offset", "MiB"].map(str::to_owned).to_vec();
    let row = |row: &&landfall::plan::ReportRow| {
        vec![
            row.name.clone(),
            row.spec.clone(),
            if row.op == row.kernel { row.op.clone() } else { format!("{}/{}", row.op, row.kernel) },
            row.first.to_string(),
            row.last.to_string(),
            row.offset.to_string(),
            mib(row.bytes),
        ]
    };
    table(&std::iter::once(header).chain(shown.iter().map(row)).collect::<Vec<_>>())
}

/// Which instructions take another kernel than their op's own.
fn pinned(r: &Report) -> String {
    let one = |(k, op, kernel): &(usize, String, String)| format!("{k} {op}/{kernel}");
    match &r.pinned[..] {
        [] => String::new(),
        all => format!("\ntuned kernels: {}", all.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

fn summary(r: &Report, peak: usize) -> String {
    let unplanned: usize = r.rows.iter().map(|row| row.bytes).sum();
    format!(
        "{} instructions, {} outputs in place, {} values recomputed; most is alive at instruction {}\n\
         {} launches of a step, {} in its longest chain\n\
         arena {} MiB (alive at most {} MiB; each value on its own would take {} MiB)\n\
         state {} MiB (parameters, moments, statistics, the plan's data)\n\
         peak {} MiB{}",
        r.instructions,
        r.in_place,
        r.recomputed,
        r.peak_instruction,
        r.launches,
        r.longest_chain,
        mib(r.arena_bytes),
        mib(r.live_peak_bytes),
        mib(unplanned),
        mib(r.state_bytes),
        mib(peak),
        pinned(r)
    )
}
