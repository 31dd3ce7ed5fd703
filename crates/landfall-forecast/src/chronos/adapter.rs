//! Adapters kept apart from the weights, in the folders of the PEFT library.

use super::error::ChronosError;
use super::folder::Weights;
use crate::checkpoint::{File, Tensor};
use crate::files;
use crate::nn::{LowRank, Parameter};
use landfall::HostTensor;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const CONFIG: &str = "adapter_config.json";
const FACTORS: &str = "adapter_model.safetensors";
/// The largest rank, so that a stranger's number is no size of memory.
const MOST: usize = 1 << 16;

/// A trained [`LowRank`] adapter of a Chronos-2.
///
/// ```no_run
/// use landfall_forecast::chronos::{Adapter, Weights};
/// let merged = Weights::read("chronos-2".as_ref())?.merged(&Adapter::read("adapter".as_ref())?)?;
/// merged.write("chronos-2-sales".as_ref())?;
/// # Ok::<(), landfall_forecast::chronos::ChronosError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Its rank, factor and layers.
    pub how: LowRank,
    /// Its factors, by their names in files.
    pub(super) factors: BTreeMap<String, Tensor>,
}

/// What is read of `adapter_config.json`.
#[derive(Deserialize)]
struct Options {
    peft_type: String,
    r: usize,
    lora_alpha: f64,
    target_modules: Vec<String>,
    /// All else: what would change the result is refused.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Options of other forms of adapter, which must be off, with what that is beside false, null and nothing.
const OFF: [(&str, &str); 8] = [
    ("use_rslora", ""),
    ("use_dora", ""),
    ("fan_in_fan_out", ""),
    ("rank_pattern", ""),
    ("alpha_pattern", ""),
    ("modules_to_save", ""),
    ("layers_to_transform", ""),
    ("bias", "none"),
];

impl Adapter {
    /// Reads `adapter_config.json` and `adapter_model.safetensors` of a folder, as the PEFT library writes them of plain low-rank adapters.
    ///
    /// # Errors
    /// What cannot be read; another form of adapter, by its option.
    pub fn read(folder: &Path) -> Result<Self, ChronosError> {
        let path = folder.join(CONFIG);
        let text = files::read_text(&path).map_err(|why| ChronosError::Read { path: path.clone(), why })?;
        let refused = |why: String| ChronosError::Adapter { path: path.clone(), why };
        let options: Options = serde_json::from_str(&text).map_err(|e| refused(e.to_string()))?;
        if options.peft_type != "LORA" {
            return Err(refused(format!("peft_type is {}; only LORA is read", options.peft_type)));
        }
        if options.r == 0 || options.r > MOST {
            return Err(refused(format!("r is {}; it must be 1 to {MOST}", options.r)));
        }
        for (name, off) in OFF {
            let value = options.others.get(name).unwrap_or(&Value::Null);
            let empty = value.as_object().is_some_and(serde_json::Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty);
            if !(empty || matches!(value, Value::Null | Value::Bool(false)) || value.as_str() == Some(off)) {
                return Err(refused(format!("{name} is {value}; only adapters without it are read")));
            }
        }
        let factors = File::read(&folder.join(FACTORS))?.tensors;
        let how = LowRank { rank: options.r, alpha: options.lora_alpha, targets: options.target_modules };
        Ok(Self { how, factors })
    }

    /// Writes such a folder.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ChronosError> {
        let failed = |path: &Path, why| ChronosError::Write { path: path.to_owned(), why };
        std::fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
        let mut file = File { tensors: self.factors.clone(), ..File::default() };
        file.metadata.insert("format".to_owned(), "pt".to_owned());
        file.write(&folder.join(FACTORS))?;
        let LowRank { rank, alpha, targets } = &self.how;
        let options = json!({
            "peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": targets, "lora_dropout": 0.0,
            "bias": "none", "fan_in_fan_out": false, "inference_mode": true, "base_model_name_or_path": null,
            "task_type": null
        });
        let path = folder.join(CONFIG);
        files::replace(&path, format!("{options:#}\n").as_bytes()).map_err(|why| failed(&path, why))
    }

    /// The factor of a name in files.
    fn factor(&self, parameter: &Parameter) -> Result<HostTensor, ChronosError> {
        let name = &parameter.parts[0];
        let wrong = |why: String| ChronosError::Adapter { path: FACTORS.into(), why };
        let tensor = self.factors.get(name).ok_or_else(|| wrong(format!("tensor {name} is missing")))?;
        let value = tensor.host().map_err(landfall::Error::from)?;
        if value.spec.shape != parameter.shape || value.data.iter().any(|x| !x.is_finite()) {
            let (is, expected) = (value.spec.shape, parameter.shape);
            return Err(wrong(format!("tensor {name} is {is}, it must be {expected}, of finite values")));
        }
        Ok(value)
    }
}

impl Weights {
    /// These weights with an adapter merged into them.
    ///
    /// # Errors
    /// An adapter of another model.
    pub fn merged(&self, adapter: &Adapter) -> Result<Self, ChronosError> {
        let mut network = self.network.clone();
        network.parameters_mut().adapt(&adapter.how)?;
        let all = network.parameters();
        let factors = all.list().len() - all.base().count();
        if factors != adapter.factors.len() {
            let why = format!("it has {} tensors, its layers take {factors}", adapter.factors.len());
            return Err(ChronosError::Adapter { path: FACTORS.into(), why });
        }
        let own = |p: &Parameter| self.network.parameters().list().iter().any(|base| base.name == p.name);
        self.with(|parameter| {
            all.merged(parameter, |p| if own(p) { self.value(p) } else { adapter.factor(p) })
        })
    }
}
