//! Arguments that say how a file is read.

use clap::Args as Group;

/// How a file is read; what is left out is found in the file.
#[derive(Debug, Group)]
pub(crate) struct ReadingArgs {
    /// Field separator; " " for runs of blanks, \t for a tab [default: detected].
    #[arg(long, value_name = "C", value_parser = separator)]
    pub(super) separator: Option<char>,
    /// Decimal mark of numbers: . or , [default: detected; a later file of the run is read by the same].
    #[arg(long, value_name = "C", value_parser = decimal)]
    pub(super) decimal: Option<char>,
    /// Separator of thousands: . , " " or ' [default: detected].
    #[arg(long, value_name = "C", value_parser = thousands)]
    pub(super) thousands: Option<char>,
    /// Date column, or columns such as year,month [default: detected].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) date_column: Option<Vec<String>>,
    /// Date format as in strftime (%d/%m/%Y %H:%M), or unix-s, unix-ms [default: detected].
    #[arg(long, value_name = "FORMAT")]
    pub(super) date_format: Option<String>,
    /// Column that names the series of each row, or columns [default: detected where a date has several rows].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) series_id: Option<Vec<String>>,
}

/// One character; `\t` for a tab, which few shells pass on.
fn separator(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("\\t", ..) => Ok('\t'),
        (_, Some(one), None) if one.is_ascii() => Ok(one),
        _ => Err("give one ASCII character, or \\t for a tab".to_owned()),
    }
}

/// One of some characters.
fn one_of(text: &str, known: &[char], rule: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if known.contains(&one) => Ok(one),
        _ => Err(rule.to_owned()),
    }
}

pub(super) fn decimal(text: &str) -> Result<char, String> {
    one_of(text, &['.', ','], "give . or ,")
}

fn thousands(text: &str) -> Result<char, String> {
    one_of(text, &['.', ',', ' ', '\''], "give . or , or a blank or an apostrophe")
}
