//! The hash of the sources, kernels among them: what was tuned with other ones is tuned anew.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut hasher = DefaultHasher::new();
    add(Path::new("src"), &mut hasher)?;
    println!("cargo::rustc-env=LANDFALL_SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// Adds every file below a folder, in the order of their names.
fn add(folder: &Path, hasher: &mut DefaultHasher) -> std::io::Result<()> {
    let mut paths = std::fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(&path, hasher)?;
        } else {
            (path.as_os_str().as_encoded_bytes(), std::fs::read(&path)?).hash(hasher);
        }
    }
    Ok(())
}
