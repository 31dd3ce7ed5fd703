//! The methods of a graph by name: one line each.

use crate::{Failure, sizes};
use landfall::{DType, Graph, Keep, Labels, Value, Visible, Windows};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

/// The attribute of this name.
fn get<T: DeserializeOwned>(of: &Map<String, Json>, name: &str) -> Result<T, Failure> {
    let value = of.get(name).ok_or_else(|| format!("the attribute {name} is missing"))?;
    Ok(serde_json::from_value(value.clone()).map_err(|e| format!("{name}: {e}"))?)
}

fn dtype(of: &Map<String, Json>) -> Result<DType, Failure> {
    let name: String = get(of, "dtype")?;
    Ok(DType::ALL.iter().copied().find(|d| d.name() == name).ok_or_else(|| format!("no dtype {name}"))?)
}

fn windows(of: &Map<String, Json>) -> Result<Windows, Failure> {
    let [size, stride, padding, dilation] =
        ["size", "stride", "padding", "dilation"].map(|name| get(of, name));
    Ok(Windows { size: size?, stride: stride?, padding: padding?, dilation: dilation? })
}

/// Calls a method of a graph on arguments. The attributes have the names of the method's other parameters.
///
/// # Errors
/// An unknown method, an attribute that is missing, and what the method refuses.
pub(crate) fn call(g: &Graph, name: &str, x: &[Value], a: &Map<String, Json>) -> Result<Vec<Value>, Failure> {
    let arg = |i: usize| x.get(i).copied().ok_or_else(|| format!("{name} needs more than {i} arguments"));
    // Methods of one value, of two values, and of a value and axes, which may be kept.
    macro_rules! unary {
        ($method:ident) => {
            g.$method(arg(0)?)?
        };
    }
    macro_rules! binary {
        ($method:ident) => {
            g.$method(arg(0)?, arg(1)?)?
        };
    }
    macro_rules! reduced {
        ($method:ident $(, $more:expr)*) => {{
            let axes: Vec<isize> = get(a, "axes")?;
            match get(a, "keep")? {
                true => g.$method(arg(0)?, Keep(axes.as_slice()) $(, $more)*)?,
                false => g.$method(arg(0)?, axes.as_slice() $(, $more)*)?,
            }
        }};
    }
    let axis = || get::<isize>(a, "axis");
    let one = match name {
        "add" => binary!(add),
        "sub" => binary!(sub),
        "mul" => binary!(mul),
        "div" => binary!(div),
        "maximum" => binary!(maximum),
        "minimum" => binary!(minimum),
        "pow" => binary!(pow),
        "rem" => binary!(rem),
        "equal" => binary!(equal),
        "not_equal" => binary!(not_equal),
        "less" => binary!(less),
        "less_equal" => binary!(less_equal),
        "greater" => binary!(greater),
        "greater_equal" => binary!(greater_equal),
        "matmul" => binary!(matmul),
        "matmul_add" => g.matmul_add(arg(0)?, arg(1)?, arg(2)?)?,
        "select" => g.select(arg(0)?, arg(1)?, arg(2)?)?,
        "masked_fill" => g.masked_fill(arg(0)?, arg(1)?, get(a, "value")?)?,
        "square" => unary!(square),
        "not" => unary!(not),
        "and" => binary!(and),
        "or" => binary!(or),
        "is_nan" => unary!(is_nan),
        "is_finite" => unary!(is_finite),
        "mean_all" => unary!(mean_all),
        "transpose" => unary!(transpose),
        "powf" => g.powf(arg(0)?, get(a, "exponent")?)?,
        "elu" => g.elu(arg(0)?, get(a, "alpha")?)?,
        "detach" => g.add(arg(0)?, g.detach(arg(1)?))?,
        "sum" => reduced!(sum),
        "mean" => reduced!(mean),
        "max" => reduced!(max),
        "min" => reduced!(min),
        "prod" => reduced!(prod),
        "any" => reduced!(any),
        "all" => reduced!(all),
        "norm" => reduced!(norm),
        "logsumexp" => reduced!(logsumexp),
        "variance" => reduced!(variance, get(a, "correction")?),
        "standard_deviation" => reduced!(standard_deviation, get(a, "correction")?),
        "softmax" => g.softmax(arg(0)?, axis()?)?,
        "log_softmax" => g.log_softmax(arg(0)?, axis()?)?,
        "cosine_similarity" => g.cosine_similarity(arg(0)?, arg(1)?, axis()?, get(a, "eps")?)?,
        "attend" => {
            // Behind queries, keys and values the mask and the lengths, where there are any.
            let mask = if get(a, "mask")? { Some(arg(3)?) } else { None };
            let lengths = if get(a, "lengths")? { Some(arg(3 + usize::from(mask.is_some()))?) } else { None };
            g.attend(arg(0)?, arg(1)?, arg(2)?, Visible { causal: get(a, "causal")?, mask, lengths })?
        }
        "cumsum" => g.cumsum(arg(0)?, axis()?)?,
        "conv1d" => {
            let bias = if get(a, "biased")? { Some(arg(2)?) } else { None };
            g.conv1d(arg(0)?, arg(1)?, bias, windows(a)?, get(a, "groups")?)?
        }
        "max_pool" => g.max_pool(arg(0)?, windows(a)?)?,
        "mean_pool" => g.mean_pool(arg(0)?, windows(a)?)?,
        "rms_norm" => g.rms_norm(arg(0)?, arg(1)?, get(a, "eps")?)?,
        "group_norm" => g.group_norm(arg(0)?, get(a, "groups")?, arg(1)?, arg(2)?, get(a, "eps")?)?,
        "rotary" => g.rotary(arg(0)?, arg(1)?, get(a, "base")?)?,
        "swiglu" => binary!(swiglu),
        "hadamard" => unary!(hadamard),
        "cross_entropy" => {
            let weights = if get(a, "weights")? { Some(arg(2)?) } else { None };
            let options = Labels { weights, ignored: get(a, "ignored")?, smoothing: get(a, "smoothing")? };
            g.cross_entropy(arg(0)?, arg(1)?, options)?
        }
        "binary_cross_entropy" => binary!(binary_cross_entropy),
        "kl_divergence" => binary!(kl_divergence),
        "argmax" => g.argmax(arg(0)?, axis()?)?,
        "argmin" => g.argmin(arg(0)?, axis()?)?,
        "argsort" => g.argsort(arg(0)?, axis()?, get(a, "descending")?)?,
        "sort" => {
            let (values, indices) = g.sort(arg(0)?, axis()?, get(a, "descending")?)?;
            return Ok(vec![values, indices]);
        }
        "largest" => {
            let (values, indices) = g.largest(arg(0)?, axis()?, get(a, "k")?)?;
            return Ok(vec![values, indices]);
        }
        "gather" => g.gather(arg(0)?, axis()?, arg(1)?)?,
        "take" => g.take(arg(0)?, axis()?, arg(1)?)?,
        "embedding" => binary!(embedding),
        "scatter" => g.scatter(arg(0)?, axis()?, arg(1)?, arg(2)?)?,
        "scatter_add" => g.scatter_add(arg(0)?, axis()?, arg(1)?, arg(2)?)?,
        "index_add" => g.index_add(arg(0)?, axis()?, arg(1)?, arg(2)?)?,
        "one_hot" => g.one_hot(arg(0)?, get(a, "classes")?, dtype(a)?)?,
        "flip" => g.flip(arg(0)?, axis()?)?,
        "roll" => g.roll(arg(0)?, axis()?, get(a, "shift")?)?,
        "tile" => g.tile(arg(0)?, axis()?, get(a, "times")?)?,
        "repeat_interleave" => g.repeat_interleave(arg(0)?, axis()?, get(a, "times")?)?,
        "unfold" => g.unfold(arg(0)?, get(a, "size")?, get(a, "step")?)?,
        "reshape" => g.reshape(arg(0)?, sizes(&get::<Vec<usize>>(a, "shape")?)?)?,
        "permute" => g.permute(arg(0)?, &get::<Vec<usize>>(a, "axes")?)?,
        "broadcast_to" => g.broadcast_to(arg(0)?, sizes(&get::<Vec<usize>>(a, "shape")?)?)?,
        "slice" => g.slice(arg(0)?, get(a, "axis")?, get(a, "start")?, get(a, "len")?)?,
        "slice_step" => g.slice_step(arg(0)?, axis()?, get(a, "start")?, get(a, "len")?, get(a, "step")?)?,
        "scalar" => g.scalar(arg(0)?, get(a, "value")?)?,
        "fill" => {
            let shape: Vec<usize> = get(a, "shape")?;
            g.fill(dtype(a)?, sizes(&shape)?, get(a, "value")?)?
        }
        "arange" => g.arange(dtype(a)?, get(a, "start")?, get(a, "step")?, get(a, "count")?)?,
        "linspace" => g.linspace(dtype(a)?, get(a, "first")?, get(a, "last")?, get(a, "count")?)?,
        "eye" => g.eye(dtype(a)?, get(a, "n")?)?,
        "lower_triangle" => g.lower_triangle(get(a, "rows")?, get(a, "columns")?, get(a, "diagonal")?)?,
        _ => return Err(format!("no method {name}; add a line for it to methods.rs").into()),
    };
    Ok(vec![one])
}
