//! Every piece of code on docs/add-an-op.md is a part of this crate's files.

use std::fs::read_to_string;
use std::path::Path;

#[test]
fn the_page_shows_the_code_that_is_built() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["src/lib.rs", "src/scale_rows.cu", "tests/suite.rs", "tests/kernels.rs", "Cargo.toml"];
    let files = files.map(|file| read_to_string(here.join(file)).expect("a file of this crate"));
    let page = read_to_string(here.join("../../docs/add-an-op.md")).expect("the page");
    // Text and code take turns; the first line of a piece of code is its language.
    let pieces: Vec<&str> =
        page.split("```").skip(1).step_by(2).map(|p| p.split_once('\n').map_or("", |p| p.1)).collect();
    assert!(pieces.len() >= 8, "{} pieces of code", pieces.len());
    for piece in pieces.into_iter().filter(|piece| !piece.starts_with("python3 ")) {
        assert!(
            !piece.trim().is_empty() && files.iter().any(|file| file.contains(piece)),
            "no file has:\n{piece}"
        );
    }
}
