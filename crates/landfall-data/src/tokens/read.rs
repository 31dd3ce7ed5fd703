//! Reads samples of tokens from a delimited text file, in either of two forms.
//!
//! *Long*: a row for each sample and token, with columns `sample`, `token`, the features, and `label`. *Wide*: a row for
//! each sample, with columns `token.feature` and `token.label`, and `sample` if samples have names. Tokens, features and
//! samples come in the order in which the file has them first; a run that knows its tokens and features puts them into
//! its own order.

use crate::cells::numbers::{Number, number};
use crate::error::DataError;
use crate::error::read::ReadError;
use crate::error::series::SeriesError;
use crate::error::tokens::TokenError;
use crate::message::list;
use crate::message::place::Place;
use crate::read::csv::Row;
use crate::read::csv::{Rows, is_data};
use crate::read::file_bytes;
use crate::read::sheet::check_fields;
use crate::series::first_duplicate;
use crate::tokens::{TokenData, TokenNames};
use std::collections::HashMap;
use std::path::Path;

const SAMPLE: &str = "sample";
const TOKEN: &str = "token";
const LABEL: &str = "label";

/// What one token of one sample is made of.
#[derive(Debug, Clone)]
struct Cells {
    token: String,
    /// Fields and column names of its features, in the order of the file's first token.
    features: Vec<(usize, String)>,
    /// Field and column name of its class.
    label: Option<(usize, String)>,
}

/// What the fields of a row hold.
struct Form {
    sample: Option<usize>,
    /// The field that names the token, where a row is one token.
    token: Option<usize>,
    /// The tokens of a row; of a row that is one token, the token that it names.
    cells: Vec<Cells>,
    features: Vec<String>,
}

impl Form {
    fn new(file: &str, names: &[String], known: Option<&TokenNames>) -> Result<Self, DataError> {
        if let Some(position) = names.iter().position(String::is_empty) {
            return Err(DataError::Read(ReadError::UnnamedColumn {
                file: file.to_owned(),
                position: position + 1,
            }));
        }
        if let Some(name) = first_duplicate(names) {
            return Err(DataError::Series(SeriesError::DuplicateColumn {
                file: file.to_owned(),
                name: name.to_owned(),
            }));
        }
        let at = |name: &str| names.iter().position(|n| n == name);
        let (sample, token) = (at(SAMPLE), at(TOKEN));
        let mut form = match (sample, token) {
            (Some(_), Some(_)) => Self::long(names),
            (None, Some(_)) => {
                let known = names.to_vec();
                return Err(DataError::Series(SeriesError::UnknownColumn {
                    file: file.to_owned(),
                    name: SAMPLE.to_owned(),
                    known,
                }));
            }
            (_, None) => Self::wide(file, names)?,
        };
        (form.sample, form.token) = (sample, token);
        if form.features.is_empty() {
            return Err(TokenError::NoFeature { file: file.to_owned() }.into());
        }
        if let Some(known) = known {
            form.order_features(file, &known.features)?;
        }
        Ok(form)
    }

    /// A row for each sample and token.
    fn long(names: &[String]) -> Self {
        let all = || names.iter().cloned().enumerate();
        let of = |name: &str| ![SAMPLE, TOKEN, LABEL].contains(&name);
        let features: Vec<(usize, String)> = all().filter(|(_, name)| of(name)).collect();
        let label = all().find(|(_, name)| name == LABEL);
        let names = features.iter().map(|(_, name)| name.clone()).collect();
        let cells = vec![Cells { token: String::new(), features, label }];
        Self { sample: None, token: None, cells, features: names }
    }

    /// A row for each sample.
    fn wide(file: &str, names: &[String]) -> Result<Self, DataError> {
        let mut cells: Vec<Cells> = Vec::new();
        for (field, column) in names.iter().enumerate().filter(|(_, name)| *name != SAMPLE) {
            // Tokens may have points in their names, features not.
            let Some((token, feature)) =
                column.rsplit_once('.').filter(|(t, f)| !t.is_empty() && !f.is_empty())
            else {
                return Err(TokenError::NoToken { file: file.to_owned(), column: column.clone() }.into());
            };
            let place = cells.iter().position(|c| c.token == token).unwrap_or(cells.len());
            if place == cells.len() {
                cells.push(Cells { token: token.to_owned(), features: Vec::new(), label: None });
            }
            match feature {
                LABEL => cells[place].label = Some((field, column.clone())),
                _ => cells[place].features.push((field, column.clone())),
            }
        }
        let feature = |column: &str| column.rsplit_once('.').map_or("", |(_, f)| f).to_owned();
        let (features, like) = match cells.first() {
            Some(c) => (c.features.iter().map(|(_, name)| feature(name)).collect(), c.token.clone()),
            None => (Vec::new(), String::new()),
        };
        let features: Vec<String> = features;
        let other = |token: &str, feature: &str, like: &str| TokenError::OtherFeatures {
            file: file.to_owned(),
            column: format!("{token}.{feature}"),
            like: like.to_owned(),
        };
        for c in &mut cells {
            if let Some((_, more)) = c.features.iter().find(|(_, name)| !features.contains(&feature(name))) {
                return Err(other(&like, &feature(more), &c.token).into());
            }
            let ordered = features.iter().map(|name| {
                let own = c.features.iter().find(|(_, column)| feature(column) == *name);
                own.cloned().ok_or_else(|| other(&c.token, name, &like))
            });
            c.features = ordered.collect::<Result<_, _>>()?;
        }
        Ok(Self { sample: None, token: None, cells, features })
    }

    /// Puts the features into a run's order.
    fn order_features(&mut self, file: &str, known: &[String]) -> Result<(), DataError> {
        let place = |name: &String| {
            let absent = || TokenError::AbsentFeature { file: file.to_owned(), feature: name.clone() };
            self.features.iter().position(|f| f == name).ok_or_else(absent)
        };
        let places = known.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        if self.features.len() != known.len() {
            let (found, expected) = (self.features.len(), known.len());
            return Err(TokenError::MoreFeatures { file: file.to_owned(), found, expected }.into());
        }
        for c in &mut self.cells {
            c.features = places.iter().map(|&p| c.features[p].clone()).collect();
        }
        known.clone_into(&mut self.features);
        Ok(())
    }
}

/// Names and their numbers, in the order of their first use; with a run's names no others.
#[derive(Default)]
struct Numbered {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    closed: bool,
}

impl Numbered {
    fn of(known: Option<&Vec<String>>) -> Self {
        let names = known.cloned().unwrap_or_default();
        let numbers = names.iter().cloned().zip(0..).collect();
        Self { names, numbers, closed: known.is_some() }
    }

    fn number(&mut self, name: &str) -> Option<usize> {
        if let Some(&number) = self.numbers.get(name) {
            return Some(number);
        }
        if self.closed {
            return None;
        }
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        Some(self.names.len() - 1)
    }
}

/// One token of one sample, as it was read.
struct Entry {
    sample: usize,
    token: usize,
    /// Number of its class, in the order of first use.
    label: Option<usize>,
    /// Where its features begin.
    values: usize,
}

struct Reading<'a> {
    file: &'a str,
    comma: bool,
    form: Form,
    labelled: bool,
    samples: Numbered,
    tokens: Numbered,
    classes: Numbered,
    entries: Vec<Entry>,
    /// Entry of each sample and token.
    places: HashMap<(usize, usize), usize>,
    values: Vec<f32>,
}

impl Reading<'_> {
    fn row(&mut self, row: &Row) -> Result<(), DataError> {
        let at = || Place::line(self.file, row.line);
        let cell = |field: usize| row.cells.get(field).unwrap_or_default().trim();
        let named = |field: Option<usize>, column| match field.map(cell) {
            Some("") => Err(TokenError::Unnamed { at: at(), column }),
            found => Ok(found),
        };
        let counted = (self.samples.names.len() + 1).to_string();
        let sample = named(self.form.sample, SAMPLE)?.unwrap_or(&counted);
        let named_token = named(self.form.token, TOKEN)?;
        let before = self.samples.names.len();
        let number_of_sample = self.samples.number(sample).unwrap_or(before);
        if named_token.is_none() && number_of_sample < before {
            return Err(TokenError::SampleTwice { at: at(), sample: sample.to_owned() }.into());
        }
        for cells in &self.form.cells {
            let token = named_token.unwrap_or(&cells.token);
            let Some(number_of_token) = self.tokens.number(token) else {
                let (token, known) = (token.to_owned(), list(&self.tokens.names));
                return Err(TokenError::UnknownToken { at: at(), token, known }.into());
            };
            let values = self.values.len();
            for (field, column) in &cells.features {
                self.values.push(feature(cell(*field), self.comma, column, at)?);
            }
            let label = match cells.label.as_ref().filter(|_| self.labelled) {
                None => None,
                Some((field, column)) => {
                    let (text, column) = (cell(*field), column.clone());
                    if matches!(number(text, self.comma), Number::Missing) {
                        return Err(TokenError::MissingLabel { at: at(), column }.into());
                    }
                    let class = self.classes.number(text);
                    let known = || list(&self.classes.names);
                    let unknown = || TokenError::UnknownClass {
                        at: at(),
                        column,
                        text: text.to_owned(),
                        known: known(),
                    };
                    Some(class.ok_or_else(unknown)?)
                }
            };
            let place = (number_of_sample, number_of_token);
            if self.places.insert(place, self.entries.len()).is_some() {
                let (sample, token) = (sample.to_owned(), token.to_owned());
                return Err(TokenError::Twice { at: at(), sample, token }.into());
            }
            self.entries.push(Entry { sample: place.0, token: place.1, label, values });
        }
        Ok(())
    }

    fn finish(self) -> Result<TokenData, DataError> {
        let (samples, tokens, features) =
            (self.samples.names.len(), self.tokens.names.len(), self.form.features.len());
        let (order, classes) = sorted(self.classes);
        if self.labelled && classes.len() < 2 {
            let class = classes.into_iter().next().unwrap_or_default();
            return Err(TokenError::OneClass { file: self.file.to_owned(), class }.into());
        }
        if self.entries.len() != samples * tokens {
            let absent = |&place: &(usize, usize)| !self.places.contains_key(&place);
            let missing = (0..samples).flat_map(|s| (0..tokens).map(move |t| (s, t))).find(absent);
            let (s, t) = missing.unwrap_or_default();
            let (sample, token) = (self.samples.names[s].clone(), self.tokens.names[t].clone());
            return Err(TokenError::AbsentToken { file: self.file.to_owned(), sample, token }.into());
        }
        let mut inputs = vec![0.0; samples * tokens * features];
        let mut labels = vec![0; if self.labelled { samples * tokens } else { 0 }];
        for e in &self.entries {
            let at = e.sample * tokens + e.token;
            inputs[at * features..][..features].copy_from_slice(&self.values[e.values..][..features]);
            if let Some(label) = e.label {
                labels[at] = order[label];
            }
        }
        let names = TokenNames { tokens: self.tokens.names, classes, features: self.form.features };
        let (source, samples) = (self.file.to_owned(), self.samples.names);
        Ok(TokenData { source, names, samples, inputs, labels, bayes: None })
    }
}

/// Classes in the order of their numbers where all are whole numbers, else of their names, unless a run has its own; and
/// each one's place in that order.
fn sorted(classes: Numbered) -> (Vec<i64>, Vec<String>) {
    let mut names = classes.names.clone();
    if !classes.closed {
        let numbers: Option<Vec<i64>> = names.iter().map(|name| name.parse().ok()).collect();
        match numbers {
            Some(_) => names.sort_by_key(|name| name.parse::<i64>().unwrap_or_default()),
            None => names.sort(),
        }
    }
    let places: HashMap<&String, i64> = names.iter().zip(0..).collect();
    (classes.names.iter().map(|name| places[name]).collect(), names)
}

fn feature(text: &str, comma: bool, column: &str, at: impl Fn() -> Place) -> Result<f32, DataError> {
    let column = || column.to_owned();
    match number(text, comma) {
        Number::Finite(value) if (value as f32).is_finite() => Ok(value as f32),
        Number::Missing => Err(TokenError::Missing { at: at(), column: column() }.into()),
        Number::Finite(_) | Number::Infinite | Number::Text => {
            Err(TokenError::Number { at: at(), column: column(), text: text.to_owned() }.into())
        }
    }
}

impl TokenData {
    /// Reads a file. `known` are a run's tokens, classes and features; `labelled` says that classes are needed, and
    /// without it they are not looked at.
    ///
    /// # Errors
    /// Whatever keeps the file from being samples, with its line and column.
    pub fn read(path: &Path, known: Option<&TokenNames>, labelled: bool) -> Result<Self, DataError> {
        Self::parse(&file_bytes(path)?, &path.display().to_string(), known, labelled)
    }

    /// Reads a file's text; `file` names it in messages.
    ///
    /// ```
    /// use landfall_data::TokenData;
    /// let text = "sample,token,return,label\n1,btc,0.5,up\n1,eth,-0.5,down\n2,btc,0.25,up\n2,eth,0.125,up\n";
    /// let data = TokenData::parse(text.as_bytes(), "tokens.csv", None, true)?;
    /// assert_eq!(data.names.tokens, ["btc", "eth"]);
    /// assert_eq!((data.inputs, data.labels), (vec![0.5, -0.5, 0.25, 0.125], vec![1, 0, 1, 1])); // down, up
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// As [`TokenData::read`].
    pub fn parse(
        bytes: &[u8],
        file: &str,
        known: Option<&TokenNames>,
        labelled: bool,
    ) -> Result<Self, DataError> {
        let mut rows = Rows::of_text(bytes, file)?;
        let Some(header) = rows.next() else {
            return Err(DataError::Read(ReadError::Empty { file: file.to_owned() }));
        };
        let names: Vec<String> = header?.cells.iter().map(|cell| cell.trim().to_owned()).collect();
        let comma = rows.decimal_comma();
        if is_data(&names, comma) {
            return Err(DataError::Read(ReadError::NoHeader { file: file.to_owned() }));
        }
        let form = Form::new(file, &names, known)?;
        let unlabelled = form.cells.iter().find(|c| c.label.is_none());
        if let (true, Some(cells)) = (labelled, unlabelled) {
            let column =
                if form.token.is_some() { LABEL.to_owned() } else { format!("{}.{LABEL}", cells.token) };
            return Err(TokenError::NoLabel { file: file.to_owned(), column }.into());
        }
        let mut reading = Reading {
            file,
            comma,
            form,
            labelled,
            samples: Numbered::default(),
            tokens: Numbered::of(known.map(|k| &k.tokens)),
            classes: Numbered::of(known.map(|k| &k.classes)),
            entries: Vec::new(),
            places: HashMap::new(),
            values: Vec::new(),
        };
        for row in rows {
            let row = row?;
            let at = || Place::line(file, row.line);
            check_fields(names.len(), row.cells.len(), at)?;
            reading.row(&row)?;
        }
        if reading.entries.is_empty() {
            return Err(DataError::Series(SeriesError::HeaderOnly { file: file.to_owned() }));
        }
        reading.finish()
    }
}
