//! The cache folder for reproducible files, shared between processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The folder: `LANDFALL_CACHE`, else `landfall` in the user's cache folder, if there is one.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var_os(name))
}

/// The same, of these variables. Windows sets the last one alone.
fn folder_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("LANDFALL_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|c| c.join("landfall")))
        .or_else(|| set("HOME").map(|h| h.join(".cache").join("landfall")))
        .or_else(|| set("LOCALAPPDATA").map(|l| l.join("landfall")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_users_on_every_system() {
        let of = |set: &[(&str, &str)]| {
            folder_of(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        let windows = ("LOCALAPPDATA", "local");
        assert_eq!(of(&[windows]), Some(Path::new("local").join("landfall")));
        assert_eq!(of(&[windows, ("HOME", "home")]), Some(Path::new("home").join(".cache").join("landfall")));
        assert_eq!(of(&[("HOME", "home"), ("XDG_CACHE_HOME", "c")]), Some(Path::new("c").join("landfall")));
        assert_eq!(of(&[("HOME", "home"), ("LANDFALL_CACHE", "own")]), Some(PathBuf::from("own")));
        assert_eq!(of(&[("HOME", ""), ("LANDFALL_CACHE", "")]), None);
    }
}
