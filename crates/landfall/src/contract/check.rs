//! The checked launch: every rule of the contract that a call can violate, checked before anything runs.

use crate::contract::op::{Alias, Kernel, MAX_OUTPUTS, Op, alias, part_offsets};
use crate::values::{DType, DeviceKind, Operand, Relation, Rule, Spec};

/// The maximum number of inputs of an eager call (programs have no limit: they are checked when they are compiled).
pub(crate) const MAX_INPUTS: usize = 16;

/// The text of an alias rule for errors.
pub(crate) fn allowed(alias: Alias) -> &'static str {
    match alias {
        Alias::Disjoint => "no shared memory",
        Alias::InPlace(_) => "exactly one of its in-place inputs, element for element, or no shared memory",
        Alias::Must(_) => "this output to be its updated input and nothing else",
        Alias::Parts(_) => "each input to be its own part of the output, or to share no memory",
    }
}

/// Whether `relation` of an output under `alias` to input `input` is permitted, given that the op reads `inputs`
/// operands. `part` tells whether an overlapping input is exactly its part of the packed output.
pub(crate) fn permits(alias: Alias, input: usize, relation: Relation, part: impl Fn() -> bool) -> bool {
    match (alias, relation) {
        (Alias::Must(i), r) if i == input => r == Relation::Identical,
        (_, Relation::Disjoint) => true,
        (Alias::InPlace(which), Relation::Identical) => which.contains(&input),
        (Alias::Parts(_), _) => part(),
        _ => false,
    }
}

/// Checks destinations and aliasing of a call. `specs` are those of the inputs.
///
/// # Errors
/// The first violated rule.
pub(crate) fn call(op: &dyn Op, specs: &[Spec], inputs: &[Operand], outputs: &[Operand]) -> Result<(), Rule> {
    let inferred = op.infer(specs);
    let wanted = inferred.as_ref().map_err(Rule::clone)?;
    if wanted.len() != outputs.len() {
        return Err(Rule::Outputs { expected: wanted.len(), got: outputs.len() });
    }
    for (output, (expected, o)) in wanted.iter().zip(outputs).enumerate() {
        if o.dtype != expected.dtype || *o.layout.shape() != expected.shape {
            return Err(Rule::Destination { output, expected: *expected, given: o.spec() });
        }
    }
    aliasing(op, inputs, outputs)
}

/// Whether an input is exactly its part of the packed `output`.
fn is_part(alias: Alias, input: usize, inputs: &[Operand], output: &Operand) -> bool {
    let align = if let Alias::Parts(align) = alias { align } else { 1 };
    let offset = part_offsets(inputs.iter().map(Operand::spec), align).nth(input);
    let place = offset.map(|offset| output.span().0 + (offset * output.dtype.size()) as u64);
    let Some(part) = inputs.get(input) else { return false };
    part.layout.is_contiguous() && output.layout.is_contiguous() && Some(part.span().0) == place
}

/// Checks aliasing between outputs and operands.
///
/// # Errors
/// The first pair that violates the op's alias rule.
pub(crate) fn aliasing(op: &dyn Op, inputs: &[Operand], outputs: &[Operand]) -> Result<(), Rule> {
    for (output, o) in outputs.iter().enumerate() {
        if !o.layout.is_injective() {
            let strides = o.layout.strides().to_vec();
            return Err(Rule::SelfOverlap { output, shape: *o.layout.shape(), strides });
        }
        if let Some(other) = outputs[..output].iter().position(|p| p.relation(o) != Relation::Disjoint) {
            let bytes = outputs[other].overlap(o);
            return Err(Rule::OutputsOverlap { first: other, second: output, bytes });
        }
        let alias = alias(op, output);
        for (input, i) in inputs.iter().enumerate() {
            let relation = o.relation(i);
            let empty_update =
                matches!(alias, Alias::Must(m) if m == input) && i.layout.shape().elements() == 0;
            if !empty_update && !permits(alias, input, relation, || is_part(alias, input, inputs, o)) {
                let (bytes, allowed) = (o.overlap(i), allowed(alias));
                return Err(Rule::Alias { output, input, relation, bytes, allowed });
            }
        }
    }
    debug_assert!(outputs.len() <= MAX_OUTPUTS, "infer gives at most {MAX_OUTPUTS} outputs");
    Ok(())
}

/// A device's kernels that accept these operands, in order of preference.
pub(crate) fn kernels<'a>(
    op: &'a dyn Op,
    device: DeviceKind,
    args: &'a [Spec],
) -> impl Iterator<Item = &'static Kernel> + 'a {
    op.kernels(device).iter().filter(move |k| k.run.on(device) && (k.accepts)(op, args))
}

/// The op's default kernel on a device for these operands: the first that accepts them.
///
/// # Errors
/// [`Rule::Unsupported`] if no kernel accepts them.
pub(crate) fn kernel(op: &dyn Op, device: DeviceKind, args: &[Spec]) -> Result<&'static Kernel, Rule> {
    let found = kernels(op, device, args).next();
    found.ok_or(Rule::Unsupported { device, dtype: args.first().map_or(DType::F32, |a| a.dtype) })
}

#[cfg(test)]
mod tests;
