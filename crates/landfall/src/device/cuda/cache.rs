//! Compiled kernels on disk, shared between processes.
//!
//! A file is named by the hash of everything that its content depends on, and starts with the checksum of its content,
//! so that truncated or damaged files are detected and recompiled. It is written to a temporary file and renamed: a
//! reader sees a complete file or none. An unwritable folder costs time, never a result.

use crate::device::cache::{hex, replace};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// A folder of compiled kernels.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: PathBuf,
}

const HASH: usize = 32;

impl Cache {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The file for these key parts. Each part's length is hashed too, so that no two keys collide.
    fn path(&self, parts: &[&str]) -> PathBuf {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        self.folder.join(format!("{}.cubin", hex(&hash.finalize())))
    }

    /// The code stored for these key parts, if it is present and undamaged.
    pub(super) fn get(&self, parts: &[&str]) -> Option<Vec<u8>> {
        let mut data = std::fs::read(self.path(parts)).ok()?;
        let (hash, code) = data.split_at_checked(HASH)?;
        if code.is_empty() || Sha256::digest(code).as_slice() != hash {
            return None;
        }
        data.drain(..HASH);
        Some(data)
    }

    /// Stores code for these key parts; if that fails, it will be compiled again.
    pub(super) fn put(&self, parts: &[&str], code: &[u8]) {
        let whole = [Sha256::digest(code).as_slice(), code].concat();
        // The result exists; a full disk or a read-only folder only means that the next process compiles again.
        _ = replace(&self.path(parts), &whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> Cache {
        let folder = std::env::temp_dir().join(format!("landfall-cache-{name}-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&folder);
        Cache::new(folder)
    }

    #[test]
    fn keeps_what_it_was_given() {
        let c = cache("keeps");
        assert_eq!(c.get(&["a", "b"]), None);
        c.put(&["a", "b"], b"code");
        assert_eq!(c.get(&["a", "b"]).as_deref(), Some(&b"code"[..]));
        // The boundary between parts is part of the key.
        assert_eq!(c.get(&["ab", ""]), None);
        c.put(&["a", "b"], b"other");
        assert_eq!(c.get(&["a", "b"]).as_deref(), Some(&b"other"[..]));
        let left: Vec<_> = std::fs::read_dir(&c.folder).expect("it was made").collect();
        assert_eq!(left.len(), 1, "only the entry is left: {left:?}");
        _ = std::fs::remove_dir_all(&c.folder);
    }

    #[test]
    fn a_damaged_entry_is_none() {
        let c = cache("damaged");
        let path = c.path(&["k"]);
        c.put(&["k"], b"some machine code");
        let whole = std::fs::read(&path).expect("it was written");
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("writable");
            assert_eq!(c.get(&["k"]), None, "cut to {cut} bytes");
        }
        for at in 0..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            std::fs::write(&path, &bad).expect("writable");
            assert_eq!(c.get(&["k"]), None, "bit changed in byte {at}");
        }
        std::fs::write(&path, &whole).expect("writable");
        assert!(c.get(&["k"]).is_some());
        _ = std::fs::remove_dir_all(&c.folder);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let c = Cache::new(PathBuf::from("/dev/null/landfall"));
        c.put(&["k"], b"code");
        assert_eq!(c.get(&["k"]), None);
    }
}
