//! Attributes of ops: declared once, with type, default and documentation.

use crate::values::{DType, Precision, Rule, Shape, Spec};
use std::fmt;

/// One declared attribute of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// The name of the field.
    pub name: &'static str,
    /// The accepted values, as text for documentation and errors.
    pub takes: &'static str,
    /// The allowed names, if it is an enumeration.
    pub choices: &'static [&'static str],
    /// Its documentation.
    pub doc: &'static str,
}

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
    /// Converts back; `None` if the value is not of this type.
    fn from_value(value: &AttributeValue) -> Option<Self>;
}

impl AttributeType for bool {
    const TAKES: &'static str = "true or false";
    fn value(&self) -> AttributeValue {
        AttributeValue::Bool(*self)
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
            // Integers up to 2⁵³ are accepted as floats.
            AttributeValue::Int(v) if v.unsigned_abs() <= 1 << 53 => Some(*v as Self),
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Int(_)
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
                if let AttributeValue::Int(v) = value { Self::try_from(*v).ok() } else { None }
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
        let AttributeValue::Ints(sizes) = value else { return None };
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

/// The attributes of an op. Made by [`op_attributes!`](crate::op_attributes).
pub trait Attributes {
    /// The declared attributes, in field order.
    fn declared(&self) -> &'static [Attribute];
    /// The value of the attribute of this index; `None` if there is none.
    fn attribute(&self, index: usize) -> Option<AttributeValue>;
    /// Sets the attribute of this name.
    ///
    /// # Errors
    /// [`Rule::AttributeName`] if the op has no attribute of this name, [`Rule::AttributeValue`] if the value is
    /// invalid for it.
    fn set(&mut self, name: &str, value: &AttributeValue) -> Result<(), Rule>;
}

/// Declares an op's type with its attributes: name, type, default and documentation, each once. Generates the struct,
/// its `Default` and its [`Attributes`](crate::ops::Attributes), which supply the op's text in plans and caches, its
/// page in the documentation and calls by name.
///
/// ```
/// use landfall::ops::{Attributes, AttributeValue};
/// landfall::op_attributes! {
///     /// `y = low` below `low`, else `x`.
///     #[derive(Debug, Clone, Copy)]
///     pub struct Floor {
///         /// The least value.
///         pub low: f64 = 0.0,
///     }
/// }
/// let mut op = Floor::default();
/// assert_eq!((op.declared()[0].name, op.low), ("low", 0.0));
/// op.set("low", &AttributeValue::Float(-1.5))?;
/// assert_eq!(op.low, -1.5);
/// # Ok::<(), landfall::Rule>(())
/// ```
#[macro_export]
macro_rules! op_attributes {
    // A type whose fields are not attributes.
    (impl $Op:ident;) => {
        $crate::op_attributes! { @list $Op }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Op:ident;
    ) => {
        $(#[$meta])*
        #[derive(Default)]
        $vis struct $Op;

        $crate::op_attributes! { @list $Op }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Op:ident {
            $($(#[doc = $doc:literal])* $field_vis:vis $field:ident: $Type:ty = $default:expr),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $Op {
            $($(#[doc = $doc])* $field_vis $field: $Type),*
        }

        impl Default for $Op {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        $crate::op_attributes! { @list $Op $([$($doc)*] $field: $Type)* }
    };
    (@list $Op:ident $([$($doc:literal)*] $field:ident: $Type:ty)*) => {
        impl $crate::Attributes for $Op {
            fn declared(&self) -> &'static [$crate::Attribute] {
                &[$($crate::Attribute {
                    name: stringify!($field),
                    takes: <$Type as $crate::AttributeType>::TAKES,
                    choices: <$Type as $crate::AttributeType>::CHOICES,
                    doc: concat!($($doc, "\n"),*),
                }),*]
            }
            fn attribute(&self, index: usize) -> Option<$crate::AttributeValue> {
                let values: &[&dyn Fn() -> $crate::AttributeValue] =
                    &[$(&|| $crate::AttributeType::value(&self.$field)),*];
                values.get(index).map(|value| value())
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
}
pub(crate) use op_attributes;
