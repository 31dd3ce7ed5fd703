//! Files: written whole or not at all, and read where they are files.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// How the names of files end that are being written.
const ENDING: &str = ".tmp";

/// A file that is being written, beside its place and under a name that nobody can foresee, so that no link stands there and no
/// reader sees half of it. It is removed if it does not take its place.
///
/// ```
/// use landfall_data::files::Draft;
/// use std::io::Write;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("forecast.csv");
/// let mut draft = Draft::of(&path)?;
/// writeln!(draft, "date,sales")?;
/// assert!(!path.exists());
/// draft.create()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "date,sales\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    file: NamedTempFile,
    path: PathBuf,
}

impl Draft {
    /// A draft of the file at `path`, in its folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut before = std::ffi::OsString::from(".");
        before.push(name);
        before.push(".");
        // With the permissions of any new file, which others may read, and the errors of the system as they are.
        let new = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let file = tempfile::Builder::new().prefix(&before).suffix(ENDING).make_in(folder(path), new)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Puts it in its place, where nothing may be yet.
    ///
    /// # Errors
    /// Those of the file system; `AlreadyExists`.
    pub fn create(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist_noclobber(&self.path).map_err(|e| e.error)?;
        sync_folder(&self.path)
    }

    /// Puts it in its place, over what is there.
    ///
    /// # Errors
    /// Those of the file system; what was there is untouched.
    pub fn replace(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.path).map_err(|e| e.error)?;
        sync_folder(&self.path)
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// Writes a new file, whole or not at all.
///
/// # Errors
/// As [`Draft::create`].
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = Draft::of(path)?;
    draft.write_all(bytes)?;
    draft.create()
}

/// Writes a file in the place of an earlier one, whole or not at all.
///
/// # Errors
/// As [`Draft::replace`].
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = Draft::of(path)?;
    draft.write_all(bytes)?;
    draft.replace()
}

/// Opens a file to write behind its end, and makes it where there is none.
///
/// # Errors
/// Those of the file system; what is no file itself, such as a link to one that is somewhere else.
pub fn append(path: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => regular(&found)?,
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return appending().create_new(true).open(path);
        }
        Err(why) => return Err(why),
    }
    appending().open(path)
}

/// For reading too: Windows locks no file that is open for appending alone.
fn appending() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    options
}

/// Opens a file to read it. A pipe or a device is refused: its end may never come, and it cannot be read again.
///
/// # Errors
/// Those of the file system; what is no file.
pub fn open(path: &Path) -> io::Result<File> {
    regular(&std::fs::metadata(path)?)?;
    File::open(path)
}

/// A whole file.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    regular(&std::fs::metadata(path)?)?;
    std::fs::read(path)
}

/// The text of a whole file.
///
/// # Errors
/// As [`open`]; what is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    regular(&std::fs::metadata(path)?)?;
    std::fs::read_to_string(path)
}

/// Removes what a process that was killed has left of drafts in a folder.
///
/// # Errors
/// Those of the file system.
pub fn remove_drafts(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && is_draft(&name) && !entry.file_type()?.is_dir() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether this is the name of a file that was being written.
pub fn is_draft(name: &str) -> bool {
    name.ends_with(ENDING)
}

fn regular(found: &std::fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a link to another place"
    } else {
        special(kind)
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, and no file")))
}

#[cfg(unix)]
fn special(kind: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special(_: std::fs::FileType) -> &'static str {
    "a device"
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A rename is durable once its folder is synced; not every system can open a folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path)).map_or(Ok(()), |folder| folder.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;

    #[test]
    fn a_draft_takes_its_place_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv");
        let listed = || fs::read_dir(folder.path()).expect("listed").count();
        let mut draft = Draft::of(&path).expect("made");
        draft.write_all(b"half").expect("written");
        assert!(!path.exists());
        drop(draft);
        assert_eq!(listed(), 0, "nothing is left of it");
        create(&path, b"one").expect("new");
        let again = create(&path, b"two").expect_err("there already");
        assert_eq!(
            (again.kind(), fs::read(&path).expect("there")),
            (io::ErrorKind::AlreadyExists, b"one".to_vec())
        );
        replace(&path, b"three").expect("over it");
        assert_eq!((fs::read(&path).expect("there"), listed()), (b"three".to_vec(), 1));
    }

    #[test]
    fn what_is_appended_to_can_be_read_and_locked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.lock");
        for before in ["", "a"] {
            let mut file = append(&path).expect("opened");
            file.try_lock().expect("nobody else has it");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("open for reading, as locks of Windows need it");
            assert_eq!(text, before);
            file.write_all(b"a").expect("behind its end");
        }
        assert_eq!(fs::read_to_string(&path).expect("there"), "aa");
    }

    #[cfg(unix)]
    #[test]
    fn links_that_are_planted_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        fs::write(&victim, "my notes").expect("written");
        let run = folder.path().join("run");
        fs::create_dir(&run).expect("made");
        for name in ["a.tmp", ".a.tmp", "a", "log"] {
            symlink("../victim", run.join(name)).expect("planted");
        }
        replace(&run.join("a"), b"report").expect("in the place of the link");
        assert_eq!(
            append(&run.join("log")).expect_err("a link").to_string(),
            "it is a link to another place, and no file"
        );
        assert_eq!(fs::read_to_string(&victim).expect("there"), "my notes");
        assert!(!fs::symlink_metadata(run.join("a")).expect("there").is_symlink());
        // Others may read it, as far as the umask lets them.
        let plain = folder.path().join("plain");
        fs::write(&plain, "").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&run.join("a")), mode(&plain));
        remove_drafts(&run).expect("removed");
        assert!(victim.exists() && !run.join(".a.tmp").exists());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, what) in [(folder.path(), "a folder"), (Path::new("/dev/zero"), "a device")] {
            for why in [read(path).err(), read_text(path).err(), open(path).err()] {
                assert_eq!(why.expect("no file").to_string(), format!("it is {what}, and no file"));
            }
        }
    }
}
