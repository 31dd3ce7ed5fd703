//! The declarations of every op of the table: what a caller that knows ops by name alone is told of them, and can set.

use super::*;
use crate::contract::{Given, text};
use crate::values::DType;
use std::collections::BTreeSet;

/// The ops of the table that a caller can make.
fn callable() -> impl Iterator<Item = Arc<dyn Tested>> {
    table().into_iter().filter(|op| !op.internal())
}

/// The first paragraph of a documentation, as one line.
fn summary(doc: &str) -> String {
    let lines = doc.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_op_is_documented() {
    let mut untold: Vec<String> = Vec::new();
    for op in callable() {
        let (name, doc) = (op.name(), op.doc());
        assert!(!summary(doc).is_empty(), "{name} has no documentation");
        assert!(summary(doc).contains('`'), "{name} is documented without a formula");
        for (what, words) in [
            (
                "where the result may lie",
                &["isjoint", "n place", " itself", "updated where", "may already lie"][..],
            ),
            ("its gradient", &["radient", "derivative", "ifferentiable"]),
            ("its errors", &["rrors"]),
        ] {
            if !words.iter().any(|word| doc.contains(word)) {
                untold.push(format!("{name}: {what}"));
            }
        }
        for attribute in op.declared() {
            assert!(!summary(attribute.doc).is_empty(), "{name}.{} has no documentation", attribute.name);
        }
        for argument in op.arguments().iter().map(|a| a.name) {
            let quoted = doc.split('`').skip(1).step_by(2);
            let told = quoted.flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_'));
            assert!(
                told.into_iter().any(|word| word == argument),
                "{name}: argument {argument} is not in\n{doc}"
            );
        }
    }
}

/// Arguments can be named: each name once, an optional one behind those that are always given, many at the end; an
/// argument that depends on an attribute depends on one that there is, and on a value that it has.
#[test]
fn declarations_are_sound() {
    for op in table() {
        let (name, arguments, declared) = (op.name(), op.arguments(), op.declared());
        let mut names = BTreeSet::new();
        for (i, a) in arguments.iter().enumerate() {
            assert!(names.insert(a.name), "{name} has two arguments {}", a.name);
            match a.given {
                Given::Always => {}
                Given::If { attribute, is } => {
                    let gate = declared.iter().find(|d| d.name == attribute);
                    let gate = gate.unwrap_or_else(|| panic!("{name}: {} depends on {attribute}", a.name));
                    let values = if gate.choices.is_empty() { &["true", "false"] } else { gate.choices };
                    assert!(values.contains(&is), "{name}: {attribute} is never {is}");
                }
                Given::Optional => assert!(
                    arguments[i..].iter().all(|later| later.given == Given::Optional),
                    "{name}: {} can be left out before others",
                    a.name
                ),
                Given::Many { .. } => {
                    assert_eq!(i + 1, arguments.len(), "{name}: {} is not the last", a.name)
                }
            }
        }
        for d in declared {
            // One name may stand for an argument and the attribute that says whether it is given.
            let own_gate = |a: &crate::contract::Argument| matches!(a.given, Given::If { attribute, .. } if attribute == d.name);
            let clash = arguments.iter().find(|a| a.name == d.name && !own_gate(a));
            assert!(clash.is_none(), "{name}: {} is an argument and an attribute", d.name);
            if let Some(of) = d.axis_of {
                let known = names.contains(of) || declared.iter().any(|other| other.name == of);
                assert!(known, "{name}.{} counts axes of {of}", d.name);
            } else {
                assert!(
                    !d.name.starts_with("axis") && !d.name.starts_with("axes"),
                    "{name}.{} of what?",
                    d.name
                );
            }
        }
    }
}

/// A sample has as many arguments as its op declares, and one argument more is refused with their names.
#[test]
fn samples_have_the_declared_arguments() {
    for sample in callable().flat_map(|op| op.samples()).filter(|s| s.refused.is_none()) {
        let op = sample.op.as_ref();
        let specs = |dtype: DType| -> Vec<Spec> {
            sample.args.iter().map(|a| Spec::new(a.dtype.unwrap_or(dtype), a.shape)).collect()
        };
        assert_eq!(arity(op, &specs(DType::F32)), Ok(()), "{op:?}");
        let many = op.arguments().iter().any(|a| matches!(a.given, Given::Many { .. }));
        let most = op.arguments().iter().filter(|a| a.taken(op)).count();
        let given = vec![Spec::new(DType::F32, []); if many { 0 } else { most + 1 }];
        let refused = op.infer(&given).expect_err("a wrong number of arguments").to_string();
        assert!(
            refused.starts_with("takes ") && refused.contains(&format!("got {}", given.len())),
            "{refused}"
        );
        let named = op.arguments().iter().filter(|a| a.taken(op)).all(|a| refused.contains(a.name));
        assert!(named, "{op:?}: {refused}");
    }
}

/// Every attribute of every op, set by its name to the values that the samples have, gives the op of the sample.
#[test]
fn every_attribute_is_set_by_name() {
    for sample in callable().flat_map(|op| op.samples()) {
        let op = sample.op.as_ref();
        let values: Vec<(&str, AttributeValue)> = (op.declared().iter().enumerate())
            .filter_map(|(i, attribute)| Some((attribute.name, op.attribute(i)?)))
            .collect();
        assert_eq!(values.len(), op.declared().len(), "{op:?} has attributes without a value");
        let made = by_name(op.name(), &values).unwrap_or_else(|rule| panic!("{op:?} by name: {rule}"));
        assert_eq!(text(made.as_ref()), text(op));
        assert_eq!(format!("{made:?}"), format!("{op:?}"), "an attribute is not in the text");
    }
}

/// Of every op with an axis: one counted from the end is the one counted from the front, and one too many is refused.
#[test]
fn axes_count_from_the_end() {
    let mut tried = BTreeSet::new();
    for sample in table().iter().flat_map(|op| op.samples()).filter(|s| s.refused.is_none()) {
        let op = sample.op.as_ref();
        let args: Vec<Spec> =
            sample.args.iter().map(|a| Spec::new(a.dtype.unwrap_or(DType::F32), a.shape)).collect();
        for (i, attribute) in op.declared().iter().enumerate().filter(|(_, a)| a.axis_of.is_some()) {
            let rank =
                shape_of(op, attribute.axis_of.expect("filtered"), &args).expect("a shape").rank() as i64;
            let (value, back) = match op.attribute(i).expect("declared") {
                AttributeValue::Int(v) => (AttributeValue::Int(v), AttributeValue::Int(v - rank)),
                AttributeValue::Ints(v) => {
                    let back = v.iter().map(|axis| axis - rank).collect();
                    (AttributeValue::Ints(v), AttributeValue::Ints(back))
                }
                other @ (AttributeValue::None
                | AttributeValue::Bool(_)
                | AttributeValue::Float(_)
                | AttributeValue::Text(_)) => panic!("{op:?}: an axis is {other}"),
            };
            let others = (op.declared().iter().enumerate()).filter(|(j, _)| *j != i);
            let mut values: Vec<_> =
                others.map(|(j, a)| (a.name, op.attribute(j).expect("declared"))).collect();
            for given in [value, back] {
                values.push((attribute.name, given));
                let made = by_name_for(op.name(), &values, &args);
                assert_eq!(made.map(|made| text(made.as_ref())), Ok(text(op)));
                _ = values.pop();
            }
            values.push((attribute.name, AttributeValue::Int(-rank - 1)));
            let refused = by_name_for(op.name(), &values, &args).expect_err("there is no such axis");
            assert_eq!(refused, Rule::Axis { axis: (-rank - 1) as isize, rank: rank as usize });
            tried.insert(op.name());
        }
    }
    let least = ["assign_rows", "concat", "cumsum", "gather", "iota", "pad", "softmax", "sort", "sum"];
    assert!(least.iter().all(|name| tried.contains(name)), "only {tried:?} have an axis");
}

#[test]
fn every_name_is_listed_once() {
    let all = named();
    let names: BTreeSet<_> = all.iter().map(|named| named.op.name()).collect();
    assert_eq!(names.len(), all.len());
    for sample in callable().flat_map(|op| op.samples()) {
        assert!(names.contains(sample.op.name()), "{} is not listed", sample.op.name());
    }
    let by = |name: &str| all.iter().find(|n| n.op.name() == name).and_then(|n| n.by);
    assert_eq!((by("prod"), by("gru"), by("compare")), (Some("reduction"), Some("cell"), None));
}

#[test]
fn wrong_names_are_told_the_nearest() {
    let told = by_name("sofmax", &[]).expect_err("no such op").to_string();
    assert!(told.starts_with("no op is called \"sofmax\"; the nearest names are softmax, "), "{told}");
    let told =
        by_name("softmax", &[("axes", AttributeValue::Int(0))]).expect_err("no such attribute").to_string();
    assert_eq!(told, "it has no attribute \"axes\"; it has axis");
}
