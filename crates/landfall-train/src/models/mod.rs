//! Models: a constructor that names the parameters, and a forward pass.

mod columns;
mod configuration;
mod cross_asset;
mod dlinear;
mod layer;
mod list;
mod mlp;
mod model;
mod nbeats;
mod nlinear;
mod option;
mod patchtst;
mod regression;
mod revin;
mod sizes;
mod tide;
mod tsmixer;
mod window_regressor;
pub mod zero_shot;

use columns::windows;
pub use columns::{Columns, Inputs};
pub use configuration::{Configuration, Predicts, Reads};
pub use cross_asset::{CrossAsset, CrossAssetConfig};
pub use dlinear::{DLinear, DLinearConfig};
use layer::Layer;
pub use list::{ModelConfig, ModelKind};
pub use model::Model;
pub use nbeats::{NBeats, NBeatsConfig};
pub use nlinear::{NLinear, NLinearConfig};
pub use option::{Declared, ModelOption, OptionError, OptionKind, OptionType, OptionValue};
pub use patchtst::{Approximation, DropoutMasks, Order, PatchTst, PatchTstConfig};
pub use sizes::MOST_LAYERS;
use sizes::{layers_fit, positive, rate};
pub use tide::{Tide, TideConfig};
pub use tsmixer::{TsMixer, TsMixerConfig};
pub use window_regressor::{WindowRegressor, WindowRegressorConfig};
