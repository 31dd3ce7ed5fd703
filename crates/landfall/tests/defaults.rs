//! What a call by name leaves out: declared once, the same for an op and the method of its name, and never a sample's value.

use landfall::ops::{AttributeValue, by_name_for, method, methods, named, text};
use landfall::{DType, Graph, Rule, Spec, StateSpec};
use std::sync::Arc;

#[test]
fn ops_and_methods_of_one_name_have_the_same_defaults() {
    let mut compared = 0;
    for op in named() {
        let Some(method) = methods().iter().find(|m| m.name == op.op.name()) else { continue };
        for attribute in op.op.declared() {
            let Some(parameter) = method.parameters.iter().find(|p| p.name == attribute.name) else {
                continue;
            };
            assert_eq!(attribute.default(), parameter.default(), "{}.{}", method.name, attribute.name);
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared} are compared");
}

/// An attribute without a default is asked for by name, in each call that lacks it alone.
#[test]
fn what_has_no_default_must_be_given() {
    let mut required = 0;
    for entry in named() {
        let op = entry.op.as_ref();
        for sample in op.samples().iter().filter(|s| s.refused.is_none() && s.op.name() == op.name()) {
            let specs: Vec<Spec> =
                sample.args.iter().map(|a| Spec::new(a.dtype.unwrap_or(DType::F32), a.shape)).collect();
            let declared =
                || sample.op.declared().iter().enumerate().filter(|(_, a)| Some(a.name) != entry.by);
            let all: Vec<(&str, AttributeValue)> =
                declared().filter_map(|(i, a)| Some((a.name, sample.op.attribute(i)?))).collect();
            let made = by_name_for(op.name(), &all, &specs).expect("all are given");
            assert_eq!(text(made.as_ref()), text(sample.op.as_ref()));
            for (_, attribute) in declared().filter(|(_, a)| a.default().is_none()) {
                let rest: Vec<_> = all.iter().filter(|(name, _)| *name != attribute.name).cloned().collect();
                let told = by_name_for(op.name(), &rest, &specs).expect_err("one is missing");
                assert!(matches!(told, Rule::Missing { name, .. } if name == attribute.name), "{told}");
                required += 1;
            }
        }
    }
    assert!(required > 100, "only {required} are required");
}

#[test]
fn defaults_are_those_of_pytorch() {
    let of = |name: &str, given: &[(&str, AttributeValue)], args: &[Spec]| {
        by_name_for(name, given, args).map(|op| text(op.as_ref())).unwrap_or_else(|rule| rule.to_string())
    };
    let x = Spec::new(DType::F32, [2, 3, 16]);
    assert_eq!(of("affine", &[], &[x]), "affine(mul=1.0, add=0.0)");
    assert_eq!(of("clamp", &[], &[x]), "clamp(low=-inf, high=inf)");
    assert_eq!(of("softmax", &[], &[x]), "softmax(axis=2)");
    assert_eq!(of("sort", &[], &[x]), "sort(axis=2, descending=false)");
    assert_eq!(of("sum", &[], &[x]), "sum(reduction=sum, axes=[0, 1, 2], wide=false)");
    assert_eq!(
        of("max", &[("axes", AttributeValue::None)], &[x]),
        "max(reduction=max, axes=[0, 1, 2], wide=false)"
    );
    assert_eq!(of("cumsum", &[], &[x]), "needs axis, an axis");
    let q = Spec::new(DType::F32, [2, 5, 2, 16]);
    for name in ["masked_attention", "attention"] {
        assert!(of(name, &[], &[q; 3]).contains("scale=0.25"), "{}", of(name, &[], &[q; 3]));
    }
    let (index, row) = (Spec::new(DType::I64, [2, 3, 16]), Spec::new(DType::I64, [4]));
    let axis = ("axis", AttributeValue::Int(0));
    assert_eq!(of("gather", std::slice::from_ref(&axis), &[x, index]), "gather(axis=0, rows=false)");
    assert_eq!(of("gather", &[axis], &[x, row]), "gather(axis=0, rows=true)");
}

#[test]
fn the_epsilon_of_rms_norm_is_that_of_the_arithmetic() -> Result<(), landfall::Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    for (dtype, eps) in [
        (DType::F64, f64::EPSILON),
        (DType::F32, f64::from(f32::EPSILON)),
        (DType::F16, f64::from(f32::EPSILON)),
    ] {
        let x = g.input(dtype.name(), dtype, [2, 3]);
        let weight = g.fill(dtype, [3], 1.0)?;
        assert_eq!(method(&g, "rms_norm", &[Some(x), Some(weight)], &[])?, [g.rms_norm(x, weight, eps)?]);
    }
    Ok(())
}
