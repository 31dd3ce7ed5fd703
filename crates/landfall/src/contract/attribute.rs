//! Declarations of ops: arguments and attributes, once, with types, defaults and documentation.

use super::Argument;
use crate::values::{DType, Number, Precision, Rule, Shape, Spec};
use std::fmt;

/// One declared attribute of an op.
#[derive(Debug, Clone, Copy)]
pub struct Attribute {
    /// The name of the field.
    pub name: &'static str,
    /// The accepted values, as text for documentation and errors.
    pub takes: &'static str,
    /// The allowed names, if it is an enumeration.
    pub choices: &'static [&'static str],
    /// Of an axis, or several: the argument whose axes they are, or else the attribute that has a shape.
    pub axis_of: Option<&'static str>,
    /// The value in a call by name that leaves it out; `None` where it must be given. Of an axis as a caller counts it: negative
    /// from the end, [`AttributeValue::None`] for all.
    pub default: Option<fn() -> AttributeValue>,
    /// Its documentation.
    pub doc: &'static str,
}

impl Attribute {
    /// The value in a call by name that leaves it out; `None` where it must be given.
    #[must_use]
    pub fn default(&self) -> Option<AttributeValue> {
        self.default.map(|value| value())
    }

    /// Whether it is several numbers: axes or sizes.
    #[must_use]
    pub fn several(&self) -> bool {
        [AXES, SEVERAL_AXES, SIZES, Shape::TAKES].contains(&self.takes)
    }

    /// The accepted values, as text for a person: the names of an enumeration, or of what it is an axis.
    #[must_use]
    pub fn accepts(&self) -> String {
        match (self.axis_of, self.choices) {
            (Some(of), _) if self.takes == AXES => format!("{AXES} of {of}"),
            (Some(of), _) => format!("an axis of {of}"),
            (None, []) => self.takes.to_owned(),
            (None, choices) => choices.join(", "),
        }
    }
}

/// What an attribute takes that names several axes.
pub(crate) const AXES: &str = "axes";

/// What a parameter of a method takes that names an axis or several.
pub(crate) const SEVERAL_AXES: &str = "an axis or several";

/// What a parameter of a method takes that names sizes, of which the elements leave one.
pub(crate) const SIZES: &str = "sizes, of which one may be -1";

/// The value of an attribute of any type.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// Not given.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A name.
    Text(String),
    /// Axes or sizes.
    Ints(Vec<i64>),
}

impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Bool(v) => write!(f, "{v}"),
            Self::Int(v) => write!(f, "{v}"),
            // The shortest form that reads back exactly, and never as an integer.
            Self::Float(v) => write!(f, "{v:?}"),
            Self::Text(v) => f.write_str(v),
            Self::Ints(v) => write!(f, "{v:?}"),
        }
    }
}

macro_rules! from {
    ($($T:ty => $Kind:ident $of:expr;)*) => { $(
        impl From<$T> for AttributeValue {
            fn from(value: $T) -> Self {
                let of: fn($T) -> _ = $of;
                Self::$Kind(of(value))
            }
        }
    )* };
}
from! {
    bool => Bool |v| v;
    i64 => Int |v| v;
    f64 => Float |v| v;
    &str => Text |v| v.to_owned();
    Vec<i64> => Ints |v| v;
}

/// A type that an attribute can have.
pub trait AttributeType: Sized {
    /// The accepted values, as text.
    const TAKES: &'static str;
    /// The allowed names, if it is an enumeration.
    const CHOICES: &'static [&'static str] = &[];
    /// Converts to an attribute value.
    fn value(&self) -> AttributeValue;
    /// The name of the value, of a truth value and of an enumeration.
    fn choice(&self) -> Option<&'static str> {
        None
    }
    /// Converts back; `None` if the value is not of this type.
    fn from_value(value: &AttributeValue) -> Option<Self>;
}

impl AttributeType for bool {
    const TAKES: &'static str = "true or false";
    fn value(&self) -> AttributeValue {
        AttributeValue::Bool(*self)
    }
    fn choice(&self) -> Option<&'static str> {
        Some(if *self { "true" } else { "false" })
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        if let AttributeValue::Bool(v) = value { Some(*v) } else { None }
    }
}

impl AttributeType for f64 {
    const TAKES: &'static str = "a number";
    fn value(&self) -> AttributeValue {
        AttributeValue::Float(*self)
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::Float(v) => Some(*v),
            // Integers that a float holds are accepted as floats.
            AttributeValue::Int(v) if *v as Self as i128 == i128::from(*v) => Some(*v as Self),
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Int(_)
            | AttributeValue::Text(_)
            | AttributeValue::Ints(_) => None,
        }
    }
}

impl AttributeType for Number {
    const TAKES: &'static str = "a number, exactly if it is an integer";
    fn value(&self) -> AttributeValue {
        match *self {
            Self::Int(v) => AttributeValue::Int(v),
            Self::Float(v) => AttributeValue::Float(v),
        }
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::Int(v) => Some(Self::Int(*v)),
            AttributeValue::Float(v) => Some(Self::Float(*v)),
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Text(_)
            | AttributeValue::Ints(_) => None,
        }
    }
}

macro_rules! integers {
    ($($T:ty)*) => { $(
        impl AttributeType for $T {
            const TAKES: &'static str = "an integer from 0";
            fn value(&self) -> AttributeValue {
                AttributeValue::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }
            fn from_value(value: &AttributeValue) -> Option<Self> {
                let AttributeValue::Int(v) = value else { return None };
                let read = Self::try_from(*v).ok()?;
                // The largest number of 64 bits, which says that there is no bound, was written as that of an i64.
                Some(if *v == i64::MAX { Self::MAX } else { read })
            }
        }
    )* };
}
integers!(usize u32);

impl<T: AttributeType> AttributeType for Option<T> {
    const TAKES: &'static str = T::TAKES;
    fn value(&self) -> AttributeValue {
        self.as_ref().map_or(AttributeValue::None, T::value)
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        if *value == AttributeValue::None { Some(None) } else { T::from_value(value).map(Some) }
    }
}

impl AttributeType for Shape {
    const TAKES: &'static str = "sizes";
    fn value(&self) -> AttributeValue {
        AttributeValue::Ints(self.dims().iter().map(|&d| d as i64).collect())
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        let sizes = match value {
            AttributeValue::Int(size) => std::slice::from_ref(size),
            AttributeValue::Ints(sizes) => sizes,
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Float(_)
            | AttributeValue::Text(_) => return None,
        };
        Self::new(&sizes.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>()?)
    }
}

impl AttributeType for DType {
    const TAKES: &'static str = "a dtype";
    const CHOICES: &'static [&'static str] = &[
        Self::F32.name(),
        Self::F64.name(),
        Self::BF16.name(),
        Self::F16.name(),
        Self::I32.name(),
        Self::I64.name(),
        Self::U8.name(),
        Self::Bool.name(),
    ];
    fn value(&self) -> AttributeValue {
        AttributeValue::Text(self.name().to_owned())
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        let AttributeValue::Text(name) = value else { return None };
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }
}

impl AttributeType for Spec {
    const TAKES: &'static str = "a dtype and sizes, such as f32[2, 3]";
    fn value(&self) -> AttributeValue {
        AttributeValue::Text(format!("{}{:?}", self.dtype, self.shape.dims()))
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        let AttributeValue::Text(text) = value else { return None };
        let (dtype, sizes) = text.strip_suffix(']')?.split_once('[')?;
        let sizes = sizes.split(',').map(str::trim).filter(|s| !s.is_empty());
        let sizes = sizes.map(|s| s.parse().ok()).collect::<Option<Vec<usize>>>()?;
        Some(Self::new(DType::from_value(&dtype.into())?, Shape::new(&sizes)?))
    }
}

/// Makes a fieldless enum an attribute type: each variant with its name.
#[macro_export]
macro_rules! attribute_choices {
    ($Type:ty: $($Variant:ident = $name:literal),* $(,)?) => {
        impl $crate::AttributeType for $Type {
            const TAKES: &'static str = "one of a list";
            const CHOICES: &'static [&'static str] = &[$($name),*];
            fn value(&self) -> $crate::AttributeValue {
                $crate::AttributeValue::Text(match self { $(Self::$Variant => $name),* }.to_owned())
            }
            fn choice(&self) -> Option<&'static str> {
                Some(match self { $(Self::$Variant => $name),* })
            }
            fn from_value(value: &$crate::AttributeValue) -> Option<Self> {
                let $crate::AttributeValue::Text(name) = value else { return None };
                match name.as_str() {
                    $($name => Some(Self::$Variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use attribute_choices;

attribute_choices!(Precision: Strict = "strict", Tf32 = "tf32");

/// The declaration of an op: its documentation, arguments and attributes. Made by
/// [`op_attributes!`](crate::op_attributes).
pub trait Attributes {
    /// What the op computes, with formula, arguments, results and rules, in Markdown with links of Rust.
    fn doc(&self) -> &'static str;
    /// The declared arguments, in order.
    fn arguments(&self) -> &'static [Argument];
    /// The declared attributes, in field order.
    fn declared(&self) -> &'static [Attribute];
    /// The value of the attribute of this index; `None` if there is none.
    fn attribute(&self, index: usize) -> Option<AttributeValue>;
    /// The value of the attribute of this name, if that is a truth value or one of an enumeration.
    fn choice(&self, attribute: &str) -> Option<&'static str>;
    /// Sets the attribute of this name.
    ///
    /// # Errors
    /// [`Rule::AttributeName`] if the op has no attribute of this name, [`Rule::AttributeValue`] if the value is
    /// invalid for it.
    fn set(&mut self, name: &str, value: &AttributeValue) -> Result<(), Rule>;
}

/// Declares an op's type: its documentation, its arguments, and its attributes with name, type, default and
/// documentation, each once. Generates the struct, its `Default` and its [`Attributes`](crate::ops::Attributes), which
/// supply the op's text in plans and caches, its page in the documentation, errors, and calls by name.
///
/// The arguments stand in order behind the name of the type. `x if flag` is given where the attribute `flag` is true
/// and only there, `x if kind = "name"` where `kind` is of that name; `x or none` may be left out; the last may be
/// `x and more`, one argument or several, or `x or none and more`, any number. An attribute `axis of x` counts the axes of argument
/// `x`, and a call by name takes negative numbers for it ([`by_name_for`](crate::ops::by_name_for)).
///
/// `attribute: T = value` has this value where a call by name leaves it out: what PyTorch's function of the op's name has. Behind `=>`
/// stands what such a call has instead, where the value is only that of `Default`, from which tests start: `=> required` says that it
/// must be given, `=> (-1)` is the last axis.
///
/// ```
/// use landfall::ops::{Attributes, AttributeValue};
/// landfall::op_attributes! {
///     /// `y = low` below `low`, else `x`.
///     #[derive(Debug, Clone, Copy)]
///     pub struct Floor(x) {
///         /// The least value.
///         pub low: f64 = 0.0,
///     }
/// }
/// let mut op = Floor::default();
/// assert_eq!((op.declared()[0].name, op.low), ("low", 0.0));
/// assert_eq!((op.arguments()[0].name, op.doc()), ("x", " `y = low` below `low`, else `x`.\n"));
/// op.set("low", &AttributeValue::Float(-1.5))?;
/// assert_eq!(op.low, -1.5);
/// # Ok::<(), landfall::Rule>(())
/// ```
#[macro_export]
macro_rules! op_attributes {
    // A type whose fields are not attributes.
    (
        $(#[doc = $doc:expr])*
        impl $Op:ident($($args:tt)*);
    ) => {
        $crate::op_attributes! { @list $Op [$($doc,)*] ($($args)*) }
    };
    (
        $(#[doc = $doc:expr])*
        $(#[derive($($derive:tt)*)])?
        $vis:vis struct $Op:ident($($args:tt)*);
    ) => {
        $(#[doc = $doc])*
        $(#[derive($($derive)*)])?
        #[derive(Default)]
        $vis struct $Op;

        $crate::op_attributes! { @list $Op [$($doc,)*] ($($args)*) }
    };
    (
        $(#[doc = $doc:expr])*
        $(#[derive($($derive:tt)*)])?
        $vis:vis struct $Op:ident($($args:tt)*) {
            $(
                $(#[doc = $field_doc:literal])*
                $field_vis:vis $field:ident $(of $of:ident)?: $Type:ty = $default:expr $(=> $left_out:tt)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        $(#[derive($($derive)*)])?
        $vis struct $Op {
            $($(#[doc = $field_doc])* $field_vis $field: $Type),*
        }

        impl Default for $Op {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        $crate::op_attributes! {
            @list $Op [$($doc,)*] ($($args)*) $(
                [$($field_doc)*] $field $(of $of)?: $Type,
                $crate::op_attributes!(@default $Type = $default $(=> $left_out)?);
            )*
        }
    };
    (
        @list $Op:ident [$($doc:expr,)*] ($($args:tt)*)
        $([$($field_doc:literal)*] $field:ident $(of $of:ident)?: $Type:ty, $default:expr;)*
    ) => {
        impl $crate::Attributes for $Op {
            fn doc(&self) -> &'static str {
                concat!($($doc, "\n"),*)
            }
            fn arguments(&self) -> &'static [$crate::Argument] {
                $crate::op_attributes!(@arguments $($args)*)
            }
            fn declared(&self) -> &'static [$crate::Attribute] {
                &[$($crate::Attribute {
                    name: stringify!($field),
                    takes: <$Type as $crate::AttributeType>::TAKES,
                    choices: <$Type as $crate::AttributeType>::CHOICES,
                    axis_of: $crate::op_attributes!(@axis_of $($of)?),
                    default: $default,
                    doc: concat!($($field_doc, "\n"),*),
                }),*]
            }
            fn attribute(&self, index: usize) -> Option<$crate::AttributeValue> {
                let values: &[&dyn Fn() -> $crate::AttributeValue] =
                    &[$(&|| $crate::AttributeType::value(&self.$field)),*];
                values.get(index).map(|value| value())
            }
            fn choice(&self, attribute: &str) -> Option<&'static str> {
                match attribute {
                    $(stringify!($field) => $crate::AttributeType::choice(&self.$field),)*
                    _ => None,
                }
            }
            #[allow(unused_variables, reason = "an op without attributes takes none")]
            fn set(&mut self, name: &str, value: &$crate::AttributeValue) -> Result<(), $crate::Rule> {
                $(if name == stringify!($field) {
                    self.$field = $crate::AttributeType::from_value(value).ok_or_else(|| {
                        $crate::Rule::AttributeValue {
                            name: stringify!($field),
                            value: value.to_string(),
                            takes: <$Type as $crate::AttributeType>::TAKES,
                            choices: <$Type as $crate::AttributeType>::CHOICES,
                        }
                    })?;
                    return Ok(());
                })*
                Err($crate::Rule::AttributeName { name: name.to_owned(), known: &[$(stringify!($field)),*] })
            }
        }
    };
    (@default $Type:ty = $default:expr) => { Some(|| <$Type as $crate::AttributeType>::value(&$default)) };
    (@default $Type:ty = $default:expr => required) => { None };
    (@default $Type:ty = $default:expr => ($($left_out:tt)+)) => {
        Some(|| $crate::AttributeValue::from($($left_out)+))
    };
    (@axis_of) => { None };
    (@axis_of $of:ident) => { Some(stringify!($of)) };
    (@arguments $(
        $arg:ident $(if $attribute:ident $(= $is:literal)?)? $(or $none:ident)? $(and $more:ident)?
    ),*) => {
        &[$($crate::Argument {
            name: stringify!($arg),
            given: $crate::op_attributes!(
                @given $(if $attribute $(= $is)?)? $(or $none)? $(and $more)?
            ),
        }),*]
    };
    (@given) => { $crate::Given::Always };
    (@given if $attribute:ident) => {
        $crate::Given::If { attribute: stringify!($attribute), is: "true" }
    };
    (@given if $attribute:ident = $is:literal) => {
        $crate::Given::If { attribute: stringify!($attribute), is: $is }
    };
    (@given or none) => { $crate::Given::Optional };
    (@given and more) => { $crate::Given::Many { least: 1 } };
    (@given or none and more) => { $crate::Given::Many { least: 0 } };
}
pub(crate) use op_attributes;
