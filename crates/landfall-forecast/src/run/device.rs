//! Where a run computes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::str::FromStr;

/// Where a run computes, as it is asked for: `auto`, `cpu`, `cuda`, `cuda:N` or `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The first GPU where all is there that the work needs, and else the processor.
    Auto,
    /// The processor.
    Cpu,
    /// The NVIDIA GPU of this number; `cuda` is the first.
    Cuda(u32),
    /// Checks and counts, computes nothing.
    Null,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Null => f.write_str("null"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let ordinal = name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
        match (name, ordinal) {
            ("auto", _) => Ok(Self::Auto),
            ("cpu", _) => Ok(Self::Cpu),
            ("cuda", _) => Ok(Self::Cuda(0)),
            ("null", _) => Ok(Self::Null),
            (_, Some(ordinal)) => Ok(Self::Cuda(ordinal)),
            (_, None) => Err(format!("unknown device `{name}`, expected auto, cpu, cuda, cuda:N or null")),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

/// The processor's name; its architecture where the system does not say it.
#[must_use]
pub fn processor() -> String {
    // Linux alone has it in a file.
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    name.map_or(std::env::consts::ARCH, |(_, n)| n.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for device in [Device::Auto, Device::Cpu, Device::Cuda(0), Device::Cuda(7), Device::Null] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:4294967296", "CPU"] {
            let error = format!("unknown device `{wrong}`, expected auto, cpu, cuda, cuda:N or null");
            assert_eq!(wrong.parse::<Device>(), Err(error));
        }
    }
}
