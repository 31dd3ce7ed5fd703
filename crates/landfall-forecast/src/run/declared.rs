//! Settings of a run: each declared once, with name, type, range, documentation and what it does to others.

use super::presets::{CANDIDATES, Preset};
use super::words::Text;
use crate::models::ModelKind;
use std::path::PathBuf;

/// Under which heading a setting stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Files and how they are read, or generated data.
    Data,
    /// Columns beside those to forecast.
    Covariates,
    /// The network.
    Model,
    /// How it is trained.
    Training,
    /// Quantiles and intervals.
    Uncertainty,
    /// Processes that train together.
    Ranks,
    /// Where it computes, and what it shows.
    Computing,
    /// What a run writes by itself.
    Run,
}

impl Group {
    /// Every group, in the order in which they are listed.
    pub const ALL: [Self; 8] = [
        Self::Data,
        Self::Covariates,
        Self::Model,
        Self::Training,
        Self::Uncertainty,
        Self::Ranks,
        Self::Computing,
        Self::Run,
    ];

    /// Its heading.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Data => "Data",
            Self::Covariates => "Covariates",
            Self::Model => "Model",
            Self::Training => "Training",
            Self::Uncertainty => "Uncertainty",
            Self::Ranks => "Several processes",
            Self::Computing => "Computing",
            Self::Run => "Written by a run",
        }
    }
}

/// How many values an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// One.
    One,
    /// None: it is true where it is given.
    Flag,
    /// None, or one behind an equals sign.
    Switch,
    /// Several with commas between them.
    List,
    /// Several with commas between them, or none.
    ListOrNone,
    /// One each time that it is given.
    Repeated,
}

/// What values of a setting are in range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// All of its type.
    Any,
    /// Whole numbers within these bounds.
    Whole(usize, usize),
    /// Numbers from this one on.
    AtLeast(f64),
    /// Numbers above this one.
    Above(f64),
    /// Numbers from 0 on, below 1.
    Share,
    /// One of these characters.
    Characters(&'static [char]),
}

/// Above this many rows, columns or windows a size is mistyped, and no machine has memory for it.
pub(super) const MOST: usize = 1 << 24;

/// A setting as it is declared.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name, with underscores: `max_steps`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub doc: &'static str,
    /// What values it takes, in words.
    pub takes: &'static str,
    /// Whether its values are numbers, which may be negative.
    pub is_number: bool,
    /// What else is declared of it.
    pub facts: Facts,
    /// Reads a value, for a check.
    pub(super) read: fn(&[String]) -> Result<(), String>,
}

/// What is declared of a setting beside name, type and documentation.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Its heading.
    pub group: Group,
    /// What stands for a value in help; the name in capitals if left out.
    pub placeholder: Option<&'static str>,
    /// How many values an argument takes.
    pub arity: Arity,
    /// What values are in range.
    pub range: Range,
    /// Whether it decides the shapes of a step, so that a memory plan takes it.
    pub shapes: bool,
    /// Whether it says how a file of series is read, so that it belongs to no generated data.
    pub of_files: bool,
    /// Whether a resumed run may change it.
    pub resumable: bool,
    /// Whether it is part of what a run does, which the hash names; the rest changes no result but by rounding.
    pub hashed: bool,
    /// Settings of a file that it drops where it is given over them.
    pub drops: &'static [&'static str],
}

impl Facts {
    /// A setting of a person, with one value.
    pub(super) const fn of(group: Group, placeholder: &'static str) -> Self {
        Self { placeholder: Some(placeholder), ..Self::named(group) }
    }

    /// The same, whose name stands for a value.
    pub(super) const fn named(group: Group) -> Self {
        Self {
            group,
            placeholder: None,
            arity: Arity::One,
            range: Range::Any,
            shapes: false,
            of_files: false,
            resumable: false,
            hashed: true,
            drops: &[],
        }
    }

    /// What a run measures or chooses, and writes into its settings itself.
    pub(super) const fn by_run() -> Self {
        Self { hashed: false, ..Self::named(Group::Run) }
    }

    pub(super) const fn arity(self, arity: Arity) -> Self {
        Self { arity, ..self }
    }

    pub(super) const fn range(self, range: Range) -> Self {
        Self { range, ..self }
    }

    /// From 1 on, up to what is mistyped.
    pub(super) const fn size(self) -> Self {
        self.range(Range::Whole(1, MOST))
    }

    /// From 1 on.
    pub(super) const fn positive(self) -> Self {
        self.range(Range::Whole(1, usize::MAX))
    }

    pub(super) const fn shapes(self) -> Self {
        Self { shapes: true, ..self }
    }

    pub(super) const fn of_files(self) -> Self {
        Self { of_files: true, ..self }
    }

    pub(super) const fn resumable(self) -> Self {
        Self { resumable: true, ..self }
    }

    pub(super) const fn unhashed(self) -> Self {
        Self { hashed: false, ..self }
    }

    pub(super) const fn drops(self, drops: &'static [&'static str]) -> Self {
        Self { drops, ..self }
    }
}

impl Setting {
    /// Whether a person gives it.
    #[must_use]
    pub fn by_person(&self) -> bool {
        self.facts.group != Group::Run
    }

    /// Its key in a file, `max-steps`.
    #[must_use]
    pub fn key(&self) -> String {
        self.name.replace('_', "-")
    }

    /// What it is, as the door says it in its help ([`Spelling`](crate::data::Spelling)), without the period at the end.
    #[must_use]
    pub fn help(&self) -> String {
        let names = |all: &mut dyn Iterator<Item = &'static str>| {
            let all: Vec<&str> = all.collect();
            match all.split_last() {
                Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
                _ => all.join(""),
            }
        };
        let others = ModelKind::ALL.iter().filter(|kind| !CANDIDATES.contains(kind));
        let presets = Preset::ALL.iter().filter(|preset| !preset.is_auto());
        let text = self.doc.trim().replace("{models}", &names(&mut others.map(|kind| kind.name())));
        let text = text.replace("{presets}", &names(&mut presets.map(|preset| preset.name)));
        Text::template(text.strip_suffix('.').unwrap_or(&text)).to_string()
    }

    /// Checks that a text is a value of it, or one of several.
    ///
    /// # Errors
    /// What it takes instead.
    pub fn check(&self, text: &str) -> Result<(), String> {
        if let Range::Characters(known) = self.facts.range {
            let mut characters = text.chars();
            return match (characters.next(), characters.next()) {
                (Some(one), None) if known.contains(&one) => Ok(()),
                _ => Err(format!("give {}", characters_in_words(known))),
            };
        }
        (self.read)(&[text.to_owned()])
    }

    /// A number of a value that is out of range, and the rule.
    pub(super) fn out_of_range(&self, value: &dyn SettingValue) -> Option<(String, String)> {
        let outside = |inside: &dyn Fn(f64) -> bool, rule: String| {
            let found = value.numbers().into_iter().find(|x| !(x.is_finite() && inside(*x)))?;
            Some((format!("{found:?}"), rule))
        };
        match self.facts.range {
            Range::Any | Range::Characters(_) => None,
            Range::Whole(least, most) => {
                let whole = value.whole()?;
                let (low, high) = (whole < least as u64, whole > most as u64);
                let rule = match most {
                    ..MOST if low || high => format!("it must be {least} to {most}"),
                    _ if low => format!("it must be at least {least}"),
                    _ if high => format!("it must be at most {most}"),
                    _ => return None,
                };
                Some((whole.to_string(), rule))
            }
            Range::AtLeast(least) => outside(&|x| x >= least, format!("it must be at least {least}")),
            Range::Above(bound) => outside(&|x| x > bound, format!("it must be above {bound}")),
            Range::Share => {
                outside(&|x| (0.0..1.0).contains(&x), "each must be at least 0 and below 1".to_owned())
            }
        }
    }

    /// What values are in range, in words; nothing for all of its type.
    #[must_use]
    pub fn range_in_words(&self) -> String {
        match self.facts.range {
            Range::Any => String::new(),
            Range::Whole(least, most) if most >= usize::MAX >> 1 => format!("from {least} on"),
            Range::Whole(least, most) => format!("{least} to {most}"),
            Range::AtLeast(least) => format!("from {least} on"),
            Range::Above(bound) => format!("above {bound}"),
            Range::Share => "from 0 on, below 1".to_owned(),
            Range::Characters(known) => characters_in_words(known),
        }
    }
}

fn characters_in_words(known: &[char]) -> String {
    let word = |c: &char| match c {
        ' ' => "a blank".to_owned(),
        '\'' => "an apostrophe".to_owned(),
        other => other.to_string(),
    };
    known.iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// A value of a setting.
pub(super) trait SettingValue {
    /// Its numbers, where a range may bound them.
    fn numbers(&self) -> Vec<f64> {
        Vec::new()
    }

    /// The whole number that it is.
    fn whole(&self) -> Option<u64> {
        None
    }
}

/// A type of settings that a person gives.
pub(super) trait SettingType: SettingValue + Sized {
    /// What values it takes, in words.
    const TAKES: &'static str;

    /// Whether its values are numbers, which may be negative.
    const IS_NUMBER: bool = false;

    /// The value of the texts of an argument.
    fn from_texts(texts: &[String]) -> Result<Self, String>;
}

/// The last text of an argument.
fn last(texts: &[String]) -> &str {
    texts.last().map_or("", String::as_str)
}

macro_rules! numbers {
    ($($Type:ty: $takes:literal),*) => {$(
        impl SettingValue for $Type {
            fn numbers(&self) -> Vec<f64> {
                vec![*self as f64]
            }
            fn whole(&self) -> Option<u64> {
                u64::try_from(*self).ok()
            }
        }
        impl SettingType for $Type {
            const TAKES: &'static str = $takes;
            fn from_texts(texts: &[String]) -> Result<Self, String> {
                last(texts).parse().map_err(|e: std::num::ParseIntError| e.to_string())
            }
        }
    )*};
}
numbers! { usize: "a whole number", u64: "a whole number" }

impl SettingValue for f64 {
    fn numbers(&self) -> Vec<f64> {
        vec![*self]
    }
}

impl SettingType for f64 {
    const TAKES: &'static str = "a number";
    const IS_NUMBER: bool = true;

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        last(texts).parse().map_err(|e: std::num::ParseFloatError| e.to_string())
    }
}

impl SettingValue for [f64; 2] {
    fn numbers(&self) -> Vec<f64> {
        self.to_vec()
    }
}

impl SettingType for [f64; 2] {
    const TAKES: &'static str = "two numbers";
    const IS_NUMBER: bool = true;

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        let parts: Result<Vec<f64>, _> = last(texts).split(',').map(|part| part.trim().parse()).collect();
        let pair = parts.ok().and_then(|parts| parts.try_into().ok());
        pair.ok_or_else(|| "write two numbers as 0.9,0.999".to_owned())
    }
}

impl SettingValue for char {}

impl SettingType for char {
    const TAKES: &'static str = "a character";

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        let mut characters = last(texts).chars();
        match (last(texts), characters.next(), characters.next()) {
            // A tab, which few shells pass on.
            ("\\t", ..) => Ok('\t'),
            (_, Some(one), None) if one.is_ascii() => Ok(one),
            _ => Err("give one ASCII character, or \\t for a tab".to_owned()),
        }
    }
}

impl SettingValue for bool {}

impl SettingType for bool {
    const TAKES: &'static str = "true or false";

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        match last(texts) {
            "" => Ok(true),
            text => text.parse().map_err(|_| "give true or false".to_owned()),
        }
    }
}

impl SettingValue for String {}

impl SettingType for String {
    const TAKES: &'static str = "a text";

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        Ok(last(texts).to_owned())
    }
}

impl SettingValue for PathBuf {}

impl SettingType for PathBuf {
    const TAKES: &'static str = "a path";

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        match last(texts) {
            "" => Err("give a path".to_owned()),
            path => Ok(path.into()),
        }
    }
}

impl<T: SettingValue> SettingValue for Vec<T> {
    fn numbers(&self) -> Vec<f64> {
        self.iter().flat_map(SettingValue::numbers).collect()
    }
}

macro_rules! lists {
    ($($Type:ty: $takes:literal),* $(,)?) => {$(
        impl SettingType for Vec<$Type> {
            const TAKES: &'static str = $takes;
            const IS_NUMBER: bool = <$Type as SettingType>::IS_NUMBER;
            fn from_texts(texts: &[String]) -> Result<Self, String> {
                let one = |text: &String| SettingType::from_texts(std::slice::from_ref(text));
                texts.iter().map(one).collect()
            }
        }
    )*};
}
lists! {
    String: "a list of texts",
    f64: "a list of numbers",
    crate::data::Calendar: "a list of names",
    super::ScalerTable: "a list of tables",
}

impl SettingType for Vec<ModelKind> {
    const TAKES: &'static str = "a list of names, or none";

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        match texts {
            [only] if only.eq_ignore_ascii_case("none") => Ok(Self::new()),
            _ => texts.iter().map(|text| super::values::named(text)).collect(),
        }
    }
}

impl<T: SettingValue> SettingValue for super::values::OneOrMore<T> {}

macro_rules! one_or_more {
    ($($Type:ty: $takes:literal),*) => {$(
        impl SettingType for super::values::OneOrMore<$Type> {
            const TAKES: &'static str = $takes;
            fn from_texts(texts: &[String]) -> Result<Self, String> {
                let one = |text: &String| SettingType::from_texts(std::slice::from_ref(text));
                texts.iter().map(one).collect::<Result<_, _>>().map(Self)
            }
        }
    )*};
}
one_or_more! { PathBuf: "a path, or a list", String: "a name, or a list" }

/// Types whose values have names.
macro_rules! names {
    ($($Type:ty),* $(,)?) => {$(
        impl SettingValue for $Type {}
        impl SettingType for $Type {
            const TAKES: &'static str = "a name";
            fn from_texts(texts: &[String]) -> Result<Self, String> {
                super::values::named(last(texts))
            }
        }
    )*};
}
names! {
    super::Precision,
    super::Synthetic,
    super::Device,
    crate::choice::Metric,
    crate::ensemble::Members,
    crate::data::Calendar,
    ModelKind,
    crate::train::Draws,
    crate::train::OptimizerKind,
    crate::train::Order,
    crate::train::Schedule,
}

impl SettingValue for super::TimeLimit {}

impl SettingType for super::TimeLimit {
    const TAKES: &'static str = "a time";

    fn from_texts(texts: &[String]) -> Result<Self, String> {
        Self::parse(last(texts))
    }
}

/// Types that have no text of their own: tables of a file, and what a run writes.
macro_rules! tables {
    ($($Type:ty: $takes:literal),* $(,)?) => {$(
        impl SettingValue for $Type {}
        impl SettingType for $Type {
            const TAKES: &'static str = $takes;
            fn from_texts(_: &[String]) -> Result<Self, String> {
                Err(concat!("it is ", $takes).to_owned())
            }
        }
    )*};
}
tables! {
    u32: "a version",
    super::NetworkOptions: "a table of options",
    super::Forecaster: "a table",
    super::SameWindows: "a table",
    crate::ensemble::NamedNetwork: "a table",
    crate::data::TokenNames: "a table",
    super::ScalerTable: "a table",
    landfall::tune::Choices: "a table",
}

/// Declares the settings: from each line come the field of [`super::Settings`], its key, and its [`Setting`].
macro_rules! settings {
    ($($(#[doc = $doc:literal])* $field:ident $(as $name:literal)?: $Type:ty => $facts:expr;)*) => {
        /// Every setting, none of them required: what is left out comes from the preset's recipe.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Settings {
            $($(#[doc = $doc])* $(#[serde(rename = $name)])? pub $field: Option<$Type>,)*
        }

        /// All settings, in the order of a file.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            name: $crate::run::declared::settings!(@name $field $($name)?),
            doc: concat!($($doc),*),
            takes: <$Type as SettingType>::TAKES,
            is_number: <$Type as SettingType>::IS_NUMBER,
            facts: $facts,
            read: |texts| <$Type as SettingType>::from_texts(texts).map(|_| ()),
        }),*];

        impl Settings {
            /// The value of each setting, in the order of [`SETTINGS`].
            fn values(&self) -> Vec<Option<&dyn SettingValue>> {
                vec![$(self.$field.as_ref().map(|value| value as &dyn SettingValue)),*]
            }

            /// Sets a setting by its name from the texts of an argument.
            ///
            /// # Errors
            /// What the setting takes instead; an unknown name.
            pub fn set(&mut self, name: &str, texts: &[String]) -> Result<(), String> {
                match name {
                    $($crate::run::declared::settings!(@name $field $($name)?) => {
                        self.$field = Some(SettingType::from_texts(texts)?);
                    })*
                    _ => return Err(format!("there is no setting {name}")),
                }
                Ok(())
            }

            /// These settings without some of them.
            #[must_use]
            pub fn without(mut self, left_out: impl Fn(&Setting) -> bool) -> Self {
                let mut all = SETTINGS.iter();
                $(if all.next().is_some_and(&left_out) {
                    self.$field = None;
                })*
                self
            }

            /// These settings, and those of `base` that they do not have.
            #[must_use]
            pub fn or(self, base: Self) -> Self {
                Self { $($field: self.$field.or(base.$field)),* }
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}
pub(super) use settings;
