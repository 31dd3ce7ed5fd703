//! The tables of ops in the documentation, rendered from the table in the source.

use crate::case::{Case, Check, Failure, cases, ensure, few};
use crate::device::On;
use crate::facts::{Facts, devices, facts, names};
use landfall::DType;
use landfall::cuda::{Module, launches};
use landfall::ops::{AttributeValue, table};
use std::collections::HashSet;
use std::path::Path;

const HEAD: &str = "# Ops

Rendered from the op table by `cargo xtask ops`; every mark is a tested call, and says that the op has kernels on each
device, `cpu` and `cuda` (a device's name instead: on that one alone). A dtype is that of the arguments that the op leaves
open. An argument with *if* is given where the attribute is true, or has the value, and only there. *May share memory*: the
arguments that an output may lie in. *Made of*: `pointwise` ops are one scalar expression, `fused` ones are also written in
other ops, which is tested to agree.

";

const ATTRIBUTES: &str = "
## Attributes

What an op can be told, in the order in which its text in plans names it. `landfall::ops::by_name` takes them by name,
`by_name_for` also axes that count from the end. *Default* is the value in a call by name that leaves the attribute out.

| op | attribute | takes | default | what it does |
|---|---|---|---|---|
";

fn render(facts: &[Facts]) -> String {
    let dtypes: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
    let mut text = format!(
        "{HEAD}| op | arguments | {} | may share memory with | writes | made of | gradient |\n|{}\n",
        dtypes.join(" | "),
        "---|".repeat(DType::ALL.len() + 6)
    );
    for Facts { names, marks, alias, arguments, coverage, body, gradient, .. } in facts {
        let names = names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" ");
        let marks = marks.join(" | ");
        text.push_str(&format!(
            "| {names} | {arguments} | {marks} | {alias} | {coverage} | {body} | {gradient} |\n"
        ));
    }
    text.push_str(ATTRIBUTES);
    for op in table() {
        for attribute in op.declared() {
            let default = match attribute.default() {
                None => "must be given".to_owned(),
                Some(AttributeValue::None) if attribute.several() => "all".to_owned(),
                Some(AttributeValue::None) => "none".to_owned(),
                Some(value) => value.to_string(),
            };
            let takes = attribute.accepts();
            let doc: Vec<&str> = attribute.doc.split_whitespace().collect();
            text.push_str(&format!(
                "| `{}` | `{}` | {takes} | {default} | {} |\n",
                op.name(),
                attribute.name,
                doc.join(" ")
            ));
        }
    }
    text
}

#[test]
fn support_table() -> Check {
    let cpu = On::Cpu.engine()?;
    // What only passes make is no op that a user has.
    let ops = table().into_iter().filter(|op| !op.internal());
    let all = ops.map(|op| facts(&cpu, op.as_ref())).collect::<Check<Vec<_>>>()?;
    is_written("ops.md", render(&all))?;
    is_written("names.md", crate::names::render(&all)?)
}

/// Writes a page of the documentation where that is asked for, and else says whether it is what it should be.
fn is_written(page: &str, text: String) -> Check {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let failed = |e: std::io::Error| Failure(format!("{}: {e}", path.display()));
    if std::env::var_os("LANDFALL_BLESS").is_some() {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        return folder.and_then(|()| std::fs::write(&path, text)).map_err(failed);
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let same = written.lines().eq(text.lines());
    if same {
        Ok(())
    } else {
        Err(Failure(format!("docs/{page} is not what the ops say: run `cargo xtask ops`")))
    }
}

/// What an op takes, it takes on each device; and each op takes something.
#[test]
fn support_has_no_hole() -> Check {
    let cpu = On::Cpu.engine()?;
    for op in table() {
        let all = cases(op.as_ref())?;
        ensure!(!all.is_empty(), "{} has no sample", op.name());
        for case in &all {
            let has = devices(&cpu, case)?;
            ensure!(has == [On::Cpu, On::Cuda], "{case}: only {has:?} have a kernel for it");
        }
    }
    Ok(())
}

#[test]
fn names_are_unique() -> Check {
    let mut seen: Vec<&str> = Vec::new();
    for op in table() {
        for name in names(op.as_ref()) {
            ensure!(!seen.contains(&name), "two ops are called {name}");
            seen.push(name);
        }
    }
    Ok(())
}

/// The reduced set of cases leaves no kernel out, and is reduced.
#[test]
fn few_cases_launch_every_kernel() -> Check {
    let (mut of_all, mut of_few) = (0, 0);
    for op in table() {
        let all = cases(op.as_ref())?;
        let kept = few(all.clone())?;
        let kernels = |cases: &[Case]| -> Check<HashSet<(Module, &'static str)>> {
            let found = cases.iter().map(|c| launches(c.op.as_ref(), &c.specs()));
            Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        };
        let missed: Vec<String> = kernels(&all)?
            .difference(&kernels(&kept)?)
            .map(|(module, kernel)| format!("{kernel} of {}", module.label()))
            .collect();
        ensure!(missed.is_empty(), "the few cases of {} do not launch {missed:?}", op.name());
        (of_all, of_few) = (of_all + all.len(), of_few + kept.len());
    }
    println!("{of_few} of {of_all} cases launch every kernel");
    ensure!(of_few * 2 < of_all, "{of_few} of {of_all} cases are not few");
    Ok(())
}
