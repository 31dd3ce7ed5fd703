//! `cargo +nightly fuzz run checkpoint`.
#![no_main]

#[path = "../../xtask/src/campaign/fuzz/entry.rs"]
#[allow(dead_code, reason = "each target uses a part of it")]
mod entry;

use entry::{Entry, Target};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static TARGET: RefCell<(Entry, tempfile::TempDir)> = RefCell::new({
        let folder = tempfile::tempdir().expect("a folder");
        (Entry::new(Target::Checkpoint, folder.path()).expect("the target is set up"), folder)
    });
}

fuzz_target!(|bytes: &[u8]| {
    TARGET.with_borrow_mut(|(target, _)| {
        if let Err(why) = target.call(bytes) {
            panic!("{why}");
        }
    });
});
