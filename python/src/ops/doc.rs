//! The docstrings of ops, from the op table.

use super::entry::Entry;
use crate::dtype;
use landfall::ops::{
    Alias, Argument, Attribute, AttributeValue, Coverage, Given, Grad, Output, Sample, Tested, plain,
};
use landfall::{DType, Spec};
use std::fmt::Write;

/// The text of `help(landfall.ops.NAME)`, behind the signature.
pub(super) fn text(entry: &Entry) -> String {
    let op = entry.op();
    let mut text = plain(op.doc());
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            // Formatting into a string cannot fail.
            _ = write!(text, "\n\n{title}:\n    {}", lines.join("\n    "));
        }
    };
    section("Arguments", arguments(entry));
    section("Keywords", keywords(entry));
    section("Memory", memory(entry));
    section("Dtypes", dtypes(op));
    section("Gradient", gradient(op));
    text
}

fn arguments(entry: &Entry) -> Vec<String> {
    let given = |given: Given| match given {
        Given::Always => String::new(),
        Given::If { attribute, is: "true" } => format!(", with {attribute}=True and only then"),
        Given::If { attribute, is } => format!(", with {attribute}={is:?} and only then"),
        Given::Optional => ", or none".to_owned(),
        Given::Many { least } => format!(", any number from {least} on"),
    };
    entry.arguments().map(|a: Argument| format!("{}{}", entry.shown(&a), given(a.given))).collect()
}

fn keywords(entry: &Entry) -> Vec<String> {
    let line = |attribute: &Attribute| {
        let doc = attribute.doc.split_whitespace().collect::<Vec<_>>().join(" ");
        let default = match attribute.default() {
            None => ", which must be given".to_owned(),
            Some(AttributeValue::None) if attribute.several() => ", by default all".to_owned(),
            Some(value) => format!(", by default {value}"),
        };
        format!("{}: {}{default}. {doc}", attribute.name, attribute.accepts())
    };
    let mut lines: Vec<String> = entry.attributes().map(line).collect();
    lines.push(match entry.op().outputs().len() {
        0 | 1 => "out: the array that the result is written to, which is returned".to_owned(),
        n => format!("out: a tuple of the {n} arrays that the results are written to, which is returned"),
    });
    lines
}

fn memory(entry: &Entry) -> Vec<String> {
    let op = entry.op();
    let name = |input: usize| op.arguments().get(input).map_or_else(String::new, |a| entry.shown(a));
    let line = |(output, rule): (usize, &Output)| {
        let may = match rule.alias {
            Alias::Disjoint => "shares memory with no argument".to_owned(),
            Alias::InPlace(inputs) => {
                let names: Vec<String> = inputs.iter().map(|&input| name(input)).collect();
                format!("may be {} itself, element for element; no other overlap", names.join(" or "))
            }
            Alias::Must(input) => format!("is {}, which is updated where it lies", name(input)),
            Alias::Parts(_) => "may hold each argument as its own part; no other overlap".to_owned(),
        };
        let rest = match rule.coverage {
            Coverage::Full | Coverage::Accumulates => "",
            Coverage::Zeroed => ", with zeros where the result leaves elements open",
        };
        format!("output {output} {may}{rest}")
    };
    op.outputs().iter().enumerate().map(line).collect()
}

fn dtypes(op: &dyn Tested) -> Vec<String> {
    let taken: Vec<&str> = taken(op).into_iter().map(dtype::numpy_name).collect();
    if taken.is_empty() { Vec::new() } else { vec![taken.join(", ")] }
}

/// The dtypes of the arguments that the op leaves open.
pub(super) fn taken(op: &dyn Tested) -> Vec<DType> {
    let samples = op.samples();
    let open =
        |sample: &&Sample| sample.refused.is_none() && sample.args.iter().any(|arg| arg.dtype.is_none());
    let takes = |dtype: DType| {
        samples.iter().filter(open).any(|sample| {
            let specs: Vec<Spec> =
                sample.args.iter().map(|arg| Spec::new(arg.dtype.unwrap_or(dtype), arg.shape)).collect();
            sample.op.name() == op.name() && sample.op.infer(&specs).is_ok()
        })
    };
    DType::ALL.iter().copied().filter(|dtype| takes(*dtype)).collect()
}

fn gradient(op: &dyn Tested) -> Vec<String> {
    match op.vjp() {
        Grad::Rule(_) | Grad::Keeping { .. } | Grad::FromBody => Vec::new(),
        Grad::Zero => vec!["0".to_owned()],
        Grad::None(why) => vec![format!("none: {why}")],
    }
}
