//! Histories of JSON. Cells are read into the columns of the run as they come; what the run does not read is skipped, so that memory
//! grows with the text and with nothing else.

mod cells;
mod parser;

pub(super) use self::cells::Cells;
use self::cells::{List, One, shown};
pub(super) use self::parser::Parser;
use super::answer::{Refusal, too_many};
use super::columns::{Columns, Role};
use hyper::StatusCode;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Cells that any request may have, however short its text is.
const FEW_CELLS: usize = 1 << 20;
/// Bytes of the name of a series.
const LONGEST_NAME: usize = 1024;
/// Names that are not read, to be shown where one is missing.
const SHOWN: usize = 20;

/// One history.
#[derive(Default)]
pub(super) struct History {
    pub(super) series: Option<String>,
    pub(super) table: Table,
    pub(super) future: Option<Table>,
}

/// The columns of a table that are read.
#[derive(Default)]
pub(super) struct Table {
    /// Dates beside the columns.
    pub(super) dates: Option<Cells>,
    pub(super) columns: Option<Vec<Column>>,
    pub(super) rows: Option<Vec<Column>>,
    /// Some of the names that are not read.
    pub(super) unread: Vec<String>,
}

/// A column, by its place among those of the run.
pub(super) struct Column {
    pub(super) place: usize,
    pub(super) cells: Cells,
}

impl Table {
    /// Its columns, with the dates that stand beside them, and some of the names that are not read.
    pub(super) fn only(self, read: &Columns, source: &str) -> Result<(Vec<Column>, Vec<String>), Refusal> {
        let wrong = |text: String| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, text);
        let Self { dates, columns, rows, unread } = self;
        let mut table = match (columns, rows) {
            (Some(_), Some(_)) => {
                return Err(wrong(format!("{source} has `columns` and `rows`; give one of them")));
            }
            (None, None) => {
                let (columns, none) =
                    (read.names.join(", "), format!("{source} has no `columns` and no `rows`"));
                return Err(wrong(match read.open {
                    true => format!("{none}; give one of them"),
                    false => format!("{none}; the run reads {columns}"),
                }));
            }
            (Some(table), None) | (None, Some(table)) => table,
        };
        if let Some(cells) = dates {
            let place = read.place(&read.date).unwrap_or_default();
            if table.iter().any(|column| column.place == place) {
                let date = &read.date;
                return Err(wrong(format!("{source} has `dates` and a column `{date}`; give one of them")));
            }
            table.insert(0, Column { place, cells });
        }
        Ok((table, unread))
    }
}

impl Parser<'_> {
    /// The histories of a body, and the names of the columns that stand in places beyond the known ones.
    pub(super) fn read(self, body: &[u8]) -> Result<(Vec<History>, Vec<String>), Refusal> {
        // A list has a comma for each.
        self.cells.set((body.len() / 2).max(FEW_CELLS));
        let mut reader = serde_json::Deserializer::from_slice(body);
        let read = Object { parser: &self, source: "the history", outer: true }
            .deserialize(&mut reader)
            .and_then(|read| reader.end().map(|()| read));
        let read = read.map_err(|why| {
            self.refusal.take().unwrap_or_else(|| {
                let text = format!("the body is not JSON of the form that GET / describes: {why}");
                Refusal::new(StatusCode::BAD_REQUEST, text)
            })
        })?;
        Ok((read, self.further()))
    }
}

/// Puts the value of a field, which stands there once, into its place.
fn once<T, E: Error>(place: &mut Option<T>, value: Option<T>, field: &'static str) -> Result<(), E> {
    match (place.is_some(), value) {
        (true, _) => Err(E::duplicate_field(field)),
        (false, value) => {
            *place = value;
            Ok(())
        }
    }
}

/// What a history, the rows after it, or the body has for fields.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Series,
    Dates,
    Columns,
    Rows,
    Future,
    Histories,
}

/// The body, or one of its histories.
#[derive(Clone, Copy)]
struct Object<'p> {
    parser: &'p Parser<'p>,
    source: &'p str,
    outer: bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Vec<History>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Vec<History>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the `columns` or the `rows` of {}", self.source)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { parser, source, outer } = self;
        let (mut single, mut any, mut several) = (History::default(), false, None);
        while let Some(field) = map.next_key::<Field>()? {
            any |= !matches!(field, Field::Histories);
            match field {
                Field::Series => {
                    let name = map.next_value::<Option<String>>()?;
                    if name.as_ref().is_some_and(|name| name.len() > LONGEST_NAME) {
                        return Err(parser.wrong(format!(
                            "{source}: the name of its series is longer than {LONGEST_NAME} bytes"
                        )));
                    }
                    once(&mut single.series, name, "series")?;
                }
                Field::Future => {
                    let read = parser.future.ok_or_else(|| parser.wrong(parser.history.no_future()))?;
                    let source = format!("`future` of {source}");
                    let seed = TableSeed { parser, read, source: &source };
                    once(&mut single.future, map.next_value_seed(Maybe(seed))?, "future")?;
                }
                Field::Histories if outer => {
                    let seed = Histories { parser };
                    once(&mut several, map.next_value_seed(Maybe(seed))?, "histories")?;
                }
                Field::Histories => {
                    return Err(
                        parser.wrong(format!("{source} has `histories` of its own; list them all in one"))
                    );
                }
                Field::Dates | Field::Columns | Field::Rows => {
                    let seed = TableSeed { parser, read: parser.history, source };
                    seed.field(field, &mut single.table, &mut map)?;
                }
            }
        }
        match several {
            Some(_) if any => {
                Err(parser.wrong("`histories` stands beside other fields; put those into each history"))
            }
            Some(all) if all.is_empty() => Err(parser.wrong("`histories` is empty; give at least one")),
            Some(all) => Ok(all),
            None => Ok(vec![single]),
        }
    }
}

/// Several histories.
struct Histories<'p> {
    parser: &'p Parser<'p>,
}

impl<'de> DeserializeSeed<'de> for Histories<'_> {
    type Value = Vec<History>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Histories<'_> {
    type Value = Vec<History>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of histories")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let parser = self.parser;
        let mut all = Vec::new();
        while all.len() < parser.most {
            let source = format!("history {}", all.len() + 1);
            let Some(mut one) = list.next_element_seed(Object { parser, source: &source, outer: false })?
            else {
                return Ok(all);
            };
            all.append(&mut one);
        }
        let mut count = all.len();
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        if count == all.len() {
            return Ok(all);
        }
        Err(parser.end(too_many(&count.to_string(), parser.most)))
    }
}

/// A field that may be null, which stands for nothing.
struct Maybe<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

/// A table of these columns.
#[derive(Clone, Copy)]
struct TableSeed<'p> {
    parser: &'p Parser<'p>,
    read: &'p Columns,
    source: &'p str,
}

impl TableSeed<'_> {
    /// Reads one field of the table.
    fn field<'de, A: MapAccess<'de>>(
        self,
        field: Field,
        to: &mut Table,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let Self { parser, read, source } = self;
        match field {
            Field::Dates => {
                let list = List { parser, role: Role::Date, name: &read.date, source };
                once(&mut to.dates, map.next_value_seed(Maybe(list))?, "dates")?;
            }
            Field::Columns => {
                let named = Named { table: self, unread: &mut to.unread };
                once(&mut to.columns, map.next_value_seed(Maybe(named))?, "columns")?;
            }
            Field::Rows => {
                let rows = Rows { table: self, unread: &mut to.unread };
                once(&mut to.rows, map.next_value_seed(Maybe(rows))?, "rows")?;
            }
            Field::Series | Field::Future | Field::Histories => {
                let text = format!("{source} has `dates`, and `columns` or `rows`, and nothing else");
                return Err(parser.wrong(text));
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for TableSeed<'_> {
    type Value = Table;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Table, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TableSeed<'_> {
    type Value = Table;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the `columns` or the `rows` of {}", self.source)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
        let mut table = Table::default();
        while let Some(field) = map.next_key::<Field>()? {
            self.field(field, &mut table, &mut map)?;
        }
        Ok(table)
    }
}

/// The name of a column: its place among those that are read.
struct Name<'p> {
    parser: &'p Parser<'p>,
    read: &'p Columns,
    unread: &'p mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a column")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let place = self.parser.place(self.read, name)?;
        if place.is_none() && self.unread.len() < SHOWN {
            let name = shown(name);
            if !self.unread.contains(&name) {
                self.unread.push(name);
            }
        }
        Ok(place)
    }
}

/// Columns by their names.
struct Named<'p> {
    table: TableSeed<'p>,
    unread: &'p mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = Vec<Column>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Named<'_> {
    type Value = Vec<Column>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the columns of {}, a list each", self.table.source)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let TableSeed { parser, read, source } = self.table;
        let mut columns: Vec<Column> = Vec::new();
        while let Some(place) = map.next_key_seed(Name { parser, read, unread: &mut *self.unread })? {
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let (name, role) = parser.column(read, place);
            if columns.iter().any(|column| column.place == place) {
                let name = shown(&name);
                return Err(parser.wrong(format!(
                    "{source}: column `{name}` is there twice; give each column its own name"
                )));
            }
            let cells = map.next_value_seed(List { parser, role, name: &name, source })?;
            columns.push(Column { place, cells });
        }
        Ok(columns)
    }
}

/// Rows, whose cells go into the columns that they name.
struct Rows<'p> {
    table: TableSeed<'p>,
    unread: &'p mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = Vec<Column>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = Vec<Column>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of the rows of {}", self.table.source)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let parser = self.table.parser;
        let mut columns: Vec<Column> = Vec::new();
        // Where the column of a place stands among those.
        let mut at: Vec<Option<usize>> = vec![None; self.table.read.len()];
        let mut row = 0;
        while list
            .next_element_seed(Row {
                table: self.table,
                unread: &mut *self.unread,
                columns: &mut columns,
                at: &mut at,
                row,
            })?
            .is_some()
        {
            row += 1;
        }
        for column in &mut columns {
            parser.spend(row - column.cells.len())?;
            column.cells.resize(row);
        }
        Ok(columns)
    }
}

/// One row.
struct Row<'p> {
    table: TableSeed<'p>,
    unread: &'p mut Vec<String>,
    columns: &'p mut Vec<Column>,
    at: &'p mut Vec<Option<usize>>,
    row: usize,
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of {} as an object with the names of columns", self.row + 1, self.table.source)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let TableSeed { parser, read, source } = self.table;
        let row = self.row;
        while let Some(place) = map.next_key_seed(Name { parser, read, unread: &mut *self.unread })? {
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let (name, role) = parser.column(read, place);
            if self.at.len() <= place {
                self.at.resize(place + 1, None);
            }
            let at = match self.at.get(place).copied().flatten() {
                Some(at) => at,
                None => {
                    self.columns.push(Column { place, cells: Cells::of(role) });
                    let at = self.columns.len() - 1;
                    if let Some(known) = self.at.get_mut(place) {
                        *known = Some(at);
                    }
                    at
                }
            };
            let Some(column) = self.columns.get_mut(at) else { continue };
            // The last of equal names in a row counts, as in most readers of JSON.
            parser.spend((row + 1).saturating_sub(column.cells.len()))?;
            column.cells.resize(row);
            map.next_value_seed(One { parser, role, name: &name, source, to: &mut column.cells })?;
        }
        Ok(())
    }
}
