//! Nodes and constants of an ONNX graph, appended in order.

use super::proto::{Attribute, Dimension, Graph, Node, Tensor, TensorShape, TensorType, Type, ValueInfo};
use landfall::{DType, HostTensor, Spec};
use std::collections::HashMap;

/// A size of a value: fixed, or a multiple of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dim {
    /// This size.
    Fixed(usize),
    /// This many times the batch.
    Batch(usize),
}

/// What an ONNX tensor calls a dtype.
pub(super) fn data_type(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::BF16 => 16,
    }
}

/// Shape and dtype of an input or output.
pub(super) fn value_info(name: &str, dtype: DType, dims: &[Dim], doc: &str) -> ValueInfo {
    let dimension = |dim: &Dim| match *dim {
        Dim::Fixed(n) => Dimension { dim_value: Some(n as i64), dim_param: None },
        Dim::Batch(1) => Dimension { dim_value: None, dim_param: Some("batch".to_owned()) },
        Dim::Batch(n) => Dimension { dim_value: None, dim_param: Some(format!("{n}*batch")) },
    };
    let shape = TensorShape { dim: dims.iter().map(dimension).collect() };
    let tensor_type = TensorType { elem_type: data_type(dtype), shape: Some(shape) };
    let value_type = Some(Type { tensor_type: Some(tensor_type) });
    ValueInfo { name: name.to_owned(), value_type, doc_string: doc.to_owned() }
}

/// A value in words, such as `context double[batch, 336, 7]`.
pub(super) fn describe(name: &str, dtype: DType, dims: &[Dim]) -> String {
    let size = |dim: &Dim| match *dim {
        Dim::Fixed(n) => n.to_string(),
        Dim::Batch(1) => "batch".to_owned(),
        Dim::Batch(n) => format!("{n}*batch"),
    };
    let dtype = match dtype {
        DType::F64 => "double".to_owned(),
        DType::F32 => "float".to_owned(),
        DType::I64 => "int64".to_owned(),
        other @ (DType::BF16 | DType::F16 | DType::I32 | DType::U8 | DType::Bool) => other.to_string(),
    };
    format!("{name} {dtype}[{}]", dims.iter().map(size).collect::<Vec<_>>().join(", "))
}

/// A graph that grows.
pub(super) struct Writer {
    pub(super) graph: Graph,
    /// How many names begin with each text.
    taken: HashMap<String, usize>,
    /// Constants that are there already, by their bytes.
    constants: HashMap<(i32, Vec<i64>, Vec<u8>), String>,
    /// The input whose first size is the batch.
    batched: String,
    /// Multiples of the batch, as tensors of one element.
    multiples: HashMap<usize, String>,
}

impl Writer {
    /// An empty graph; the first axis of the input `batched` is the batch.
    pub(super) fn new(name: &str, batched: &str) -> Self {
        Self {
            graph: Graph { name: name.to_owned(), ..Graph::default() },
            taken: HashMap::new(),
            constants: HashMap::new(),
            batched: batched.to_owned(),
            multiples: HashMap::new(),
        }
    }

    /// A name that nothing else has.
    pub(super) fn fresh(&mut self, wish: &str) -> String {
        let mut name = wish.to_owned();
        loop {
            let count = self.taken.entry(wish.to_owned()).or_default();
            *count += 1;
            if *count > 1 {
                name = format!("{wish}_{count}");
            }
            if name == wish || self.taken.insert(name.clone(), 1).is_none() {
                return name;
            }
        }
    }

    /// Appends a node with one output; the output's name.
    pub(super) fn node(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
        wish: &str,
    ) -> String {
        let output = self.fresh(wish);
        self.node_into(op_type, inputs, attributes, vec![output.clone()]);
        output
    }

    /// Appends a node with these outputs.
    pub(super) fn node_into(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        attribute: Vec<Attribute>,
        output: Vec<String>,
    ) {
        let input = inputs.iter().map(|&i| i.to_owned()).collect();
        let name = output.first().cloned().unwrap_or_default();
        self.graph.node.push(Node { input, output, name, op_type: op_type.to_owned(), attribute });
    }

    /// A constant tensor under a name of its own.
    pub(super) fn initializer(&mut self, wish: &str, value: &HostTensor) -> String {
        let name = self.fresh(wish);
        self.graph.initializer.push(Tensor {
            dims: value.spec.shape.dims().iter().map(|&d| d as i64).collect(),
            data_type: data_type(value.spec.dtype),
            name: name.clone(),
            raw_data: Some(value.to_bytes()),
        });
        name
    }

    /// A small constant; of equal ones there is one.
    pub(super) fn constant(&mut self, value: &HostTensor) -> String {
        let dims = value.spec.shape.dims().iter().map(|&d| d as i64).collect();
        let key = (data_type(value.spec.dtype), dims, value.to_bytes());
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        let name = self.initializer("constant", value);
        self.constants.insert(key, name.clone());
        name
    }

    /// A number as a tensor without axes.
    pub(super) fn scalar(&mut self, dtype: DType, value: f64) -> String {
        let spec = Spec::new(dtype, landfall::Shape::SCALAR);
        self.constant(&HostTensor::from_fn(spec, |_| value))
    }

    /// Whole numbers as a tensor of one axis.
    pub(super) fn list(&mut self, values: &[i64]) -> String {
        let spec = Spec::new(DType::I64, [values.len()]);
        self.constant(&HostTensor::from_fn(spec, |i| values[i] as f64))
    }

    /// A shape as a tensor.
    pub(super) fn shape(&mut self, dims: &[Dim]) -> String {
        let fixed = |dim: &Dim| match *dim {
            Dim::Fixed(n) => Some(n as i64),
            Dim::Batch(_) => None,
        };
        if let Some(all) = dims.iter().map(fixed).collect::<Option<Vec<i64>>>() {
            return self.list(&all);
        }
        let parts: Vec<String> = dims
            .iter()
            .map(|dim| match *dim {
                Dim::Fixed(n) => self.list(&[n as i64]),
                Dim::Batch(n) => self.multiple(n),
            })
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.node("Concat", &parts, vec![Attribute::int("axis", 0)], "shape")
    }

    /// The shape for a reshape to these sizes, of which one may be left to be found.
    pub(super) fn target(&mut self, dims: &[Dim]) -> String {
        let batched = dims.iter().filter(|dim| matches!(dim, Dim::Batch(_))).count();
        if batched > 1 {
            return self.shape(dims);
        }
        let size = |dim: &Dim| match *dim {
            Dim::Fixed(n) => n as i64,
            Dim::Batch(_) => -1,
        };
        self.list(&dims.iter().map(size).collect::<Vec<_>>())
    }

    /// So many times the batch, as a tensor of one element.
    fn multiple(&mut self, times: usize) -> String {
        if let Some(name) = self.multiples.get(&times) {
            return name.clone();
        }
        let name = if times == 1 {
            let batched = self.batched.clone();
            let range = vec![Attribute::int("start", 0), Attribute::int("end", 1)];
            self.node("Shape", &[&batched], range, "batch")
        } else {
            let (batch, factor) = (self.multiple(1), self.list(&[times as i64]));
            self.node("Mul", &[&batch, &factor], Vec::new(), "batch")
        };
        self.multiples.insert(times, name.clone());
        name
    }
}
