//! The device of a command.

use crate::error::CliError;
use landfall::cuda::{self, Absence};
use landfall::{Engine, Error, OpError, Rule, World};
use landfall_train::run::{Device, RunError};

/// What was made on a device, and where that is.
pub(crate) struct Placed<T> {
    pub(crate) made: T,
    /// The device; never `auto`.
    pub(crate) device: Device,
    /// Where `auto` was asked for: why it is that device.
    pub(crate) why: Option<Why>,
}

/// Why `auto` is a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// A GPU has all that is needed.
    Complete,
    /// There is no GPU here to compute on, which is nothing to speak of.
    NoGpu,
    /// A GPU lacks something.
    Lacks(String),
}

impl<T> Placed<T> {
    /// The device in one line.
    pub(crate) fn line(&self) -> String {
        line(self.device, self.why.as_ref())
    }

    /// The same, where it says more than that a computer without a GPU has none.
    pub(crate) fn told(&self) -> Option<String> {
        (self.why != Some(Why::NoGpu)).then(|| self.line())
    }
}

/// A device in one line, and why it is that one where it was chosen.
pub(crate) fn line(device: Device, why: Option<&Why>) -> String {
    let what = match device {
        Device::Null => {
            "null: it checks and counts every launch and computes nothing, so there will be no results"
                .to_owned()
        }
        Device::Auto | Device::Cpu | Device::Cuda(_) => device.to_string(),
    };
    match why {
        Some(Why::Complete) => format!("device auto: {what} (all that it needs is there)"),
        Some(Why::Lacks(why)) => format!("device auto: {what} ({why})"),
        Some(Why::NoGpu) | None => format!("device {what}"),
    }
}

/// An engine on the processor.
fn cpu(threads: Option<usize>) -> Result<Engine, CliError> {
    match threads {
        None => Ok(Engine::cpu()?),
        Some(n @ 1..=1024) => Ok(Engine::cpu_with_threads(n)?),
        Some(n) => {
            let rule = "it must be 1 to 1024";
            Err(CliError::Range { flag: "--threads", value: n.to_string(), rule })
        }
    }
}

/// Makes something on the device that was asked for. `auto` is GPU 0 where all is there that it needs, and else the
/// processor.
pub(crate) fn on<T>(
    asked: Device,
    threads: Option<usize>,
    make: impl Fn(&Engine) -> Result<T, RunError>,
) -> Result<Placed<T>, CliError> {
    let placed = |made, device, why: Option<Why>| Placed { made, device, why };
    let on_gpu = |ordinal| Engine::cuda(ordinal).map_err(RunError::from).and_then(|engine| make(&engine));
    match asked {
        Device::Cpu => Ok(placed(make(&cpu(threads)?)?, asked, None)),
        Device::Null => Ok(placed(make(&Engine::null())?, asked, None)),
        Device::Cuda(ordinal) => match on_gpu(ordinal) {
            Ok(made) => Ok(placed(made, asked, None)),
            Err(RunError::Engine(why)) if lacks(&why) => Err(CliError::NoDevice { device: asked, why }),
            Err(other) => Err(other.into()),
        },
        Device::Auto => match on_gpu(0) {
            Ok(made) => Ok(placed(made, Device::Cuda(0), Some(Why::Complete))),
            Err(RunError::Engine(why)) if lacks(&why) => {
                let none = matches!(why, Error::Absent(Absence::Feature | Absence::Driver));
                let why = if none { Why::NoGpu } else { Why::Lacks(why.to_string()) };
                Ok(placed(make(&cpu(threads)?)?, Device::Cpu, Some(why)))
            }
            Err(other) => Err(other.into()),
        },
    }
}

/// The device of a rank: the GPUs of a machine one after the other from the one that was asked for on, unless the launcher shows
/// each rank but one.
pub(crate) fn of_rank(asked: Device, world: &World) -> Device {
    among(asked, world.local(), cuda::count().ok())
}

/// [`of_rank`] for number `local` of the ranks of a machine, of whose GPUs so many are visible.
fn among(asked: Device, local: usize, visible: Option<u32>) -> Device {
    let next = match visible {
        Some(2..) => u32::try_from(local).unwrap_or(u32::MAX),
        Some(_) | None => 0,
    };
    match asked {
        Device::Cuda(first) => Device::Cuda(first.saturating_add(next)),
        Device::Auto if next > 0 => Device::Cuda(next),
        Device::Auto | Device::Cpu | Device::Null => asked,
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
            let error = CliError::NoDevice { device: Device::Cuda(0), why };
            let text = error.to_string();
            assert!(text.starts_with("--device cuda:0: ") && text.contains(what), "{text}");
            assert!(text.contains(remedy) && text.ends_with("use --device cpu"), "{text}");
            assert_eq!((text.lines().count(), error.code()), (1, 2), "{text}");
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
            assert!(matches!(
                on(asked, Some(1), fault),
                Err(CliError::Run(RunError::Engine(Error::ForeignState)))
            ));
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
            assert_eq!(among(asked, local, visible), expected, "{asked}, rank {local} of {visible:?} GPUs");
        }
    }
}
