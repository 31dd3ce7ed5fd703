//! The methods of a graph by name, for callers that have no type of them: other languages, and files.

mod parameters;
mod table;
#[cfg(test)]
mod tests;

use super::by_name::nearest;
use crate::contract::{Argument, Attribute, AttributeType, AttributeValue, Graph, Value, argument};
use crate::error::Error;
use crate::values::{OpError, Rule};
use std::fmt;
use std::panic::Location;
use std::sync::LazyLock;

/// A method of [`Graph`] that gives values, and how it is called by name.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// The values that it takes, in order.
    pub arguments: &'static [Argument],
    /// What else it takes, in order.
    pub parameters: &'static [Parameter],
    /// The names of the parameters.
    known: &'static [&'static str],
    body: fn(&Call<'_>) -> Result<Vec<Value>, Error>,
}

/// A parameter of a method that is no value of the graph.
pub type Parameter = Attribute;

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, arguments, parameters, .. } = self;
        f.debug_struct("Method")
            .field("name", name)
            .field("arguments", arguments)
            .field("parameters", parameters)
            .finish_non_exhaustive()
    }
}

/// The sources in which the methods stand with their documentation, each once.
const SOURCES: &[&str] = &[
    include_str!("../contract/build.rs"),
    include_str!("attention/heads_first.rs"),
    include_str!("attention/masked.rs"),
    include_str!("build.rs"),
    include_str!("composite.rs"),
    include_str!("elementwise/clamp.rs"),
    include_str!("indexing/gather.rs"),
    include_str!("indexing/iota.rs"),
    include_str!("indexing/scatter_add.rs"),
    include_str!("indexing/sort.rs"),
    include_str!("layers.rs"),
    include_str!("losses.rs"),
    include_str!("movement/concat.rs"),
    include_str!("recurrent/recurrence.rs"),
    include_str!("reduce/cumsum.rs"),
    include_str!("step/assign.rs"),
    include_str!("step/assign_rows.rs"),
];

impl Method {
    /// What it computes: the documentation of the Rust method, read from the source, in Markdown with links of Rust.
    #[must_use]
    pub fn doc(&self) -> String {
        SOURCES.iter().find_map(|source| doc_of(source, self.name)).unwrap_or_default()
    }
}

/// The documentation above a method in the blocks `impl Graph` of a source, also of one that a macro makes of an op.
fn doc_of(source: &str, name: &str) -> Option<String> {
    let heads = ["(", "<"].map(|behind| format!("pub fn {name}{behind}"));
    let made = format!("{name} = ops::");
    let lines: Vec<&str> = source.lines().collect();
    let mut inside = false;
    let at = lines.iter().position(|line| {
        inside = *line == "impl Graph {" || inside && *line != "}";
        let line = line.trim_start();
        inside && (line.starts_with(&made) || heads.iter().any(|head| line.starts_with(head)))
    })?;
    let above = lines[..at].iter().rev().map(|line| line.trim_start());
    let mut doc: Vec<&str> =
        above.skip_while(|line| line.starts_with("#[")).map_while(|line| line.strip_prefix("///")).collect();
    doc.reverse();
    Some(doc.iter().flat_map(|line| [*line, "\n"]).collect())
}

/// A call of a method.
struct Call<'a> {
    method: &'a Method,
    graph: &'a Graph,
    args: &'a [Option<Value>],
    given: &'a [(&'a str, AttributeValue)],
    at: &'static Location<'static>,
}

impl Call<'_> {
    fn refused(&self, rule: Rule) -> Error {
        let args: Vec<Value> = self.args.iter().flatten().copied().collect();
        rule.of(self.method.name, &self.graph.specs(&args), None, Some(self.at)).into()
    }

    fn checked(&self) -> Result<(), Error> {
        for (name, _) in self.given {
            if !self.method.known.contains(name) {
                let rule = Rule::AttributeName { name: (*name).to_owned(), known: self.method.known };
                return Err(self.refused(rule));
            }
        }
        argument::number(self.method.arguments.iter(), self.args.len()).map_err(|rule| self.refused(rule))
    }

    /// The argument at this place, which must be given.
    fn argument(&self, place: usize) -> Result<Value, Error> {
        // Behind the last stand more of its kind.
        let argument = self.method.arguments.get(place).or(self.method.arguments.last());
        let name = argument.map_or("", |argument| argument.name);
        let missing = || self.refused(Rule::Missing { name, takes: "a value" });
        self.args.get(place).copied().flatten().ok_or_else(missing)
    }

    /// The arguments from this place on.
    fn arguments(&self, place: usize) -> Result<Vec<Value>, Error> {
        (place..self.args.len()).map(|i| self.argument(i)).collect()
    }

    /// The parameter of this name.
    fn parameter<T: AttributeType>(&self, name: &'static str) -> Result<T, Error> {
        let parameter = self.method.parameters.iter().find(|p| p.name == name);
        let given = self.given.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| value.clone());
        let value = given
            .or_else(|| parameter.and_then(Parameter::default))
            .ok_or_else(|| self.refused(Rule::Missing { name, takes: T::TAKES }))?;
        T::from_value(&value).ok_or_else(|| {
            self.refused(Rule::AttributeValue {
                name,
                value: value.to_string(),
                takes: T::TAKES,
                choices: T::CHOICES,
            })
        })
    }
}

/// The methods of [`Graph`] that give values, by name.
///
/// ```
/// use landfall::ops::{AttributeValue, methods};
/// let softmax = methods().iter().find(|method| method.name == "softmax").unwrap();
/// assert_eq!(softmax.arguments[0].name, "x");
/// assert_eq!(softmax.parameters[0].default(), Some(AttributeValue::Int(-1)));
/// assert!(softmax.doc().contains("logsumexp"));
/// ```
#[must_use]
pub fn methods() -> &'static [Method] {
    static METHODS: LazyLock<Vec<Method>> = LazyLock::new(|| {
        let mut all = table::all();
        all.sort_by_key(|method| method.name);
        all
    });
    &METHODS
}

/// Calls the method of this name. `args` are its values in order, `None` for one that is left out; `given` are its
/// other parameters by name, those that are not given have their defaults.
///
/// ```
/// use landfall::ops::{AttributeValue, method};
/// use landfall::{DType, Graph, StateSpec};
/// let g = Graph::new(&std::sync::Arc::new(StateSpec::new()));
/// let x = g.input("x", DType::F32, [2, 3]);
/// let largest = method(&g, "largest", &[Some(x)], &[("k", AttributeValue::Int(2))])?;
/// assert_eq!((largest.len(), g.shape(largest[0]).dims()), (2, &[2, 2][..]));
/// let refused = method(&g, "largest", &[Some(x)], &[]).unwrap_err();
/// assert!(refused.to_string().contains("needs k, an integer from 0"));
/// # Ok::<(), landfall::Error>(())
/// ```
///
/// # Errors
/// [`Rule::OpName`] for an unknown method, with the nearest names; [`Rule::Arity`], [`Rule::Missing`],
/// [`Rule::AttributeName`] and [`Rule::AttributeValue`] for arguments and parameters that it does not take; what the
/// method refuses, with the caller's line.
#[track_caller]
pub fn method(
    graph: &Graph,
    name: &str,
    args: &[Option<Value>],
    given: &[(&str, AttributeValue)],
) -> Result<Vec<Value>, Error> {
    let at = Location::caller();
    let all = methods();
    let Ok(found) = all.binary_search_by_key(&name, |method| method.name) else {
        let nearest = nearest(name, all.iter().map(|method| method.name));
        let rule = Rule::OpName { kind: "method of a graph", name: name.to_owned(), nearest };
        return Err(rule.of("method", &[], None, Some(at)).into());
    };
    let call = Call { method: &all[found], graph, args, given, at };
    call.checked()?;
    (call.method.body)(&call).map_err(|error| {
        // The line of the table says nothing to the caller.
        if let Error::Op(refused) = error { Error::Op(OpError { at: Some(at), ..refused }) } else { error }
    })
}
