//! The cells of a column.

use super::parser::Parser;
use crate::commands::serve::columns::Role;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The cells of a column.
pub(in crate::commands::serve) enum Cells {
    Numbers(Vec<Option<f64>>),
    Texts(Vec<String>),
}

impl Cells {
    pub(super) fn of(role: Role) -> Self {
        match role {
            Role::Number | Role::Any => Self::Numbers(Vec::new()),
            Role::Date | Role::Name => Self::Texts(Vec::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(cells) => cells.len(),
            Self::Texts(cells) => cells.len(),
        }
    }

    /// Adds a text; numbers before it become texts.
    fn push_text(&mut self, text: String) {
        match self {
            Self::Texts(cells) => cells.push(text),
            Self::Numbers(cells) => {
                let before = cells.iter().map(|cell| cell.map_or_else(String::new, written));
                *self = Self::Texts(before.chain([text]).collect());
            }
        }
    }

    /// So many cells: further ones are missing.
    pub(super) fn resize(&mut self, rows: usize) {
        match self {
            Self::Numbers(cells) => cells.resize(rows, None),
            Self::Texts(cells) => cells.resize(rows, String::new()),
        }
    }
}

/// A number as a text; Display writes 1e300 with 301 digits.
fn written(x: f64) -> String {
    if x.abs() < 1e15 && x.fract() == 0.0 { x.to_string() } else { format!("{x:?}") }
}

/// A name or a cell, as a message shows it.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A column as a list of its cells.
pub(super) struct List<'p> {
    pub(super) parser: &'p Parser<'p>,
    pub(super) role: Role,
    pub(super) name: &'p str,
    pub(super) source: &'p str,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Cells;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cells, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl List<'_> {
    fn no_list<E: Error>(&self, what: &str) -> E {
        let Self { parser, name, source, .. } = self;
        let numbers = matches!(self.role, Role::Number | Role::Any);
        let example = if numbers { "[1.5, 1.7]" } else { "[\"a\", \"b\"]" };
        parser.wrong(format!(
            "{source}: column `{}` is {what}; give the list of its values, as in {example}",
            shown(name)
        ))
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Cells;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of the values of column `{}`", shown(self.name))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Cells, A::Error> {
        let Self { parser, role, name, source } = self;
        let mut cells = Cells::of(role);
        while list.next_element_seed(One { parser, role, name, source, to: &mut cells })?.is_some() {
            parser.spend(1)?;
        }
        Ok(cells)
    }

    fn visit_f64<E: Error>(self, x: f64) -> Result<Cells, E> {
        Err(self.no_list(&format!("the number {x}")))
    }
    fn visit_i64<E: Error>(self, x: i64) -> Result<Cells, E> {
        Err(self.no_list(&format!("the number {x}")))
    }
    fn visit_u64<E: Error>(self, x: u64) -> Result<Cells, E> {
        Err(self.no_list(&format!("the number {x}")))
    }
    fn visit_bool<E: Error>(self, x: bool) -> Result<Cells, E> {
        Err(self.no_list(&x.to_string()))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Cells, E> {
        Err(self.no_list(&format!("the text {:?}", shown(text))))
    }
    fn visit_unit<E: Error>(self) -> Result<Cells, E> {
        Err(self.no_list("null"))
    }
    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Cells, A::Error> {
        Err(self.no_list("an object"))
    }
}

/// One cell, put behind those of its column.
pub(super) struct One<'p> {
    pub(super) parser: &'p Parser<'p>,
    pub(super) role: Role,
    pub(super) name: &'p str,
    pub(super) source: &'p str,
    pub(super) to: &'p mut Cells,
}

impl One<'_> {
    fn number<E: Error>(self, x: f64, text: impl FnOnce() -> String) -> Result<(), E> {
        match self.to {
            Cells::Numbers(cells) => cells.push(Some(x)),
            Cells::Texts(cells) => cells.push(text()),
        }
        Ok(())
    }

    fn no_cell<E: Error>(&self, what: &str) -> E {
        let (name, row) = (shown(self.name), self.to.len() + 1);
        let needed = match self.to {
            Cells::Numbers(_) => "a number",
            Cells::Texts(_) => "a text",
        };
        self.parser.wrong(format!("{}: column `{name}`, row {row}: {what} is not {needed}", self.source))
    }
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text or null")
    }

    fn visit_f64<E: Error>(self, x: f64) -> Result<(), E> {
        self.number(x, || written(x))
    }
    fn visit_i64<E: Error>(self, x: i64) -> Result<(), E> {
        self.number(x as f64, || x.to_string())
    }
    fn visit_u64<E: Error>(self, x: u64) -> Result<(), E> {
        self.number(x as f64, || x.to_string())
    }
    fn visit_bool<E: Error>(self, x: bool) -> Result<(), E> {
        self.number(f64::from(u8::from(x)), || x.to_string())
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.to {
            Cells::Numbers(_) if self.role != Role::Any => Err(self.no_cell(&format!("{:?}", shown(text)))),
            cells @ (Cells::Numbers(_) | Cells::Texts(_)) => {
                cells.push_text(text.to_owned());
                Ok(())
            }
        }
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.to {
            Cells::Numbers(cells) => cells.push(None),
            Cells::Texts(cells) => cells.push(String::new()),
        }
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(self.no_cell("a list"))
    }
    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(self.no_cell("an object"))
    }
}
