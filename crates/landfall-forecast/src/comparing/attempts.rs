//! What is known of the attempts at the runs of a comparison.

use crate::files::{read_text, replace};
use crate::run::{Compared, RunError, RunFolder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// The file of a comparison's directory with what its runs took, and why they failed.
const TRIED: &str = "tried.json";

/// What is known of the attempts at a candidate's run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tried {
    /// Seconds of all attempts.
    pub(super) seconds: f64,
    /// Why the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
}

/// The attempts of a comparison's directory.
pub(super) fn tried(folder: &Path) -> Result<BTreeMap<String, Tried>, RunError> {
    let unreadable =
        |why: String| RunError::NotARun { path: folder.to_owned(), why: format!("{TRIED}: {why}") };
    match read_text(&folder.join(TRIED)) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(why) => Err(unreadable(why.to_string())),
        Ok(text) => serde_json::from_str(&text).map_err(|why| unreadable(why.to_string())),
    }
}

/// The errors of a run that is done.
pub(super) fn done(run: &Path) -> Result<Option<Compared>, RunError> {
    let Some(compared) = Compared::read(run)? else { return Ok(None) };
    let tested = compared.cells.is_empty() || RunFolder::last_evaluation(run)?.is_some();
    Ok(tested.then_some(compared))
}

/// Writes the attempts into the directory of a comparison.
pub(super) fn write(folder: &Path, all: &BTreeMap<String, Tried>) -> Result<(), RunError> {
    let path = folder.join(TRIED);
    let text = format!("{}\n", serde_json::json!(all));
    replace(&path, text.as_bytes()).map_err(|why| RunError::Write { path, why })
}
