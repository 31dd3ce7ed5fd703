//! Operands that overlap in part, for every op of the table. The borrow checker lets no such call through the public
//! methods, so these are operands without memory.

use super::*;
use crate::contract::Sample;
use crate::ops::table;
use crate::values::{Address, DType, Layout, Shape};

/// Bytes between operands: more than any sample's.
const ROOM: u64 = 1 << 40;

fn operand(place: u64, spec: Spec) -> Operand {
    Operand { base: Address(place), dtype: spec.dtype, layout: Layout::contiguous(spec.shape) }
}

/// Operands of a sample that share nothing but what the alias rule demands.
fn apart(sample: &Sample, dtype: DType) -> Option<(Vec<Operand>, Vec<Operand>)> {
    let specs: Vec<Spec> = sample.args.iter().map(|a| Spec::new(a.dtype.unwrap_or(dtype), a.shape)).collect();
    let outputs = sample.op.infer(&specs).ok()?;
    let inputs: Vec<Operand> = specs.iter().zip(1..).map(|(&s, n)| operand(n * ROOM, s)).collect();
    let output = |(j, &spec): (usize, &Spec)| match sample.op.outputs()[j].updated() {
        Some(i) => inputs.get(i).copied(),
        None => Some(operand((100 + j as u64) * ROOM, spec)),
    };
    let outputs = outputs.iter().enumerate().map(output).collect::<Option<_>>()?;
    Some((inputs, outputs))
}

/// Every op refuses an output that starts one element into an input, or one before it, and two outputs that overlap.
#[test]
fn partial_overlap_is_refused() {
    let (mut pairs, mut doubles) = (0, 0);
    for sample in table().iter().flat_map(|op| op.samples()).filter(|s| s.refused.is_none()) {
        for &dtype in DType::ALL {
            let Some((inputs, outputs)) = apart(&sample, dtype) else { continue };
            let op = sample.op.as_ref();
            assert_eq!(aliasing(op, &inputs, &outputs), Ok(()), "{op:?} apart");
            for j in 0..outputs.len() {
                let size = outputs[j].dtype.size() as u64;
                for i in 0..inputs.len() {
                    for base in [inputs[i].base.0 + size, inputs[i].base.0 - size] {
                        let mut shifted = outputs.clone();
                        shifted[j].base = Address(base);
                        if shifted[j].relation(&inputs[i]) != Relation::Overlapping {
                            continue;
                        }
                        let told = aliasing(op, &inputs, &shifted);
                        // An update shifted off its input may be refused for that first, and an input that another
                        // output updates is that output.
                        let must = op.outputs()[j].updated().is_some();
                        let updated = op.outputs().iter().any(|o| o.updated() == Some(i));
                        let refused = match told {
                            Err(Rule::Alias { output, input, .. }) => output == j && (input == i || must),
                            Err(Rule::OutputsOverlap { first, second, .. }) => {
                                updated && (first == j || second == j)
                            }
                            _ => false,
                        };
                        assert!(refused, "{op:?} output {j} shifted into input {i}: {told:?}");
                        pairs += 1;
                    }
                }
                for k in 0..j {
                    let mut shifted = outputs.clone();
                    shifted[j].base = shifted[k].base;
                    if shifted[j].relation(&shifted[k]) != Relation::Disjoint {
                        assert!(
                            aliasing(op, &inputs, &shifted).is_err(),
                            "{op:?} outputs {k} and {j} overlap"
                        );
                        doubles += 1;
                    }
                }
            }
        }
    }
    assert!(pairs > 500 && doubles > 20, "{pairs} pairs, {doubles} doubles");
}

/// The same bytes under other strides are an overlap, except where the strides place nothing.
#[test]
fn strides_of_size_one_do_not_matter() {
    let square = operand(ROOM, Spec::new(DType::F32, [4, 4]));
    let transposed = Operand { layout: square.layout.permute(&[1, 0]).expect("two axes"), ..square };
    assert_eq!(square.relation(&transposed), Relation::Overlapping);
    let one = operand(ROOM, Spec::new(DType::F32, [1]));
    let stretched = Layout::SCALAR.broadcast_to(Shape::from([1])).expect("a scalar stretches");
    assert_ne!(stretched.strides(), one.layout.strides());
    assert_eq!(one.relation(&Operand { layout: stretched, ..one }), Relation::Identical);
}
