//! Pinned kernels in place of the ops' defaults.

use crate::contract::check;
use crate::engine::{Choices, Seen, exact};
use crate::error::Error;
use crate::lower::{Arg, Lowered};
use crate::values::{DeviceKind, Spec};

/// Gives every instruction with a chosen kernel that kernel and its workspace.
///
/// # Errors
/// [`Error::Pinned`] if the op has no kernel of that name for these operands.
pub(crate) fn pin(lowered: &mut Lowered, device: DeviceKind, choices: &Choices) -> Result<(), Error> {
    if choices.kernels.is_empty() {
        return Ok(());
    }
    for i in &mut lowered.instructions {
        let specs: Vec<Spec> = i.inputs.iter().map(Arg::spec).collect();
        let key = exact(i.op.as_ref(), i.inputs.iter().map(Seen::from), i.outputs.iter().map(Seen::from));
        let Some(name) = choices.kernel(&key) else { continue };
        let found = check::kernels(i.op.as_ref(), device, &specs).find(|k| k.name == name);
        i.kernel = found.ok_or_else(|| {
            let known: Vec<&str> = check::kernels(i.op.as_ref(), device, &specs).map(|k| k.name).collect();
            Error::Pinned { instruction: key, kernel: name.to_owned(), device, known: known.join(", ") }
        })?;
        i.workspace = (i.kernel.workspace)(i.op.as_ref(), &specs);
    }
    Ok(())
}

impl<'a> From<&'a Arg> for Seen<'a> {
    fn from(arg: &'a Arg) -> Self {
        Self { spec: arg.spec(), layout: &arg.layout }
    }
}
