//! In the place of the NVIDIA GPU device in a build without the feature `cuda`: what other modules use of it, which says
//! that it is not there.

use super::{Device, Survey, cache};
use crate::error::{Absence, Error};
use crate::kernel::cuda::{Compiled, Module};
use std::sync::Arc;

/// There is none.
///
/// # Errors
/// [`Absence::Feature`].
pub(crate) fn open(_ordinal: u32) -> Result<Arc<dyn Device>, Error> {
    Err(Absence::Feature.into())
}

/// Compiles modules for one architecture: there is none in a build without the feature `cuda`.
#[derive(Debug, Clone)]
pub enum Compiler {}

impl Compiler {
    /// There is none.
    ///
    /// # Errors
    /// [`Absence::Feature`].
    pub fn new(_arch: &str) -> Result<Self, Absence> {
        Err(Absence::Feature)
    }

    /// There is none.
    ///
    /// # Errors
    /// [`Absence::Feature`].
    pub fn uncached(_arch: &str) -> Result<Self, Absence> {
        Err(Absence::Feature)
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn compile(&self, _module: &Module) -> Result<Compiled, Error> {
        match *self {}
    }
}

/// There is none.
///
/// # Errors
/// [`Absence::Feature`].
pub fn count() -> Result<u32, Error> {
    Err(Absence::Feature.into())
}

/// Says that this build cannot look.
#[must_use]
pub fn survey() -> Survey {
    let absent = Absence::Feature;
    Survey {
        driver: Err(absent.clone()),
        gpus: Err(absent.clone().into()),
        nvrtc: Err(absent.clone()),
        cublaslt: Err(absent.clone()),
        nccl: Err(absent),
        links: Vec::new(),
        cache: cache::folder(),
    }
}
