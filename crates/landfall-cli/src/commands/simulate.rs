//! `landfall simulate`: writes simulated series, for tests.

use crate::args::Simulate;
use crate::commands::forecast::write;
use crate::error::CliError;
use crate::output;
use landfall_train::data::generated::{Simulator, table};

/// Writes the table to a new file, or to standard output.
pub(crate) fn run(args: &Simulate) -> Result<(), CliError> {
    let simulator = Simulator::new(args.seed).with_parts(args.parts);
    let mut text = Vec::new();
    table(&simulator, args.count, args.length, &args.frequency, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    let Some(path) = &args.out else { return output::data(text.trim_end()) };
    if path.exists() {
        return Err(CliError::OutExists(path.clone()));
    }
    write(path, &text)?;
    output::note(&format!(
        "{} simulated series of {} rows are in {}",
        args.count,
        args.length,
        path.display()
    ));
    Ok(())
}
