//! Runs the built program in a folder of its own.

use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) struct Folder(tempfile::TempDir);

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The last line of standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.out.lines().last().expect("a line")).expect("JSON")
    }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect(name)
    }

    /// Names in the folder, or in one below it.
    pub(crate) fn names(&self, below: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path().join(below)).expect("listed");
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    fn run(&self, words: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_landfall-bench"));
        command.current_dir(self.path()).args(words.split_whitespace()).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs, and expects success.
    pub(crate) fn runs(&self, words: &str) -> Ran {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "{words}\n{}\n{}", ran.out, ran.err);
        ran
    }

    /// Runs, and expects exit code 2, no results and no new file; what was said.
    pub(crate) fn misused(&self, words: &str) -> String {
        let before = self.names("");
        let ran = self.run(words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words}\n{}", ran.err);
        assert_eq!(self.names(""), before, "{words} left something behind");
        ran.err
    }

    /// As [`Folder::misused`], of which one line is said; that line, without its `error: `.
    pub(crate) fn refused(&self, words: &str) -> String {
        let said = self.misused(words);
        assert_eq!(said.lines().count(), 1, "{words}\n{said}");
        said.trim_end().strip_prefix("error: ").expect("an error").to_owned()
    }
}
