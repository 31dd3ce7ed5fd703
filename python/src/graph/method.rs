//! Methods of a value by name: those of the engine's table, as attributes of the class.

use super::beside::{Traced, default_dtype, no_operand};
use super::trace::Step;
use super::value::Value;
use crate::attribute;
use crate::error::{Class, text};
use crate::keyword;
use landfall::ops::{Argument, AttributeType, AttributeValue, Given, Method, Parameter, methods, plain};
use landfall::{DType, Spec};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Names of PyTorch for methods that are the same.
const OTHER_NAMES: &[(&str, &str)] = &[("log", "ln")];

/// Makes the methods of the table attributes of the class `Value`, but those that it has by itself.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<Value>();
    let own: Vec<String> = class.dir()?.extract()?;
    let others = OTHER_NAMES.iter().filter_map(|(name, of)| {
        methods().iter().find(|method| method.name == *of).map(|method| (*name, method))
    });
    for (name, method) in methods().iter().map(|method| (method.name, method)).chain(others) {
        if !own.iter().any(|own| own == name) {
            class.setattr(name, Bound::new(py, ValueMethod { name, method })?)?;
        }
    }
    Ok(())
}

// A method of the class: `Value.softmax`. The class has no docstring of its own: it would hide those of its objects.
#[pyclass(frozen, module = "landfall", name = "ValueMethod")]
struct ValueMethod {
    name: &'static str,
    method: &'static Method,
}

#[pymethods]
impl ValueMethod {
    /// The method of a value, or this one of the class.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        _class: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Ok(value) = value.cast::<Value>() else { return Ok(slf.clone().into_any()) };
        let Self { name, method } = *slf.get();
        Ok(Bound::new(slf.py(), BoundMethod { value: value.get().clone(), name, method })?.into_any())
    }

    /// The value first, then what its method takes.
    #[pyo3(signature = (*args, **keywords))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let first = args.iter().next();
        let Some(Ok(value)) = first.as_ref().map(|first| first.cast::<Value>()) else {
            let what = first.map_or_else(|| "nothing".to_owned(), |first| text(&first));
            return Err(Class::Argument.error(
                args.py(),
                format!("Value.{} takes a value of a traced function first, not {what}", self.name),
            ));
        };
        call(value.get(), self.method, &args.get_slice(1, args.len()), keywords)
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.name
    }

    #[getter]
    fn __qualname__(&self) -> String {
        format!("Value.{}", self.name)
    }

    #[getter]
    fn __doc__(&self) -> String {
        doc(self.method)
    }

    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        signature(py, self.method, true)
    }

    /// The types of the arguments by name, and of the result, for stubs.
    #[getter]
    fn _annotations(&self) -> Vec<(&'static str, String)> {
        let optional = |argument: &Argument| matches!(argument.given, Given::Optional);
        let arguments = taken(self.method).map(|argument| {
            let optional = if optional(argument) { " | None" } else { "" };
            (argument.name, format!("Operand{optional}"))
        });
        let parameters = self.method.parameters.iter().map(|p| (p.name, attribute::annotation(p)));
        arguments.chain(parameters).collect()
    }

    fn __repr__(&self) -> String {
        format!("<method {} of landfall.Value>", self.name)
    }
}

// A method of one value: `x.softmax`.
#[pyclass(frozen, module = "landfall", name = "Method")]
struct BoundMethod {
    value: Value,
    name: &'static str,
    method: &'static Method,
}

#[pymethods]
impl BoundMethod {
    /// Values by position, then parameters; both by keyword too.
    #[pyo3(signature = (*args, **keywords))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call(&self.value, self.method, args, keywords)
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.name
    }

    #[getter]
    fn __qualname__(&self) -> String {
        format!("Value.{}", self.name)
    }

    #[getter]
    fn __doc__(&self) -> String {
        doc(self.method)
    }

    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        signature(py, self.method, false)
    }

    #[getter]
    fn __self__(&self) -> Value {
        self.value.clone()
    }

    fn __repr__(&self) -> String {
        format!("<method {} of a landfall.Value>", self.name)
    }
}

/// The values that a method takes beside the value whose method it is.
fn taken(method: &'static Method) -> impl Iterator<Item = &'static Argument> {
    let many = many(method);
    method.arguments.iter().skip(usize::from(!many))
}

/// Whether a method takes any number of values.
fn many(method: &Method) -> bool {
    method.arguments.last().is_some_and(|a| matches!(a.given, Given::Many { .. }))
}

/// Whether a parameter is the only one and takes several numbers, which then may stand one by one: `x.reshape(2, 3)`.
fn spreads(method: &Method) -> bool {
    matches!(method.parameters, [only] if only.several() && only.default.is_none())
}

/// What a method computes, then what it takes.
fn doc(method: &'static Method) -> String {
    let mut lines = vec![plain(&method.doc())];
    let mut section = |title: &str, rows: Vec<String>| {
        if !rows.is_empty() {
            lines.push(format!("\n{title}:\n    {}", rows.join("\n    ")));
        }
    };
    let given = |argument: &Argument| match argument.given {
        Given::Many { .. } => ": values or arrays, one by one or as one list",
        Given::Optional => ": a value, an array or a number, or None",
        Given::Always | Given::If { .. } => ": a value, an array or a number",
    };
    let own =
        method.arguments.first().filter(|_| !many(method)).map(|a| format!("{}: the value itself", a.name));
    section(
        "Values",
        own.into_iter().chain(taken(method).map(|a| format!("{}{}", a.name, given(a)))).collect(),
    );
    let row = |p: &Parameter| {
        let counts = if p.takes.starts_with("an axis") { ", negative from the end" } else { "" };
        let default = match p.default() {
            None => ", which must be given".to_owned(),
            Some(AttributeValue::None) if p.several() => ", by default all".to_owned(),
            Some(value) => format!(", by default {value}"),
        };
        format!("{}: {}{counts}{default}. {}", p.name, p.accepts(), p.doc)
    };
    section("Parameters", method.parameters.iter().map(row).collect());
    lines.join("\n")
}

/// The signature, with the value itself or without.
fn signature<'py>(py: Python<'py>, method: &'static Method, with_self: bool) -> PyResult<Bound<'py, PyAny>> {
    let inspect = py.import("inspect")?;
    let (parameter, kind) = (inspect.getattr("Parameter")?, inspect.getattr("Parameter")?);
    let parameters = PyList::empty(py);
    let add = |name: &str, by: &str, default: Option<Bound<'py, PyAny>>| {
        let keywords = PyDict::new(py);
        if let Some(default) = default {
            keywords.set_item("default", default)?;
        }
        parameters.append(parameter.call((name, kind.getattr(by)?), Some(&keywords))?)
    };
    if with_self {
        add("self", "POSITIONAL_ONLY", None)?;
    }
    let mut optional = false;
    for argument in taken(method) {
        match argument.given {
            Given::Many { .. } => add(argument.name, "VAR_POSITIONAL", None)?,
            Given::Optional => {
                optional = true;
                add(argument.name, "POSITIONAL_OR_KEYWORD", Some(py.None().into_bound(py)))?;
            }
            Given::Always | Given::If { .. } => add(argument.name, "POSITIONAL_OR_KEYWORD", None)?,
        }
    }
    for p in method.parameters {
        let default = p.default().map(|value| attribute::object(py, &value)).transpose()?;
        let by_keyword = many(method) || (optional && default.is_none());
        optional |= default.is_some();
        let by = match () {
            () if spreads(method) => "VAR_POSITIONAL",
            () if by_keyword => "KEYWORD_ONLY",
            () => "POSITIONAL_OR_KEYWORD",
        };
        add(p.name, by, default)?;
    }
    inspect.getattr("Signature")?.call1((parameters,))
}

/// A call of a method of a value.
fn call<'py>(
    value: &Value,
    method: &'static Method,
    args: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, name, many) = (args.py(), method.name, many(method));
    let refused = |why: String| Err(Class::Argument.error(py, format!("{name}: {why}")));
    let shown: Vec<&str> =
        taken(method).map(|a| a.name).chain(method.parameters.iter().map(|p| p.name)).collect();
    let takes = if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") };
    let mut values: Vec<Option<Traced>> = Vec::new();
    if !method.arguments.is_empty() {
        values.push(Some(Traced::Value(value.number)));
    }
    let mut given: Vec<(&'static str, AttributeValue)> = Vec::new();
    let args = if many { keyword::spread(args)? } else { args.iter().collect() };
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let takes_value = many || values.len() < method.arguments.len();
        if takes_value && !many && arg.is_none() {
            values.push(None);
            at += 1;
            continue;
        }
        // Among any number of values a number is no value: it is the axis.
        let operand = if takes_value { value.operand(arg)? } else { None };
        if let Some(operand) = operand.filter(|operand| !many || matches!(operand, Traced::Value(_))) {
            values.push(Some(operand));
            at += 1;
            continue;
        }
        let argument = method.arguments.get(values.len()).or(method.arguments.last()).filter(|_| takes_value);
        if let Some(argument) = argument
            && (argument.given == Given::Always || arg.hasattr("__dlpack__")?)
        {
            return Err(no_operand(py, &format!("{name}: {}", argument.name), arg));
        }
        let Some(parameter) = method.parameters.get(given.len()) else {
            return refused(format!("{} is one argument too many; it takes {takes}", text(arg)));
        };
        let run: Vec<i64> = args[at..].iter().map_while(keyword::integer).collect();
        if spreads(method) && args.len() > at + 1 {
            if run.len() < args.len() - at {
                let all: Vec<String> = args[at..].iter().map(text).collect();
                let own = parameter.name;
                return refused(format!(
                    "{own} is ({}); it must be integers, one by one or as one tuple",
                    all.join(", ")
                ));
            }
            at = args.len();
            given.push((parameter.name, AttributeValue::Ints(run)));
            continue;
        }
        let next = method.parameters.get(given.len() + 1);
        if parameter.several() && run.len() > 1 && next.is_none_or(|next| next.takes == bool::TAKES) {
            let numbers: Vec<String> = run.iter().map(i64::to_string).collect();
            let (numbers, own) = (numbers.join(", "), parameter.name);
            return refused(format!("{own} takes several numbers as one tuple: {own}=({numbers})"));
        }
        given.push(parameter_of(name, parameter, arg)?);
        at += 1;
    }
    for (keyword, object) in keywords.into_iter().flat_map(|k| k.iter()) {
        let keyword: String = keyword.extract()?;
        let twice = || refused(format!("{keyword} was given twice, by position and by name"));
        if let Some(place) = method.arguments.iter().position(|a| a.name == keyword && !many) {
            if place == 0 {
                return refused(format!("{keyword} is the value whose method it is; it takes {takes}"));
            }
            if object.is_none() {
                continue;
            }
            let Some(operand) = value.operand(&object)? else {
                return Err(no_operand(py, &format!("{name}: {keyword}"), &object));
            };
            values.resize(values.len().max(place + 1), None);
            if values[place].replace(operand).is_some() {
                return twice();
            }
            continue;
        }
        let Some(parameter) = method.parameters.iter().find(|p| p.name == keyword) else {
            return Err(Class::Argument.error(py, keyword::unknown(py, name, &keyword, &shown)?));
        };
        if given.iter().any(|(own, _)| *own == parameter.name) {
            return twice();
        }
        given.push(parameter_of(name, parameter, &object)?);
    }
    if let [only] = method.parameters
        && spreads(method)
        && given.is_empty()
    {
        given.push((only.name, AttributeValue::Ints(Vec::new())));
    }
    placed(py, value, method, &values, given)
}

/// Records a call, when what it takes is known.
fn placed<'py>(
    py: Python<'py>,
    value: &Value,
    method: &'static Method,
    values: &[Option<Traced>],
    given: Vec<(&'static str, AttributeValue)>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = method.name;
    let missing = |(place, argument): &(usize, &Argument)| {
        argument.given == Given::Always && values.get(*place).copied().flatten().is_none()
    };
    if let Some((_, argument)) = method.arguments.iter().enumerate().find(missing) {
        let names: Vec<&str> = taken(method).map(|argument| argument.name).collect();
        let why = format!("{name}: {} is missing; the method takes {}", argument.name, names.join(", "));
        return Err(Class::Argument.error(py, why));
    }
    let dtype = number_dtype(value, method, values);
    let what =
        |place: usize| format!("{name}: {}", method.arguments.get(place).map_or("a value", |a| a.name));
    let args = values
        .iter()
        .enumerate()
        .map(|(i, operand)| operand.map(|operand| value.placed(py, operand, dtype, &what(i))).transpose())
        .collect::<PyResult<Vec<_>>>()?;
    match args[..] {
        [Some(_), Some(rhs)] if name == "matmul" => value.method(py, name, &[rhs], given),
        _ => value.add(py, Step::Method { name, args, given }),
    }
}

/// The dtype of the numbers among the values: the value's own, but a condition does not say what it chooses among.
fn number_dtype(value: &Value, method: &Method, values: &[Option<Traced>]) -> DType {
    if method.name != "select" {
        return value.spec().dtype;
    }
    let choices = || values.iter().skip(1).flatten();
    let of =
        choices().find_map(|choice| if let Traced::Value(number) = choice { Some(*number) } else { None });
    let numbers =
        choices().filter_map(|c| if let Traced::Number((number, _)) = c { Some(*number) } else { None });
    of.map_or_else(|| default_dtype(numbers), |number| value.spec_of(number).dtype)
}

/// The value of a parameter.
fn parameter_of(
    method: &str,
    parameter: &'static Parameter,
    object: &Bound<'_, PyAny>,
) -> PyResult<(&'static str, AttributeValue)> {
    // A class may be a dtype.
    let is_dtype = parameter.takes == DType::TAKES || parameter.takes == Spec::TAKES;
    let call = if is_dtype { String::new() } else { keyword::uncalled(object) };
    if !call.is_empty() || object.is_instance_of::<Value>() {
        let kind = if call.is_empty() { "; a value has no contents".to_owned() } else { call };
        let (name, accepts) = (parameter.name, parameter.accepts());
        let why = format!("{method}: {name} is {}; it must be {accepts}{kind}", text(object));
        return Err(Class::Argument.error(object.py(), why));
    }
    Ok((parameter.name, attribute::value(parameter, object)?))
}
