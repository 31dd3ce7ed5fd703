//! Methods by name: all are there, documented, and give what the method of Rust gives. (A graph has one value for equal ops on
//! equal arguments, so results are compared as values.)

use super::*;
use crate::contract::StateSpec;
use crate::ops::{Labels, Visible, Windows};
use crate::values::{All, DType, Keep};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn graph() -> Graph {
    Graph::new(&Arc::new(StateSpec::new()))
}

fn int(name: &'static str, value: i64) -> (&'static str, AttributeValue) {
    (name, AttributeValue::Int(value))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the sources of the engine");
    let paths = entries.map(|entry| entry.expect("a file").path());
    paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Every method of a graph that gives values is in the table, but those that take names of the state, ops or closures.
#[test]
fn every_method_has_a_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for path in [sources(&folder.join("ops")), sources(&folder.join("contract"))].concat() {
        let text = std::fs::read_to_string(&path).expect("a text");
        let mut inside = false;
        for (i, line) in text.lines().enumerate() {
            inside = line == "impl Graph {" || inside && line != "}";
            let signature = text.lines().skip(i).take(8).collect::<Vec<_>>().join(" ");
            let signature = signature.split(" {").next().unwrap_or_default();
            let gives = signature.split_once("->").is_some_and(|(_, result)| result.contains("Value"));
            let made = line.trim().split_once(" = ops::").map(|(name, _)| name);
            let written = line.strip_prefix("    pub fn ").filter(|_| gives && signature.contains("&self"));
            let name = made.or(written.and_then(|rest| rest.split(['(', '<']).next()));
            found.extend(name.filter(|name| inside && !name.contains(' ')).map(str::to_owned));
        }
    }
    let table: BTreeSet<String> = methods().iter().map(|method| method.name.to_owned()).collect();
    assert_eq!(table.len(), methods().len(), "two methods have one name");
    let mut others =
        vec!["composed", "draws", "entry", "input", "name", "op", "op1", "op_dyn", "scan", "slab"];
    // Other languages have these in a form of their own: of several axes, and of a number that is no part of a type.
    others.extend(["chunk", "squeeze", "stack", "unsqueeze"]);
    let rest: Vec<_> = found.difference(&table).filter(|name| !others.contains(&name.as_str())).collect();
    assert!(rest.is_empty(), "methods without a name in the table: {rest:?}");
    let gone: Vec<_> = table.difference(&found).collect();
    assert!(gone.is_empty() && found.len() > 90, "no methods any more: {gone:?}");
}

#[test]
fn every_method_is_documented() {
    for method in methods() {
        let doc = method.doc();
        assert!(doc.trim().len() > 3, "{} has no documentation: is its file in SOURCES?", method.name);
        for parameter in method.parameters {
            assert!(
                !parameter.doc.is_empty() && !parameter.takes.is_empty(),
                "{}.{}",
                method.name,
                parameter.name
            );
        }
    }
    let doc = |name: &str| methods().iter().find(|method| method.name == name).expect("in the table").doc();
    assert_eq!(doc("neg"), " `−x`.\n");
    assert!(doc("conv1d").contains("`x`: `[B, C, L]`") && doc("conv1d").contains("# Errors"));
}

#[test]
fn names_call_the_methods() -> Result<(), Error> {
    let g = graph();
    let x = g.input("x", DType::F32, [2, 3, 4]);
    let y = g.input("y", DType::F32, [2, 3, 4]);
    let call = |name, args: &[Value], given: &[_]| {
        let args: Vec<_> = args.iter().copied().map(Some).collect();
        method(&g, name, &args, given)
    };
    assert_eq!(call("tanh", &[x], &[])?, [g.tanh(x)?]);
    assert_eq!(call("sub", &[x, y], &[])?, [g.sub(x, y)?]);
    assert_eq!(call("softmax", &[x], &[])?, [g.softmax(x, -1)?]);
    assert_eq!(call("softmax", &[x], &[int("axis", 1)])?, [g.softmax(x, 1)?]);
    assert_eq!(call("sum", &[x], &[])?, [g.sum(x, All)?]);
    let axes = ("axes", AttributeValue::Ints(vec![0, -1]));
    let keep = ("keep", AttributeValue::Bool(true));
    assert_eq!(call("mean", &[x], &[axes.clone(), keep.clone()])?, [g.mean(x, Keep([0, 2]))?]);
    assert_eq!(call("variance", &[x], &[axes])?, [g.variance(x, [0, 2], 1)?]);
    assert_eq!(call("max", &[x], &[int("axes", -2)])?, [g.max(x, 1)?]);
    let (values, indices) = g.sort(x, -1, false)?;
    assert_eq!(call("sort", &[x], &[])?, [values, indices]);
    assert_eq!(call("concat", &[x, y, x], &[int("axis", -1)])?, [g.concat(&[x, y, x], 2)?]);
    assert_eq!(
        call("reshape", &[x], &[("shape", AttributeValue::Ints(vec![6, -1]))])?,
        [g.reshape(x, [6, 4])?]
    );
    assert_eq!(
        call("permute", &[x], &[("axes", AttributeValue::Ints(vec![-1, 0, 1]))])?,
        [g.permute(x, &[2, 0, 1])?]
    );
    assert_eq!(
        call("slice", &[x], &[int("axis", -1), int("start", 1), int("len", 2)])?,
        [g.slice(x, 2, 1, 2)?]
    );
    assert_eq!(call("detach", &[x], &[])?, [g.detach(x)]);
    let windows = Windows::of(2).stride(2);
    assert_eq!(call("max_pool", &[x], &[int("size", 2)])?, [g.max_pool(x, windows)?]);
    let dtype = ("dtype", AttributeValue::from("f64"));
    assert_eq!(call("eye", &[], &[int("n", 3), dtype])?, [g.eye(DType::F64, 3)?]);
    Ok(())
}

#[test]
fn arguments_may_be_left_out() -> Result<(), Error> {
    let g = graph();
    let q = g.input("q", DType::F32, [2, 5, 1, 4]);
    let lengths = g.input("lengths", DType::I64, [2]);
    let visible = Visible { causal: true, mask: None, lengths: Some(lengths) };
    let causal = ("causal", AttributeValue::Bool(true));
    let found = method(&g, "attend", &[Some(q), Some(q), Some(q), None, Some(lengths)], &[causal])?;
    assert_eq!(found, [g.attend(q, q, q, visible)?]);
    let x = g.input("x", DType::F32, [2, 3, 9]);
    let (weight, bias) = (g.input("weight", DType::F32, [6, 3, 2]), g.input("bias", DType::F32, [6]));
    let windows = Windows::of(2).padding(1);
    for bias in [None, Some(bias)] {
        let found = method(&g, "conv1d", &[Some(x), Some(weight), bias], &[int("padding", 1)])?;
        assert_eq!(found, [g.conv1d(x, weight, bias, windows, 1)?]);
    }
    let (logits, labels) = (g.input("logits", DType::F32, [4, 3]), g.input("labels", DType::I64, [4]));
    let ignored = Labels { ignored: Some(-100), ..Labels::default() };
    let found = method(&g, "cross_entropy", &[Some(logits), Some(labels)], &[int("ignored", -100)])?;
    assert_eq!(found, [g.cross_entropy(logits, labels, ignored)?]);
    Ok(())
}

/// Each wrong call is refused with what is wrong, at the line of the caller.
#[test]
fn wrong_calls_are_told_what_is_wrong() {
    let g = graph();
    let x = g.input("x", DType::F32, [2, 3]);
    let told = |name: &str, args: &[Option<Value>], given: &[(&str, AttributeValue)]| {
        let line = line!() + 1;
        let told = method(&g, name, args, given).expect_err("a wrong call").to_string();
        assert!(told.ends_with(&format!("methods/tests.rs:{line})")), "{told}");
        told
    };
    let starts = |told: String, wanted: &str| assert!(told.starts_with(wanted), "{told}");
    starts(
        told("sofmax", &[], &[]),
        "method(): no method of a graph is called \"sofmax\"; the nearest names are softmax, ",
    );
    starts(told("largest", &[Some(x)], &[]), "largest(f32[2, 3]): needs k, an integer from 0");
    starts(told("gather", &[Some(x)], &[]), "gather(f32[2, 3]): takes 2 arguments (x, index), got 1");
    starts(told("gather", &[Some(x), None], &[int("axis", 0)]), "gather(f32[2, 3]): needs index, a value");
    starts(told("concat", &[], &[]), "concat(): takes at least 1 argument (values, ..), got 0");
    starts(told("conv1d", &[], &[]), "conv1d(): takes 2 or 3 arguments (x, weight, bias), got 0");
    let wrong = told("softmax", &[Some(x)], &[("axis", AttributeValue::Float(0.5))]);
    starts(wrong, "softmax(f32[2, 3]): axis is 0.5; it must be an axis");
    starts(
        told("softmax", &[Some(x)], &[int("dim", 0)]),
        "softmax(f32[2, 3]): it has no attribute \"dim\"; it has axis",
    );
    starts(told("softmax", &[Some(x)], &[int("axis", 2)]), "softmax(f32[2, 3]): axis is 2, the rank is 2");
    starts(told("sum", &[Some(x)], &[int("axes", -3)]), "sum(f32[2, 3]): axis is -3, the rank is 2");
    starts(told("cast", &[Some(x)], &[("dtype", "f8".into())]), "cast(f32[2, 3]): dtype is f8; it must be ");
    let sizes = |of: &[i64]| [("shape", AttributeValue::Ints(of.to_vec()))];
    starts(
        told("reshape", &[Some(x)], &sizes(&[-1, -1])),
        "reshape(f32[2, 3]): shape is [-1, -1]; it must be sizes",
    );
    starts(told("reshape", &[Some(x)], &sizes(&[4, -1])), "reshape(f32[2, 3]): ");
    starts(told("add", &[Some(x), Some(g.input("y", DType::F32, [5]))], &[]), "add(f32[2, 3], f32[5]): ");
}
