//! Evaluates one op or one method of [`Graph`] after another, for `bench/peers/parity.py`, which compares them with PyTorch.
//!
//! A request is a line of JSON, and behind it the bytes of its tensors, row-major: of `args`, then of `cotangents`. The
//! answer is a line of JSON, and behind it the bytes of the outputs, then of the gradients.
//!
//! ```text
//! {"name": "softmax", "method": true, "attributes": {"axis": 1},
//!  "args": [{"dtype": "f64", "shape": [3, 2], "views": [{"permute": [1, 0]}], "state": false}],
//!  "gradients": [0], "cotangents": [{"dtype": "f64", "shape": [2, 3]}]}
//! {"outputs": [{"dtype": "f64", "shape": [2, 3]}], "gradients": [{"dtype": "f64", "shape": [3, 2]}], "ops": ["softmax"]}
//! ```
//!
//! An argument is an input of a graph, or an entry of the state, which an op may update; the op takes it through its `views`. A
//! cotangent may be `null`: that output does not count. Gradients are those of the arguments before their views. `ops` are
//! the ops of a program with gradients. The request `{"list": true}` is answered by the ops of the table. What cannot be
//! evaluated is answered by `{"error": "..."}`.

use landfall::ops::{AttributeValue, Given, by_name, method, methods, named};
use landfall::{DType, Engine, Graph, HostTensor, Program, Shape, Spec, State, StateSpec, Value, grad};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

/// What a request may fail with.
type Failure = Box<dyn Error>;

/// What is to be evaluated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    list: bool,
    #[serde(default)]
    name: String,
    #[serde(default)]
    method: bool,
    #[serde(default)]
    attributes: Map<String, Json>,
    #[serde(default)]
    args: Vec<Argument>,
    #[serde(default)]
    gradients: Vec<usize>,
    #[serde(default)]
    cotangents: Vec<Option<Argument>>,
}

/// A tensor whose bytes follow.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Argument {
    dtype: String,
    shape: Vec<usize>,
    #[serde(default, skip_serializing)]
    views: Vec<View>,
    #[serde(default, skip_serializing)]
    state: bool,
}

/// A view that the op's argument is of the tensor.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum View {
    Permute(Vec<usize>),
    /// Axis, start, length and step.
    Slice(usize, usize, usize, usize),
    Broadcast(Vec<usize>),
}

impl Argument {
    fn spec(&self) -> Result<Spec, Failure> {
        let dtype = DType::ALL.iter().copied().find(|d| d.name() == self.dtype);
        Ok(Spec::new(dtype.ok_or_else(|| format!("no dtype {}", self.dtype))?, sizes(&self.shape)?))
    }

    fn of(tensor: &HostTensor) -> Self {
        let dtype = tensor.spec.dtype.name().to_owned();
        Self { dtype, shape: tensor.dims().to_vec(), views: Vec::new(), state: false }
    }

    fn read(&self, input: &mut impl Read) -> Result<HostTensor, Failure> {
        let spec = self.spec()?;
        let mut bytes = vec![0; spec.bytes()];
        input.read_exact(&mut bytes)?;
        Ok(HostTensor::from_bytes(spec, &bytes)?)
    }
}

/// A shape of these sizes.
fn sizes(of: &[usize]) -> Result<Shape, Failure> {
    Ok(Shape::new(of).ok_or_else(|| format!("no shape has the sizes {of:?}"))?)
}

/// What a request is answered with.
struct Answer {
    outputs: Vec<HostTensor>,
    gradients: Vec<HostTensor>,
    ops: BTreeSet<String>,
}

fn main() -> Result<(), Failure> {
    let engine = Engine::cpu()?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let request: Request = serde_json::from_str(&line)?;
        line.clear();
        let args = request.args.iter().map(|a| a.read(&mut input)).collect::<Result<Vec<_>, _>>()?;
        let cotangents =
            request.cotangents.iter().map(|c| c.as_ref().map(|c| c.read(&mut input)).transpose());
        let cotangents = cotangents.collect::<Result<Vec<_>, _>>()?;
        if request.list {
            writeln!(
                output,
                "{}",
                json!({ "ops": named().iter().map(|named| named.op.name()).collect::<Vec<_>>() })
            )?;
        } else {
            answer(&mut output, evaluate(&engine, &request, &args, &cotangents))?;
        }
        output.flush()?;
    }
    Ok(())
}

fn answer(to: &mut impl Write, result: Result<Answer, Failure>) -> Result<(), Failure> {
    let found = match result {
        Ok(found) => found,
        Err(error) => return Ok(writeln!(to, "{}", json!({ "error": error.to_string() }))?),
    };
    let of = |tensors: &[HostTensor]| tensors.iter().map(Argument::of).collect::<Vec<_>>();
    let (outputs, gradients) = (of(&found.outputs), of(&found.gradients));
    writeln!(to, "{}", json!({ "outputs": outputs, "gradients": gradients, "ops": found.ops }))?;
    for tensor in found.outputs.iter().chain(&found.gradients) {
        to.write_all(&tensor.to_bytes())?;
    }
    Ok(())
}

fn evaluate(
    engine: &Engine,
    request: &Request,
    args: &[HostTensor],
    cotangents: &[Option<HostTensor>],
) -> Result<Answer, Failure> {
    let mut spec = StateSpec::new();
    let names: Vec<String> = (0..args.len()).map(|i| format!("arg {i}")).collect();
    let all = || request.args.iter().zip(&names).zip(args);
    for ((_, name), arg) in all().filter(|((a, _), _)| a.state) {
        spec.add(&format!("slab of {name}"), arg.spec.dtype, &[(name.clone(), arg.spec.shape)])?;
    }
    let spec = Arc::new(spec);
    let mut state = State::new(engine, &spec)?;
    let g = Graph::new(&spec);
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    for ((argument, name), arg) in all() {
        let value = match argument.state {
            true => g.entry(name)?,
            false => g.input(name, arg.spec.dtype, arg.spec.shape),
        };
        given.push(value);
        taken.push(argument.views.iter().try_fold(value, |x, view| viewed(&g, x, view))?);
    }
    let outputs = match request.method {
        true => call(&g, request, &taken)?,
        false => g.op_dyn(op(request)?, &taken)?,
    };
    let wrt: Vec<_> = request.gradients.iter().map(|&i| (names[i].clone(), given[i])).collect();
    let mut written = Vec::new();
    let mut gradients = Vec::new();
    if !wrt.is_empty() {
        let mut terms = Vec::new();
        for (i, (cotangent, &output)) in cotangents.iter().zip(&outputs).enumerate() {
            let Some(cotangent) = cotangent else { continue };
            let name = format!("cotangent {i}");
            let value = g.input(&name, cotangent.spec.dtype, cotangent.spec.shape);
            written.push((name, cotangent));
            terms.push(g.cast(g.sum(g.mul(output, value)?, landfall::All)?, DType::F64)?);
        }
        let first = terms.first().copied().ok_or("gradients without a cotangent")?;
        let loss = terms[1..].iter().try_fold(first, |sum, &term| g.add(sum, term))?;
        gradients = grad(&g, loss, &wrt)?;
    }
    let named = |kind: &str, values: &[Value]| -> Vec<String> {
        let name = |(i, &value): (usize, &Value)| {
            let name = format!("{kind} {i}");
            g.output(&name, value);
            name
        };
        values.iter().enumerate().map(name).collect()
    };
    let (outputs, gradients) = (named("output", &outputs), named("gradient", &gradients));
    let mut program = Program::compile(engine, &state, "parity", &g)?;
    for ((argument, name), arg) in all() {
        match argument.state {
            true => state.write_host(name, arg)?,
            false => write(&mut program, name, arg)?,
        }
    }
    for (name, cotangent) in written {
        write(&mut program, &name, cotangent)?;
    }
    program.run(&mut state)?;
    let read = |names: &[String]| names.iter().map(|n| program.read_host(n)).collect::<Result<Vec<_>, _>>();
    let (outputs, gradients) = (read(&outputs)?, read(&gradients)?);
    let mut ops = BTreeSet::new();
    if !gradients.is_empty() {
        ops.extend(program.ops().map(str::to_owned));
    }
    Ok(Answer { outputs, gradients, ops })
}

fn viewed(g: &Graph, x: Value, view: &View) -> Result<Value, landfall::Error> {
    match view {
        View::Permute(axes) => g.permute(x, axes),
        &View::Slice(axis, start, len, 1) => g.slice(x, axis, start, len),
        &View::Slice(axis, start, len, step) => g.slice_step(x, axis, start, len, step),
        View::Broadcast(shape) => g.broadcast_to(x, Shape::new(shape).unwrap_or(Shape::SCALAR)),
    }
}

/// The op with its attributes.
fn op(request: &Request) -> Result<Arc<dyn landfall::ops::Op>, Failure> {
    let values = request.attributes.iter().map(|(name, value)| Ok((name.as_str(), attribute(value)?)));
    Ok(by_name(&request.name, &values.collect::<Result<Vec<_>, Failure>>()?)?)
}

/// The results of a method. An attribute that is called as an argument that may be left out says whether it is given.
fn call(g: &Graph, request: &Request, values: &[Value]) -> Result<Vec<Value>, Failure> {
    if request.name == "detach" {
        // By itself it has no gradient to compare: the first argument is added.
        let &[x, y] = values else { return Err("detach is of the second of two values".into()) };
        return Ok(vec![g.add(x, g.detach(y))?]);
    }
    let found = methods().iter().find(|method| method.name == request.name);
    let optional = |name: &str| {
        let arguments = found.map_or(&[][..], |method| method.arguments);
        arguments.iter().any(|argument| argument.name == name && argument.given == Given::Optional)
    };
    let mut rest = values.iter().copied();
    let mut args = Vec::new();
    for argument in found.map_or(&[][..], |method| method.arguments) {
        let left_out = request.attributes.get(argument.name) == Some(&Json::Bool(false));
        args.push(if left_out { None } else { rest.next() });
    }
    args.extend(rest.map(Some));
    while args.last() == Some(&None) {
        _ = args.pop();
    }
    let given = request.attributes.iter().filter(|(name, _)| !optional(name));
    let given = given.map(|(name, value)| Ok((name.as_str(), attribute(value)?)));
    Ok(method(g, &request.name, &args, &given.collect::<Result<Vec<_>, Failure>>()?)?)
}

fn attribute(value: &Json) -> Result<AttributeValue, Failure> {
    let int = |v: &Json| v.as_i64().ok_or_else(|| format!("{v} is no integer"));
    Ok(match value {
        Json::Null => AttributeValue::None,
        Json::Bool(v) => AttributeValue::Bool(*v),
        Json::String(v) => AttributeValue::Text(v.clone()),
        Json::Array(all) => AttributeValue::Ints(all.iter().map(int).collect::<Result<_, _>>()?),
        Json::Number(v) if v.is_f64() => AttributeValue::Float(v.as_f64().unwrap_or(f64::NAN)),
        Json::Number(_) => AttributeValue::Int(int(value)?),
        Json::Object(_) => return Err("no attribute is an object".into()),
    })
}

/// Writes an input of any dtype.
fn write(program: &mut Program, name: &str, tensor: &HostTensor) -> Result<(), landfall::Error> {
    let data = || tensor.data.iter();
    match tensor.spec.dtype {
        DType::F64 => program.write(name, &tensor.data),
        DType::F32 => program.write(name, &data().map(|&x| x as f32).collect::<Vec<_>>()),
        DType::BF16 => program.write(name, &data().map(|&x| half::bf16::from_f64(x)).collect::<Vec<_>>()),
        DType::F16 => program.write(name, &data().map(|&x| half::f16::from_f64(x)).collect::<Vec<_>>()),
        DType::I32 => program.write(name, &data().map(|&x| x as i32).collect::<Vec<_>>()),
        DType::I64 => program.write(name, &(0..tensor.data.len()).map(|i| tensor.int(i)).collect::<Vec<_>>()),
        DType::U8 | DType::Bool => program.write(name, &data().map(|&x| x as u8).collect::<Vec<_>>()),
    }
}
