//! `landfall predict`: the classes of samples, and how probable each class is.

use super::forecast::write;
use crate::args::Predict as Args;
use crate::error::CliError;
use crate::output;
use landfall_forecast::run::{ClassPrediction, Run, on_device};
use landfall_forecast::table::quoted;
use serde_json::json;

/// Predicts and writes.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if let Some(path) = args.out.as_ref().filter(|p| p.exists()) {
        return Err(CliError::OutExists(path.clone()));
    }
    let run = Run::open(&args.run)?;
    // Refused before a session is made: it takes a moment.
    let data = run.unlabelled(&args.data)?;
    let placed = on_device(args.with.on.device, args.with.on.threads, |engine| {
        run.predictor(engine, args.with.weights)
    })?;
    placed.note().iter().for_each(|device| output::note(device));
    let mut session = placed.made;
    let prediction = run.classes(&mut session, data)?;
    let text = csv(&prediction);
    if let Some(path) = &args.out {
        write(path, &text)?;
    }
    if args.with.json {
        let p = &prediction;
        let rows = p.probabilities.chunks_exact(p.names.classes.len()).map(<[f64]>::to_vec);
        let samples = rows.collect::<Vec<_>>();
        let samples: Vec<_> = samples.chunks_exact(p.names.tokens.len()).collect();
        return output::json(&json!({
            "samples": p.samples,
            "tokens": p.names.tokens,
            "classes": p.names.classes,
            "probabilities": samples,
            "out": args.out,
        }));
    }
    match &args.out {
        None => output::data(text.trim_end()),
        Some(path) => {
            let (n, data, path) = (prediction.samples.len(), args.data.display(), path.display());
            output::line(&format!("classes of the {n} samples of {data} are in {path}"))
        }
    }
}

/// A row for each sample and token: its most probable class, and the probability of each.
fn csv(p: &ClassPrediction) -> String {
    let classes = p.names.classes.iter().map(|class| format!("p_{class}"));
    let header = ["sample", "token", "class"].map(str::to_owned).into_iter().chain(classes);
    let mut text = header.map(|c| quoted(&c)).collect::<Vec<_>>().join(",");
    text.push('\n');
    let rows = p.samples.iter().flat_map(|s| p.names.tokens.iter().map(move |t| (s, t)));
    for ((sample, token), each) in rows.zip(p.probabilities.chunks_exact(p.names.classes.len())) {
        let most = each.iter().zip(&p.names.classes).reduce(|a, b| if b.0 > a.0 { b } else { a });
        let class = most.map_or("", |(_, class)| class);
        text.push_str(&[sample, token, class].map(quoted).join(","));
        for probability in each {
            text.push_str(&format!(",{probability:?}"));
        }
        text.push('\n');
    }
    text
}
