//! Options of a model: each declared once, with its name, type, default and documentation.

use super::Columns;
use std::fmt;

/// The most that a size may be: what is beyond is mistyped, and no machine has memory for it.
pub(super) const MOST: usize = 1 << 24;

/// A value of an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionValue {
    /// A size or a number of things.
    Count(usize),
    /// A real number.
    Number(f64),
    /// On or off.
    Flag(bool),
    /// One of several names.
    Choice(&'static str),
    /// The columns of the data.
    Columns(Columns),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Number(x) => write!(f, "{x:?}"),
            Self::Flag(on) => write!(f, "{on}"),
            Self::Choice(name) => f.write_str(name),
            Self::Columns(c) => write!(f, "{} targets, {} past, {} known", c.targets, c.past, c.known),
        }
    }
}

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// A whole number from 0 on.
    Count,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// The columns of the data.
    Columns,
}

impl fmt::Display for OptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str("a whole number"),
            Self::Number => f.write_str("a number"),
            Self::Flag => f.write_str("true or false"),
            Self::Choice(names) => f.write_str(&names.join(" or ")),
            Self::Columns => f.write_str("numbers of columns"),
        }
    }
}

/// A type that options have.
pub trait OptionType: Copy {
    /// What values it takes.
    const KIND: OptionKind;
    /// A value of it.
    fn value(self) -> OptionValue;
    /// What a value is in it, if it is one of it.
    fn from_value(value: OptionValue) -> Option<Self>;
}

macro_rules! option_types {
    ($($Type:ty: $Kind:ident),* $(,)?) => {$(
        impl OptionType for $Type {
            const KIND: OptionKind = OptionKind::$Kind;
            fn value(self) -> OptionValue {
                OptionValue::$Kind(self)
            }
            fn from_value(value: OptionValue) -> Option<Self> {
                if let OptionValue::$Kind(value) = value { Some(value) } else { None }
            }
        }
    )*};
}
option_types! { usize: Count, f64: Number, bool: Flag, Columns: Columns }

/// Gives the values of an enum the names that options have for them.
macro_rules! option_choices {
    ($Type:ident { $($Variant:ident = $name:literal),* $(,)? }) => {
        impl $crate::models::OptionType for $Type {
            const KIND: $crate::models::OptionKind = $crate::models::OptionKind::Choice(&[$($name),*]);
            fn value(self) -> $crate::models::OptionValue {
                $crate::models::OptionValue::Choice(match self {
                    $(Self::$Variant => $name),*
                })
            }
            fn from_value(value: $crate::models::OptionValue) -> Option<Self> {
                let $crate::models::OptionValue::Choice(name) = value else { return None };
                match name {
                    $($name => Some(Self::$Variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(super) use option_choices;

/// An option as its model declares it; the default is its value in the default configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelOption {
    /// Its name, with underscores: `d_model`.
    pub name: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// The most that a count may be.
    pub most: usize,
    /// Whether a run's file leaves it out at its default, as files did before there was the option.
    pub omitted: bool,
    /// What it is.
    pub doc: &'static str,
}

/// Why an option is not set.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The model declares no option of this name.
    #[error("the model has no such option")]
    Unknown,
    /// The value is of another kind.
    #[error("it takes {0}")]
    Kind(OptionKind),
}

landfall::debug_as_text!(OptionError);

/// What a model declares: its sizes, which a run and its data give, and its options.
pub trait Declared {
    /// Its options.
    fn options(&self) -> &'static [ModelOption];
    /// Its sizes and options that are whole numbers, by name: none of them may be 0.
    fn counts(&self) -> Vec<(&'static str, usize)>;
    /// The value of a size or an option, if it has one of this name.
    fn value(&self, name: &str) -> Option<OptionValue>;
    /// Changes a size or an option.
    ///
    /// # Errors
    /// No size or option of this name; a value of another kind.
    fn set(&mut self, name: &str, value: OptionValue) -> Result<(), OptionError>;
}

/// Declares the configuration of a model: `sizes` are what a run and its data give (`context`, `horizon`, `columns`,
/// `dropout`, `outputs`), `options` what a person may choose for this model alone; behind a default `[most N]` bounds a count, and `[omitted true]` is as said of
/// [`ModelOption::omitted`]. From it come the struct, its default, and
/// access by name.
macro_rules! configuration {
    (
        $(#[$meta:meta])*
        pub struct $Config:ident;
        sizes { $($(#[doc = $size_doc:literal])* $size:ident: $SizeType:ty = $size_default:expr,)* }
        options {
            $($(#[doc = $doc:literal])* $option:ident: $Type:ty = $default:expr $(=> [$fact:ident $of:expr])?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Config {
            $($(#[doc = $size_doc])* pub $size: $SizeType,)*
            $($(#[doc = $doc])* pub $option: $Type,)*
        }

        impl Default for $Config {
            fn default() -> Self {
                Self { $($size: $size_default,)* $($option: $default,)* }
            }
        }

        impl $crate::models::Declared for $Config {
            fn options(&self) -> &'static [$crate::models::ModelOption] {
                &[$($crate::models::ModelOption {
                    name: stringify!($option),
                    kind: <$Type as $crate::models::OptionType>::KIND,
                    most: $crate::models::option::configuration!(@most $($fact $of)?),
                    omitted: $crate::models::option::configuration!(@omitted $($fact $of)?),
                    doc: concat!($($doc),*),
                }),*]
            }

            fn counts(&self) -> Vec<(&'static str, usize)> {
                let all = [
                    $((stringify!($size), $crate::models::OptionType::value(self.$size)),)*
                    $((stringify!($option), $crate::models::OptionType::value(self.$option)),)*
                ];
                let count = |(name, value)| match value {
                    $crate::models::OptionValue::Count(n) => Some((name, n)),
                    $crate::models::OptionValue::Number(_)
                    | $crate::models::OptionValue::Flag(_)
                    | $crate::models::OptionValue::Choice(_)
                    | $crate::models::OptionValue::Columns(_) => None,
                };
                all.into_iter().filter_map(count).collect()
            }

            fn value(&self, name: &str) -> Option<$crate::models::OptionValue> {
                match name {
                    $(stringify!($size) => Some($crate::models::OptionType::value(self.$size)),)*
                    $(stringify!($option) => Some($crate::models::OptionType::value(self.$option)),)*
                    _ => None,
                }
            }

            fn set(
                &mut self,
                name: &str,
                value: $crate::models::OptionValue,
            ) -> Result<(), $crate::models::OptionError> {
                match name {
                    $(stringify!($size) => $crate::models::option::assign(&mut self.$size, value),)*
                    $(stringify!($option) => $crate::models::option::assign(&mut self.$option, value),)*
                    _ => Err($crate::models::OptionError::Unknown),
                }
            }
        }
    };
    (@most) => { $crate::models::option::MOST };
    (@most most $most:expr) => { $most };
    (@most omitted $omitted:expr) => { $crate::models::option::MOST };
    (@omitted) => { false };
    (@omitted most $most:expr) => { false };
    (@omitted omitted $omitted:expr) => { $omitted };
}
pub(super) use configuration;

/// Writes a value of the right kind.
pub(super) fn assign<T: OptionType>(to: &mut T, value: OptionValue) -> Result<(), OptionError> {
    *to = T::from_value(value).ok_or(OptionError::Kind(T::KIND))?;
    Ok(())
}
