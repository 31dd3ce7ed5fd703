//! Work on the device that is asked for.

use super::words::Text;
use super::{Device, RunError, SettingsError, named};
use landfall::cuda::{self, Absence};
use landfall::{Engine, Error, OpError, Rule, World};

/// What was made on a device, and which device that is.
#[derive(Debug)]
pub struct OnDevice<T> {
    /// What was made.
    pub made: T,
    /// The device; never [`Device::Auto`].
    pub device: Device,
    /// For [`Device::Auto`]: why it is this device.
    pub reason: Option<AutoReason>,
}

/// Why [`Device::Auto`] is a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AutoReason {
    /// The GPU has all that is needed.
    Complete,
    /// No GPU is there to compute on.
    NoGpu,
    /// The GPU lacks something: what, in words.
    Lacks(String),
}

impl<T> OnDevice<T> {
    /// The device in one line, and why it is that one.
    #[must_use]
    pub fn line(&self) -> String {
        self.device.line(self.reason.as_ref())
    }

    /// The same line; none for a computer without a GPU, where nobody expects another device.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (self.reason != Some(AutoReason::NoGpu)).then(|| self.line())
    }
}

/// Refuses a number of threads that no engine is made with.
pub(super) fn check_threads(threads: Option<usize>) -> Result<(), SettingsError> {
    match threads {
        None | Some(1..=1024) => Ok(()),
        Some(n) => {
            let (setting, value, rule) =
                (Text::setting("threads"), n.to_string(), "it must be 1 to 1024".into());
            Err(SettingsError::Range { setting, value, rule })
        }
    }
}

/// An engine on the processor.
fn cpu(threads: Option<usize>) -> Result<Engine, RunError> {
    check_threads(threads)?;
    Ok(threads.map_or_else(Engine::cpu, Engine::cpu_with_threads)?)
}

/// Makes something on a device. [`Device::Auto`] is GPU 0 where all is there that `make` needs, and else the processor;
/// `threads` are those of the processor.
///
/// ```
/// use landfall_forecast::run::{Device, on_device};
///
/// let engine = on_device(Device::Cpu, Some(2), |engine| Ok(engine.clone()))?;
/// assert_eq!(engine.line(), "device cpu");
/// # Ok::<(), landfall_forecast::run::RunError>(())
/// ```
///
/// # Errors
/// [`RunError::NoDevice`] for a GPU that is not there or lacks something; more than 1024 threads, or none; what `make` fails
/// with.
pub fn on_device<T>(
    asked: Device,
    threads: Option<usize>,
    make: impl Fn(&Engine) -> Result<T, RunError>,
) -> Result<OnDevice<T>, RunError> {
    let placed = |made, device, reason: Option<AutoReason>| OnDevice { made, device, reason };
    let on_gpu = |ordinal| Engine::cuda(ordinal).map_err(RunError::from).and_then(|engine| make(&engine));
    match asked {
        Device::Cpu => Ok(placed(make(&cpu(threads)?)?, asked, None)),
        Device::Null => Ok(placed(make(&Engine::null())?, asked, None)),
        Device::Cuda(ordinal) => match on_gpu(ordinal) {
            Ok(made) => Ok(placed(made, asked, None)),
            Err(RunError::Engine(why)) if lacks(&why) => Err(RunError::NoDevice { device: asked, why }),
            Err(other) => Err(other),
        },
        Device::Auto => match on_gpu(0) {
            Ok(made) => Ok(placed(made, Device::Cuda(0), Some(AutoReason::Complete))),
            Err(RunError::Engine(why)) if lacks(&why) => {
                let none = matches!(why, Error::Absent(Absence::Feature | Absence::Driver));
                let reason = if none { AutoReason::NoGpu } else { AutoReason::Lacks(why.to_string()) };
                Ok(placed(make(&cpu(threads)?)?, Device::Cpu, Some(reason)))
            }
            Err(other) => Err(other),
        },
    }
}

impl Device {
    /// The device of this name, of those that compute.
    ///
    /// # Errors
    /// The name of no device, or of `null`: the names that there are.
    pub fn computing(name: &str) -> Result<Self, String> {
        match named(name)? {
            Self::Null => Err("null computes nothing; choose auto, cpu, cuda or cuda:N".to_owned()),
            device @ (Self::Auto | Self::Cpu | Self::Cuda(_)) => Ok(device),
        }
    }

    /// The device in one line, and why it is that one where it was chosen.
    #[must_use]
    pub fn line(self, reason: Option<&AutoReason>) -> String {
        let what = match self {
            Self::Null => {
                "null: it checks and counts every launch and computes nothing, so there will be no results"
                    .to_owned()
            }
            Self::Auto | Self::Cpu | Self::Cuda(_) => self.to_string(),
        };
        match reason {
            Some(AutoReason::Complete) => format!("device auto: {what} (all that it needs is there)"),
            Some(AutoReason::Lacks(why)) => format!("device auto: {what} ({why})"),
            Some(AutoReason::NoGpu) | None => format!("device {what}"),
        }
    }

    /// The device of this rank where this one is asked for: GPUs of a machine are counted on from it, one for each rank,
    /// unless the launcher shows each rank only one.
    #[must_use]
    pub fn of_rank(self, world: &World) -> Self {
        self.among(world.local(), cuda::count().ok())
    }

    /// [`Device::of_rank`] for number `local` of the ranks of a machine, of whose GPUs so many are visible.
    fn among(self, local: usize, visible: Option<u32>) -> Self {
        let next = match visible {
            Some(2..) => u32::try_from(local).unwrap_or(u32::MAX),
            Some(_) | None => 0,
        };
        match self {
            Self::Cuda(first) => Self::Cuda(first.saturating_add(next)),
            Self::Auto if next > 0 => Self::Cuda(next),
            Self::Auto | Self::Cpu | Self::Null => self,
        }
    }
}

/// Whether an error says that a device is not there or has no kernel, so that another device may do.
fn lacks(why: &Error) -> bool {
    matches!(why, Error::Absent(_) | Error::Op(OpError { rule: Rule::Unsupported { .. }, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall::cuda::Version;
    use landfall::{DType, DeviceKind};

    /// Each thing that can be missing is named by its own error, with what to do about it, in one line.
    #[test]
    fn what_is_missing_is_named() {
        let (found, needed) = (Version { major: 11, minor: 8 }, Version { major: 12, minor: 0 });
        let arch = "sm_90a".to_owned();
        let absences = [
            (Absence::Feature, "this build has no CUDA", "build with the feature `cuda`"),
            (Absence::Driver, "no NVIDIA driver", "install the NVIDIA driver"),
            (Absence::DriverStart { why: "X".to_owned() }, "does not start: X", "nvidia-smi"),
            (Absence::DriverVersion { found, needed }, "for CUDA 11.8; at least 12.0", "newer driver"),
            (Absence::Gpu { ordinal: 3, count: 1 }, "no GPU 3: 1 are visible", "CUDA_VISIBLE_DEVICES"),
            (Absence::Pools { ordinal: 0 }, "no memory pools", "needed"),
            (Absence::Nvrtc, "no run-time compiler", "pip install nvidia-cuda-nvrtc"),
            (Absence::NvrtcVersion { found, needed }, "of CUDA 11.8; at least 12.0", "newer NVRTC"),
            (Absence::Architecture { version: found, arch }, "does not know sm_90a", "newer NVRTC"),
            (Absence::CublasLt, "no matrix library", "pip install nvidia-cublas"),
        ];
        for (absence, what, remedy) in absences {
            let why = Error::from(absence);
            assert!(lacks(&why));
            let text = RunError::NoDevice { device: Device::Cuda(0), why }.to_string();
            assert!(text.starts_with("device = \"cuda:0\": ") && text.contains(what), "{text}");
            assert!(text.contains(remedy) && text.ends_with("use device = \"cpu\""), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }

    /// Only a device that is not there, or lacks a kernel, makes way for another one.
    #[test]
    fn a_fault_is_no_absence() {
        let rule = Rule::Unsupported { device: DeviceKind::Cuda(0), dtype: DType::F64 };
        assert!(lacks(&rule.of("add", &[], None, None).into()));
        let device = DeviceKind::Cuda(0);
        assert!(!lacks(&Error::Memory { bytes: 1, device, in_use: 0 }));
        assert!(!lacks(&Error::Op(Rule::Arity { takes: "1 argument (x)".to_owned(), got: 2 }.of(
            "add",
            &[],
            None,
            None
        ))));
    }

    /// A fault while something is made is not hidden by going elsewhere.
    #[test]
    fn a_fault_is_told() {
        let fault = |_: &Engine| Err::<(), _>(RunError::Engine(Error::ForeignState));
        for asked in [Device::Auto, Device::Cpu, Device::Null] {
            let failed = on_device(asked, Some(1), fault);
            assert!(matches!(failed, Err(RunError::Engine(Error::ForeignState))));
        }
    }

    #[test]
    fn ranks_of_a_machine_have_a_gpu_each() {
        let cuda = Device::Cuda;
        for (asked, local, visible, expected) in [
            (Device::Auto, 0, Some(4), Device::Auto),
            (Device::Auto, 3, Some(4), cuda(3)),
            // Refused later, where the GPUs are counted.
            (Device::Auto, 4, Some(4), cuda(4)),
            (Device::Auto, 1, Some(1), Device::Auto),
            (Device::Auto, 1, None, Device::Auto),
            (cuda(0), 2, Some(4), cuda(2)),
            (cuda(1), 2, Some(4), cuda(3)),
            (cuda(0), 5, Some(1), cuda(0)),
            (Device::Cpu, 2, Some(4), Device::Cpu),
        ] {
            assert_eq!(asked.among(local, visible), expected, "{asked}, rank {local} of {visible:?} GPUs");
        }
    }
}
