//! The cache folder for reproducible files, shared between processes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The folder: `LANDFALL_CACHE`, else `landfall` in the user's cache folder, if there is one.
pub(crate) fn folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("LANDFALL_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|c| c.join("landfall")))
        .or_else(|| set("HOME").map(|h| h.join(".cache/landfall")))
}

/// Writes a file atomically: to a temporary file in the same folder, then renamed.
///
/// # Errors
/// The file system's error; the temporary file is removed.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let part = path.with_file_name(format!("{}.{}.part", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    let renamed = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path));
    if renamed.is_err() {
        _ = std::fs::remove_file(&part);
    }
    renamed
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
