//! NCCL's functions, found at run time: `libnccl.so.2`, as the CUDA toolkit and the wheel `nvidia-nccl` have it.

use crate::error::{Absence, Version};
use cudarc::driver::sys;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// A communicator.
pub(super) type Comm = *mut c_void;

/// What ranks find each other by.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub(super) [u8; 128]);

/// Settings of a communicator as of NCCL 2.14, which later versions take too: they go by size and version.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    /// A communicator whose calls return when they are enqueued.
    pub(super) const fn blocking() -> Self {
        Self { size: size_of::<Self>(), magic: 0xcafe_beef, version: 21_400, blocking: 1 }
    }
}

/// The oldest version with that configuration.
const OLDEST: Version = Version { major: 2, minor: 14 };

type Status = c_int;

macro_rules! functions {
    ($($(#[$about:meta])* $name:ident $symbol:literal ($($kind:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that the device uses. A status of zero is a success.
        pub(super) struct Library {
            $($(#[$about])* pub(super) $name: unsafe extern "C" fn($($kind),*) -> functions!(@ $($result)?),)*
        }
        impl Library {
            fn of(from: &libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self { $(
                    // SAFETY: the symbol has this type in every version of the library from the oldest on.
                    $name: *unsafe { from.get::<unsafe extern "C" fn($($kind),*) -> functions!(@ $($result)?)>($symbol) }?,
                )* })
            }
        }
    };
    (@) => { Status };
    (@ $result:ty) => { $result };
}

functions! {
    get_version b"ncclGetVersion\0" (*mut c_int);
    get_unique_id b"ncclGetUniqueId\0" (*mut UniqueId);
    comm_init b"ncclCommInitRankConfig\0" (*mut Comm, c_int, UniqueId, c_int, *mut Config);
    comm_destroy b"ncclCommDestroy\0" (Comm);
    comm_abort b"ncclCommAbort\0" (Comm);
    async_error b"ncclCommGetAsyncError\0" (Comm, *mut Status);
    error_string b"ncclGetErrorString\0" (Status) -> *const c_char;
    group_start b"ncclGroupStart\0" ();
    group_end b"ncclGroupEnd\0" ();
    all_reduce b"ncclAllReduce\0" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, sys::CUstream);
    reduce_scatter b"ncclReduceScatter\0" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, sys::CUstream);
    all_gather b"ncclAllGather\0" (*const c_void, *mut c_void, usize, c_int, Comm, sys::CUstream);
    broadcast b"ncclBroadcast\0" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, sys::CUstream);
    send b"ncclSend\0" (*const c_void, usize, c_int, c_int, Comm, sys::CUstream);
    receive b"ncclRecv\0" (*mut c_void, usize, c_int, c_int, Comm, sys::CUstream);
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

/// The library and its version, loaded once.
///
/// # Errors
/// [`Absence::Nccl`], [`Absence::NcclVersion`].
pub(super) fn find() -> Result<(&'static Library, Version), Absence> {
    static FOUND: OnceLock<Result<(Library, Version), Absence>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // SAFETY: loads the library and runs its initialisers, as any use of it does.
        let open = |name| unsafe { libloading::Library::new(name) };
        let loaded = open("libnccl.so.2").or_else(|_| open("libnccl.so"));
        let loaded = loaded.map_err(|why| Absence::Nccl { why: why.to_string() })?;
        let library = Library::of(&loaded).map_err(|why| Absence::Nccl { why: why.to_string() })?;
        // Its functions stay for the life of the process.
        std::mem::forget(loaded);
        let mut number = 0;
        // SAFETY: writes one int; needs no GPU.
        let asked = unsafe { (library.get_version)(&raw mut number) };
        let number = if asked == 0 { number.unsigned_abs() } else { 0 };
        let found = version(number);
        if found < OLDEST {
            return Err(Absence::NcclVersion { found, needed: OLDEST });
        }
        Ok((library, found))
    });
    found.as_ref().map(|(library, version)| (library, *version)).map_err(Clone::clone)
}

/// The version of the library.
///
/// # Errors
/// [`Absence::Nccl`], [`Absence::NcclVersion`].
pub(in crate::device::cuda) fn found() -> Result<Version, Absence> {
    find().map(|(_, version)| version)
}

/// The version in a number, 22703 or, up to 2.8, 2804.
const fn version(number: u32) -> Version {
    if number < 10_000 {
        return Version { major: number / 1000, minor: number % 1000 / 100 };
    }
    Version { major: number / 10_000, minor: number % 10_000 / 100 }
}

impl Library {
    /// What a status means.
    pub(super) fn text(&self, status: Status) -> String {
        // SAFETY: the texts are static and end with a zero.
        let text = unsafe { CStr::from_ptr((self.error_string)(status)) };
        text.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Absence, find, version};

    #[test]
    fn versions_are_read_in_both_forms() {
        assert_eq!(
            [2804, 21_403, 22_703].map(version).map(|v| (v.major, v.minor)),
            [(2, 8), (2, 14), (2, 27)]
        );
    }

    /// Without the library the error says what to install; with it every function that is used is there.
    #[test]
    fn the_library_is_found_or_named() {
        match find() {
            Ok((library, version)) => {
                assert!(version.major >= 2);
                assert!(!library.text(0).is_empty());
            }
            Err(Absence::Nccl { why }) => {
                eprintln!("skipped: no NCCL ({why})");
                assert!(Absence::Nccl { why }.to_string().contains("pip install nvidia-nccl-cu13"));
            }
            Err(other) => panic!("{other}"),
        }
    }
}
