//! Texts that mention settings, which each door of the library writes in its own way: the program as arguments, Python as
//! keywords, a file as keys.

use crate::data::Spelling;
use std::borrow::Cow;
use std::fmt;

/// Options of the network that the program has an argument for.
pub const OPTIONS_WITH_FLAGS: [&str; 2] = ["patch", "stride"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Words(Cow<'static, str>),
    Setting { name: Cow<'static, str>, value: Option<Cow<'static, str>> },
    Option { name: Cow<'static, str>, value: Option<Cow<'static, str>> },
}

/// A text that mentions settings, as the [`Spelling`] writes them when it is printed.
///
/// ```
/// use landfall_data::Spelling;
/// use landfall_forecast::run::Text;
/// let text = Text::from("reduce {horizon}, or give {loss huber}");
/// assert_eq!(text.to_string(), "reduce horizon, or give loss = \"huber\"");
/// let flags = Spelling::Flag.within(|| text.to_string());
/// assert_eq!(flags, "reduce --horizon, or give --loss huber");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(Vec<Part>);

impl Text {
    /// A setting by its name, `max_steps`.
    #[must_use]
    pub fn setting(name: &'static str) -> Self {
        Self(vec![Part::Setting { name: name.into(), value: None }])
    }

    /// A setting with its value.
    #[must_use]
    pub fn given(name: &'static str, value: impl ToString) -> Self {
        Self(vec![Part::Setting { name: name.into(), value: Some(value.to_string().into()) }])
    }

    /// An option of the network, with its value where one is said.
    #[must_use]
    pub fn option(name: &'static str, value: Option<String>) -> Self {
        Self(vec![Part::Option { name: name.into(), value: value.map(Cow::from) }])
    }

    /// Words that mention no setting, whatever they contain.
    #[must_use]
    pub fn plain(words: impl Into<Cow<'static, str>>) -> Self {
        Self(vec![Part::Words(words.into())])
    }

    /// This text and another one behind it.
    #[must_use]
    pub fn and(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }
}

impl Text {
    /// A text as it stands in the library: `{horizon}` mentions a setting, `{loss huber}` one with its value, `{network.padding}`
    /// an option of the network.
    #[must_use]
    pub fn template(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((words, mention, behind)) =
            rest.split_once('{').and_then(|(words, more)| more.split_once('}').map(|(m, b)| (words, m, b)))
        {
            let (name, value) = mention.split_once(' ').map_or((mention, None), |(n, v)| (n, Some(v)));
            let value = value.map(|value| value.to_owned().into());
            parts.push(Part::Words(words.to_owned().into()));
            parts.push(match name.strip_prefix("network.") {
                Some(name) => Part::Option { name: name.to_owned().into(), value },
                None => Part::Setting { name: name.to_owned().into(), value },
            });
            rest = behind;
        }
        parts.push(Part::Words(rest.to_owned().into()));
        parts.retain(|part| !matches!(part, Part::Words(words) if words.is_empty()));
        Self(parts)
    }
}

/// As [`Text::template`].
impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::template(text)
    }
}

/// Words that mention no setting.
impl From<String> for Text {
    fn from(words: String) -> Self {
        Self::plain(words)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelling = Spelling::now();
        let key = |name: &str| name.replace('_', "-");
        for part in &self.0 {
            match part {
                Part::Words(words) => f.write_str(words)?,
                Part::Option { name, value }
                    if spelling != Spelling::Flag || !OPTIONS_WITH_FLAGS.contains(&&**name) =>
                {
                    f.write_str(&spelling.option(&key(name), value.as_deref()))?;
                }
                Part::Option { name, value } | Part::Setting { name, value } => {
                    f.write_str(&spelling.setting(&key(name), value.as_deref()))?;
                }
            }
        }
        Ok(())
    }
}
