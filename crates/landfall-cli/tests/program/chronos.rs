//! A small Chronos-2 of initial weights, as the authors' package writes it.

use landfall::{DType, Engine, HostTensor, State};
use landfall_train::checkpoint::{File, Tensor};
use landfall_train::models::chronos::{Chronos2, Chronos2Config};
use serde_json::json;
use std::path::Path;

/// Rows of context, and of a pass.
pub(crate) const CONTEXT: usize = 64;
pub(crate) const PASS: usize = 8;

/// Writes the folder.
pub(crate) fn folder(path: &Path) {
    let levels: Vec<f64> = (1..10).map(|i| f64::from(i) / 10.0).collect();
    let config = Chronos2Config {
        patch: 4,
        context: CONTEXT,
        patches: PASS / 4,
        levels: levels.clone(),
        width: 16,
        features: 4,
        heads: 2,
        hidden: 24,
        layers: 2,
        arcsinh: true,
        time_scale: CONTEXT as f64,
        eps: 1e-6,
        rope: 1e4,
    };
    let network = Chronos2::new(config).expect("a network");
    let engine = Engine::cpu_with_threads(1).expect("a processor");
    let spec = network.parameters().state_spec(DType::F32).expect("a state");
    let mut state = State::new(&engine, &spec).expect("memory");
    network.parameters().initialise(&mut state, 1).expect("values");
    let mut file = File::default();
    for parameter in network.parameters().list() {
        let value = state.read_host(&parameter.name).expect("a parameter");
        let shape = parameter.shape.with(0, parameter.shape.dims()[0] / parameter.parts.len());
        for (name, data) in parameter.parts.iter().zip(value.data.chunks(shape.elements())) {
            let own = HostTensor::new(DType::F32, shape, data.to_vec()).expect("a tensor");
            file.tensors.insert(name.clone(), Tensor::from(&own));
        }
    }
    file.metadata.insert("format".to_owned(), "pt".to_owned());
    std::fs::create_dir_all(path).expect("a folder");
    file.write(&path.join("model.safetensors")).expect("written");
    let config = json!({
        "architectures": ["Chronos2Model"],
        "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 2,
        "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu", "rope_theta": 1e4,
        "chronos_config": {
            "context_length": CONTEXT, "input_patch_size": 4, "input_patch_stride": 4, "output_patch_size": 4,
            "quantiles": levels, "use_reg_token": true, "use_arcsinh": true, "max_output_patches": PASS / 4
        }
    });
    std::fs::write(path.join("config.json"), config.to_string()).expect("written");
}
