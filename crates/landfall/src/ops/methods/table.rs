//! The table of methods: arguments, parameters and the call of each. Where PyTorch has a default, it is the default here.

use super::parameters::{At, Several, Sizes};
use super::{Method, Parameter};
use crate::contract::{AttributeType, Graph, Value, op_attributes};
use crate::error::Error;
use crate::ops::{HeadsFirst, Interpolation, Labels, Visible, Windows};
use crate::values::{DType, Keep, Number, Rule, Shape, Spec};

/// What methods give, as a list.
trait Results {
    fn list(self) -> Vec<Value>;
}

impl Results for Value {
    fn list(self) -> Vec<Value> {
        vec![self]
    }
}

impl Results for (Value, Value) {
    fn list(self) -> Vec<Value> {
        vec![self.0, self.1]
    }
}

/// A method a row: its arguments as [`op_attributes!`] declares those of an op, its parameters with type, default and
/// documentation, and the call.
macro_rules! methods {
    ($(
        $name:ident($($arg:ident $(or $none:ident)? $(and $more:ident)?),*)
        $({ $($parameter:ident: $T:ty $(= $default:expr)? => $doc:literal;)* })?
        |$g:ident| $call:expr;
    )*) => { vec![$(Method {
        name: stringify!($name),
        arguments: op_attributes!(@arguments $($arg $(or $none)? $(and $more)?),*),
        parameters: &[$($(Parameter {
            name: stringify!($parameter),
            takes: <$T as AttributeType>::TAKES,
            choices: <$T as AttributeType>::CHOICES,
            axis_of: None,
            doc: $doc,
            default: methods!(@default $T $(, $default)?),
        }),*)?],
        known: &[$($(stringify!($parameter)),*)?],
        body: |call| {
            let $g = call.graph;
            let mut _place = 0..;
            $(let $arg = methods!(@argument call _place $(or $none)? $(and $more)?);)*
            $($(let $parameter: $T = call.parameter(stringify!($parameter))?;)*)?
            let results: Result<_, Error> = $call;
            results.map(Results::list)
        },
    }),*] };
    (@default $T:ty) => { None };
    (@default $T:ty, $default:expr) => { Some(|| <$T as AttributeType>::value(&$default)) };
    (@argument $call:ident $place:ident) => { $call.argument($place.next().unwrap_or(0))? };
    (@argument $call:ident $place:ident or none) => {
        $call.args.get($place.next().unwrap_or(0)).copied().flatten()
    };
    (@argument $call:ident $place:ident and more) => { $call.arguments($place.next().unwrap_or(0))? };
}

macro_rules! unary {
    ($($name:ident)*) => { methods! { $($name(x) |g| g.$name(x);)* } };
}

macro_rules! binary {
    ($($name:ident)*) => { methods! { $($name(lhs, rhs) |g| g.$name(lhs, rhs);)* } };
}

/// Reductions over axes, all of them where none are given, which are kept or not.
macro_rules! reductions {
    ($($name:ident $({ $parameter:ident: $T:ty = $default:expr => $doc:literal; })?)*) => { methods! { $(
        $name(x) {
            axes: Option<Several> = None => "The axes; all where none are given.";
            $($parameter: $T = $default => $doc;)?
            keep: bool = false => "Whether the axes stay in the shape, with size 1.";
        } |g| {
            let axes = match axes {
                Some(axes) => axes.indices(g.shape(x).rank()).map_err(|rule| refused(g, stringify!($name), x, rule))?,
                None => (0..g.shape(x).rank()).collect(),
            };
            match keep {
                true => g.$name(x, Keep(axes.as_slice()) $(, $parameter)?),
                false => g.$name(x, axes.as_slice() $(, $parameter)?),
            }
        };
    )* } };
}

/// All methods, in the order of their topics.
pub(super) fn all() -> Vec<Method> {
    let mut all = unary! {
        neg abs exp ln sqrt rsqrt recip tanh erf sign sin cos expm1 log1p floor ceil round sigmoid relu silu softplus
        copy square not is_nan is_finite mean_all transpose gelu hadamard
    };
    all.extend(binary! {
        add sub mul div maximum minimum pow rem equal not_equal less less_equal greater greater_equal and or matmul
    });
    all.extend(reductions! {
        sum mean max min prod any all norm logsumexp
        variance { correction: usize = 1 => "What is taken off the number of elements before dividing by it."; }
        standard_deviation { correction: usize = 1 => "What is taken off the number of elements before dividing by it."; }
    });
    all.extend(elementwise());
    all.extend(movement());
    all.extend(indexing());
    all.extend(layers());
    all
}

fn elementwise() -> Vec<Method> {
    methods! {
        affine(x) { mul: f64 = 1.0 => "Factor."; add: f64 = 0.0 => "Addend."; } |g| g.affine(x, mul, add);
        powf(x) { exponent: f64 => "The power."; } |g| g.powf(x, exponent);
        clamp(x) {
            low: f64 = f64::NEG_INFINITY => "The least result.";
            high: f64 = f64::INFINITY => "The greatest result.";
        } |g| g.clamp(x, low, high);
        cast(x) { dtype: DType => "The dtype of the result."; } |g| g.cast(x, dtype);
        leaky_relu(x) { slope: f64 = 0.01 => "The factor of negative numbers."; } |g| g.leaky_relu(x, slope);
        elu(x) { alpha: f64 = 1.0 => "The factor of the exponential."; } |g| g.elu(x, alpha);
        select(condition, lhs, rhs) |g| g.select(condition, lhs, rhs);
        masked_fill(x, mask) { value: Number => "The value where the mask holds."; } |g| g.masked_fill(x, mask, value);
        detach(x) |g| Ok(g.detach(x));
        softmax(x) { axis: At = At(-1) => "The axis that sums to 1."; } |g| g.softmax(x, axis);
        log_softmax(x) { axis: At = At(-1) => "The axis whose exponentials sum to 1."; } |g| g.log_softmax(x, axis);
        cosine_similarity(lhs, rhs) {
            axis: At = At(1) => "The axis of the vectors in the common shape.";
            eps: f64 = 1e-8 => "The least length that either is taken to have.";
        } |g| g.cosine_similarity(lhs, rhs, axis, eps);
        cumsum(x) { axis: At => "The axis."; } |g| g.cumsum(x, axis);
        matmul_add(lhs, rhs, bias) |g| g.matmul_add(lhs, rhs, bias);
        scalar(like) { value: Number => "The value."; } |g| g.scalar(like, value);
        fill() {
            shape: Shape => "The sizes.";
            value: Number => "The value of each element.";
            dtype: DType = DType::F32 => "The dtype.";
        } |g| g.fill(dtype, shape, value);
    }
}

fn movement() -> Vec<Method> {
    methods! {
        reshape(x) { shape: Sizes => "The sizes; one may be -1, and is what the elements leave for it."; }
            |g| g.reshape(x, shape.of(g.shape(x).elements()).map_err(|rule| refused(g, "reshape", x, rule))?);
        permute(x) { axes: Several => "The axis of `x` that each axis of the result is."; }
            |g| g.permute(x, &axes.indices(g.shape(x).rank()).map_err(|rule| refused(g, "permute", x, rule))?);
        broadcast_to(x) { shape: Shape => "The sizes."; } |g| g.broadcast_to(x, shape);
        slice(x) {
            axis: At => "The axis.";
            start: usize => "The first element.";
            len: usize => "The number of elements.";
        } |g| g.slice(x, axis, start, len);
        slice_step(x) {
            axis: At => "The axis.";
            start: usize => "The first element.";
            len: usize => "The number of elements.";
            step: usize => "The distance between two elements.";
        } |g| g.slice_step(x, axis, start, len, step);
        unfold(x) {
            size: usize => "Elements of a window.";
            step: usize => "Distance between the starts of two windows.";
        } |g| g.unfold(x, size, step);
        concat(values and more) { axis: At = At(0) => "The axis along which they lie."; }
            |g| g.concat(&values, axis);
        pad(x) {
            axis: At => "The axis that grows.";
            before: usize = 0 => "Zeros put before.";
            after: usize = 0 => "Zeros put after.";
        } |g| g.pad(x, axis, before, after);
        flip(x) { axis: At => "The axis."; } |g| g.flip(x, axis);
        roll(x) { shift: i64 => "Places that the elements move by."; axis: At => "The axis."; }
            |g| g.roll(x, axis, shift as isize);
        tile(x) { times: usize => "How often."; axis: At => "The axis."; } |g| g.tile(x, axis, times);
        repeat_interleave(x) { times: usize => "How often."; axis: At => "The axis."; }
            |g| g.repeat_interleave(x, axis, times);
        assign(target, value, ok) |g| g.assign(target, value, ok);
        assign_rows(target, rows, start) { axis: At => "The axis of the rows."; }
            |g| g.assign_rows(target, axis, rows, start);
    }
}

fn indexing() -> Vec<Method> {
    methods! {
        gather(x, index) {
            axis: At => "The axis.";
            rows: Option<bool> = None => "Whether an index names a whole row; where none is given, if its rank is not that of the table.";
        } |g| match rows.unwrap_or(g.shape(x).rank() != g.shape(index).rank()) {
            true => g.take(x, axis, index),
            false => g.gather(x, axis, index),
        };
        take(x, index) { axis: At => "The axis of the rows."; } |g| g.take(x, axis, index);
        embedding(table, ids) |g| g.embedding(table, ids);
        scatter(x, index, updates) { axis: At => "The axis of the rows."; } |g| g.scatter(x, axis, index, updates);
        scatter_add(into, index, source) {
            axis: At => "The axis.";
            rows: Option<bool> = None => "Whether an index names a whole row; where none is given, if its rank is not that of the table.";
        } |g| match rows.unwrap_or(g.shape(into).rank() != g.shape(index).rank()) {
            true => g.index_add(into, axis, index, source),
            false => g.scatter_add(into, axis, index, source),
        };
        index_add(into, index, source) { axis: At => "The axis of the rows."; }
            |g| g.index_add(into, axis, index, source);
        sort(x) {
            axis: At = At(-1) => "The axis.";
            descending: bool = false => "Whether the greatest comes first.";
        } |g| g.sort(x, axis, descending);
        argsort(x) {
            axis: At = At(-1) => "The axis.";
            descending: bool = false => "Whether the greatest comes first.";
        } |g| g.argsort(x, axis, descending);
        largest(x) { k: usize => "How many."; axis: At = At(-1) => "The axis."; } |g| g.largest(x, axis, k);
        argmax(x) { axis: At => "The axis."; } |g| g.argmax(x, axis);
        argmin(x) { axis: At => "The axis."; } |g| g.argmin(x, axis);
        arange() {
            count: usize => "How many numbers.";
            start: Number = Number::Int(0) => "The first number.";
            step: Number = Number::Int(1) => "The difference of neighbours.";
            dtype: DType = DType::I64 => "The dtype.";
        } |g| g.arange(dtype, start, step, count);
        linspace() {
            first: f64 => "The first number.";
            last: f64 => "The last number.";
            count: usize => "How many numbers.";
            dtype: DType = DType::F32 => "The dtype.";
        } |g| g.linspace(dtype, first, last, count);
        one_hot(ids) {
            classes: usize => "The size of the last axis.";
            dtype: DType = DType::I64 => "The dtype.";
        } |g| g.one_hot(ids, classes, dtype);
        lower_triangle() {
            rows: usize => "The number of rows.";
            columns: usize => "The number of columns.";
            diagonal: i64 = 0 => "How many columns behind the diagonal are in it.";
        } |g| g.lower_triangle(rows, columns, diagonal);
        eye() { n: usize => "Rows and columns."; dtype: DType = DType::F32 => "The dtype."; } |g| g.eye(dtype, n);
        normal(cursor) {
            spec: Spec => "Dtype and shape of the result.";
            stream: u32 = 0 => "Which numbers: calls with the same stream draw the same.";
        } |g| g.normal(spec, stream, cursor);
    }
}

fn layers() -> Vec<Method> {
    methods! {
        attend(q, k, v, mask or none, lengths or none) {
            causal: bool = false => "Whether a query sees no key behind its own place.";
        } |g| g.attend(q, k, v, Visible { causal, mask, lengths });
        scaled_dot_product_attention(query, key, value, attn_mask or none) {
            is_causal: bool = false => "Whether query i sees the keys up to key i.";
            scale: Option<f64> = None => "Factor of the products; 1/√e where none is given.";
            enable_gqa: bool = false => "Whether a key head may be read by several query heads.";
        } |g| {
            let scores = HeadsFirst { mask: attn_mask, causal: is_causal, scale, grouped: enable_gqa };
            g.scaled_dot_product_attention(query, key, value, scores)
        };
        conv1d(x, weight, bias or none) {
            stride: usize = 1 => "Distance between the starts of two windows.";
            padding: usize = 0 => "Zeros put before and after the axis.";
            dilation: usize = 1 => "Distance between two elements of a window.";
            groups: usize = 1 => "Groups of channels, each of which reads its own.";
        } |g| {
            let windows = Windows { size: g.shape(weight).last(), stride, padding, dilation };
            g.conv1d(x, weight, bias, windows, groups)
        };
        max_pool(x) {
            size: usize => "Elements of a window.";
            stride: Option<usize> = None => "Distance between the starts of two windows; the size where none is given.";
            padding: usize = 0 => "Elements put before and after the axis.";
            dilation: usize = 1 => "Distance between two elements of a window.";
        } |g| g.max_pool(x, Windows { size, stride: stride.unwrap_or(size), padding, dilation });
        mean_pool(x) {
            size: usize => "Elements of a window.";
            stride: Option<usize> = None => "Distance between the starts of two windows; the size where none is given.";
            padding: usize = 0 => "Elements put before and after the axis.";
            dilation: usize = 1 => "Distance between two elements of a window.";
        } |g| g.mean_pool(x, Windows { size, stride: stride.unwrap_or(size), padding, dilation });
        interpolate(x) {
            size: usize => "Elements of the result along the axis.";
            mode: Interpolation = Interpolation::Nearest => "What stands between two elements.";
            align_corners: bool = false => "Whether the first and the last element stay at the ends, of linear.";
            axis: At = At(-1) => "The axis.";
        } |g| g.interpolate(x, axis, size, mode, align_corners);
        layer_norm(x, weight, bias) { eps: f64 = 1e-5 => "Added to the variance."; }
            |g| g.layer_norm(x, weight, bias, eps);
        rms_norm(x, weight) {
            eps: Option<f64> = None => "Added to the mean of squares; the epsilon of the accumulation dtype where none is given.";
        } |g| g.rms_norm(x, weight, eps.unwrap_or_else(|| g.spec(x).dtype.accumulate().epsilon()));
        group_norm(x, weight, bias) {
            groups: usize => "The number of groups of channels.";
            eps: f64 = 1e-5 => "Added to the variance.";
        } |g| g.group_norm(x, groups, weight, bias, eps);
        rotary(x, positions) { base: f64 = 10_000.0 => "What the angles are powers of."; }
            |g| g.rotary(x, positions, base);
        swiglu(gate, x) |g| g.swiglu(gate, x);
        gru(x, h0, weight, bias) |g| g.gru(x, h0, weight, bias);
        lstm(x, h0, c0, weight, bias) |g| g.lstm(x, (h0, c0), weight, bias);
        cross_entropy(logits, labels, weights or none) {
            ignored: Option<i64> = None => "The label of rows that do not count.";
            smoothing: f64 = 0.0 => "The part of the probability that is spread evenly over all classes.";
        } |g| g.cross_entropy(logits, labels, Labels { weights, ignored, smoothing });
        binary_cross_entropy(logits, targets) |g| g.binary_cross_entropy(logits, targets);
        kl_divergence(log_q, p) |g| g.kl_divergence(log_q, p);
    }
}

/// The error of a parameter that does not fit `x`.
fn refused(g: &Graph, method: &'static str, x: Value, rule: Rule) -> Error {
    rule.of(method, &g.specs(&[x]), None, None).into()
}
