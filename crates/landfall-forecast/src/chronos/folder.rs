//! A folder of weights.

use super::error::ChronosError;
use super::{config, header};
use crate::checkpoint::{File, Tensor};
use crate::files;
use crate::models::chronos::{Chronos2, Chronos2Config, Network};
use crate::nn::Parameter;
use landfall::{DType, Engine, HostTensor, Shape, Spec, State};
use safetensors::SafeTensors;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
/// Values that are looked at together.
const PIECE: usize = 1 << 12;

/// The weights of a Chronos-2 or Chronos-Bolt and what their folder says of them.
#[derive(Debug, Clone)]
pub struct Weights {
    /// The network that they are of.
    pub network: Network,
    /// The text of `config.json`.
    config: String,
    path: PathBuf,
    /// The file's bytes, from which parameters go to a state one by one.
    bytes: Arc<Vec<u8>>,
}

impl Weights {
    /// Reads `config.json` and `model.safetensors` of a folder, as the authors' `save_pretrained` writes them. Names, dtypes, shapes and
    /// sizes are checked before values are read; the memory taken is the file's bytes and little more.
    ///
    /// # Errors
    /// What cannot be read; an option that is not supported, by its name and value; a tensor that is missing, unknown, of another shape
    /// or not finite.
    pub fn read(folder: &Path) -> Result<Self, ChronosError> {
        let (network, config) = config::read(&folder.join(CONFIG))?;
        let path = folder.join(WEIGHTS);
        header::check(&path, &network)?;
        let bytes = files::read(&path).map_err(|why| ChronosError::Read { path: path.clone(), why })?;
        let weights = Self { network, config, path, bytes: Arc::new(bytes) };
        weights.check()?;
        Ok(weights)
    }

    /// Initial weights of a model of these sizes, which are drawn by a seed: to train one from the start, and for trials.
    ///
    /// ```
    /// use landfall_forecast::chronos::Weights;
    /// use landfall_train::models::chronos::Chronos2Config;
    /// let sizes = Chronos2Config {
    ///     patch: 4, context: 64, patches: 2, levels: vec![0.1, 0.5, 0.9], width: 16, features: 4, heads: 2, hidden: 24, layers: 2,
    ///     arcsinh: true, time_scale: 64.0, eps: 1e-6, rope: 1e4,
    /// };
    /// let folder = std::env::temp_dir().join("landfall-initial-chronos-2");
    /// Weights::initial(sizes, 1)?.write(&folder)?;
    /// assert_eq!(Weights::read(&folder)?.network.context(), 64);
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), landfall_forecast::chronos::ChronosError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes that do not fit each other; not enough memory.
    pub fn initial(sizes: Chronos2Config, seed: u64) -> Result<Self, ChronosError> {
        let (config, path) = (config::text(&sizes), PathBuf::from(WEIGHTS));
        let wrong = |why: String| ChronosError::Config { path: CONFIG.into(), why };
        let network = Network::Chronos2(Chronos2::new(sizes).map_err(wrong)?);
        let parameters = network.parameters();
        // Values do not depend on the threads.
        let mut state = State::new(&Engine::cpu_with_threads(1)?, &parameters.state_spec(DType::F32)?)?;
        parameters.initialise(&mut state, seed)?;
        let none = Self { network, config, path, bytes: Arc::default() };
        none.with(|parameter| Ok(state.read_host(&parameter.name)?))
    }

    fn tensors(&self) -> Result<SafeTensors<'_>, ChronosError> {
        let format = |why: safetensors::SafeTensorError| ChronosError::Format {
            path: self.path.clone(),
            why: why.to_string(),
        };
        SafeTensors::deserialize(&self.bytes).map_err(format)
    }

    fn refused(&self, why: String) -> ChronosError {
        ChronosError::Tensor { path: self.path.clone(), why }
    }

    /// Refuses values that are not finite.
    fn check(&self) -> Result<(), ChronosError> {
        let tensors = self.tensors()?;
        for parameter in self.network.parameters().list() {
            for name in &parameter.parts {
                let (dtype, bytes) = self.view(&tensors, name, parameter.part())?;
                for (number, piece) in bytes.chunks(PIECE * dtype.size()).enumerate() {
                    let shape = Shape::from([piece.len() / dtype.size()]);
                    let values = HostTensor::from_bytes(Spec { dtype, shape }, piece)
                        .map_err(landfall::Error::from)?;
                    if let Some(place) = values.data.iter().position(|x| !x.is_finite()) {
                        let (value, element) = (values.data[place], number * PIECE + place);
                        return Err(self.refused(format!("tensor {name} has {value} as element {element}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Dtype and bytes of a tensor of this shape.
    fn view<'a>(
        &self,
        all: &SafeTensors<'a>,
        name: &str,
        shape: Shape,
    ) -> Result<(DType, &'a [u8]), ChronosError> {
        let view = all.tensor(name).ok().filter(|view| view.shape() == shape.dims());
        let view = view.ok_or_else(|| self.refused(format!("tensor {name} is no longer {shape}")))?;
        Ok((header::float(name, view.dtype()).map_err(|why| self.refused(why))?, view.data()))
    }

    /// A tensor of this shape.
    fn tensor(&self, all: &SafeTensors<'_>, name: &str, shape: Shape) -> Result<HostTensor, ChronosError> {
        let (dtype, bytes) = self.view(all, name, shape)?;
        Ok(HostTensor::from_bytes(Spec { dtype, shape }, bytes).map_err(landfall::Error::from)?)
    }

    /// The values of a parameter of the network.
    ///
    /// # Errors
    /// Memory that was changed.
    pub fn value(&self, parameter: &Parameter) -> Result<HostTensor, ChronosError> {
        self.value_of(&self.tensors()?, parameter)
    }

    fn value_of(&self, all: &SafeTensors<'_>, parameter: &Parameter) -> Result<HostTensor, ChronosError> {
        let mut data = Vec::with_capacity(parameter.shape.elements());
        for name in &parameter.parts {
            data.extend(self.tensor(all, name, parameter.part())?.data);
        }
        Ok(HostTensor::new(DType::F64, parameter.shape, data).map_err(landfall::Error::from)?)
    }

    /// Writes the parameters into a state that has them.
    ///
    /// # Errors
    /// A state of another model; a device fault.
    pub fn load(&self, state: &mut State) -> Result<(), ChronosError> {
        let tensors = self.tensors()?;
        for parameter in self.network.parameters().list() {
            state.write_host(&parameter.name, &self.value_of(&tensors, parameter)?)?;
        }
        Ok(())
    }

    /// The same model with other values of its parameters, kept as f32.
    ///
    /// ```no_run
    /// # use landfall_forecast::chronos::Weights;
    /// // The mean of two trainings.
    /// let (first, second) = (Weights::read("first".as_ref())?, Weights::read("second".as_ref())?);
    /// let mean = first.with(|parameter| {
    ///     let mut value = first.value(parameter)?;
    ///     value.data.iter_mut().zip(second.value(parameter)?.data).for_each(|(a, b)| *a = (*a + b) / 2.0);
    ///     Ok(value)
    /// })?;
    /// mean.write("mean".as_ref())?;
    /// # Ok::<(), landfall_forecast::chronos::ChronosError>(())
    /// ```
    ///
    /// # Errors
    /// Those of `value`.
    pub fn with(
        &self,
        mut value: impl FnMut(&Parameter) -> Result<HostTensor, ChronosError>,
    ) -> Result<Self, ChronosError> {
        let mut file = File::default();
        for parameter in self.network.parameters().list() {
            let (all, shape) = (value(parameter)?, parameter.part());
            for (name, data) in parameter.parts.iter().zip(all.data.chunks(shape.elements().max(1))) {
                let own = HostTensor::new(DType::F32, shape, data.to_vec()).map_err(landfall::Error::from)?;
                file.tensors.insert(name.clone(), Tensor::from(&own));
            }
        }
        // What transformers asks for.
        file.metadata.insert("format".to_owned(), "pt".to_owned());
        let failed = |why| ChronosError::Write { path: self.path.clone(), why: std::io::Error::other(why) };
        Ok(Self { bytes: Arc::new(file.to_bytes().map_err(failed)?), ..self.clone() })
    }

    /// Writes a folder of the authors' form.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ChronosError> {
        let failed = |path: &Path, why| ChronosError::Write { path: path.to_owned(), why };
        std::fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
        for (name, bytes) in [(WEIGHTS, self.bytes.as_slice()), (CONFIG, self.config.as_bytes())] {
            let path = folder.join(name);
            files::replace(&path, bytes).map_err(|why| failed(&path, why))?;
        }
        Ok(())
    }

    /// SHA-256 of options and weights.
    pub(crate) fn digest(&self) -> String {
        digest([self.config.as_bytes(), self.bytes.as_slice()])
    }
}

/// SHA-256 of several texts, in hexadecimal digits: of each its length and its bytes.
pub(crate) fn digest(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
