//! The written forms of dates: found from the cells of a column, read, and written back.
//!
//! A form is a format of [`chrono::format::strftime`] where chrono has one (`%Y-%m-%d %H:%M:%S`), and otherwise one of
//! a few of our own: a quarter of a year, a week of a year, a time counted since 1970, a year as a number. [`Forms`]
//! starts from every form that the first cell allows and keeps those that every further cell allows.

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Weekday};

/// The way dates are written, so that forecasts continue in the form of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateForm(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// A chrono format of a date, or of a date and time.
    Format {
        format: String,
        /// The same without its time of day: some exporters leave out midnight.
        date: Option<String>,
        /// Whether the text holds an offset from UTC; dates are then UTC.
        offset: bool,
    },
    /// `2020Q1`, `Q1 2020`: what stands before, between and behind, and whether the year comes first.
    Quarter { year_first: bool, between: String },
    /// `2020-W05`: a week of ISO 8601; its Monday.
    Week { between: String },
    /// So many units a second since 1970.
    Epoch { per_second: i64 },
}

/// Names of months and days as chrono reads and writes them.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

impl DateForm {
    /// The form of a strftime format.
    ///
    /// # Errors
    /// A sentence for a format that is none, or that names no year.
    pub fn of_format(format: &str) -> Result<Self, String> {
        let items: Vec<Item<'_>> = StrftimeItems::new(format).collect();
        if items.iter().any(|item| matches!(item, Item::Error)) {
            return Err(format!("`{format}` is no strftime format; write it as in %Y-%m-%d %H:%M"));
        }
        let year = ["%Y", "%y", "%G", "%F", "%D", "%s", "%c", "%x", "%C"].iter().any(|y| format.contains(y));
        if !year {
            return Err(format!("`{format}` has no year; write it as in %Y-%m-%d %H:%M"));
        }
        if format == "%s" {
            return Ok(Self(Form::Epoch { per_second: 1 }));
        }
        let offset = ["%z", "%:z", "%#z", "%+"].iter().any(|z| format.contains(z));
        Ok(Self(Form::Format { format: format.to_owned(), date: None, offset }))
    }

    /// Reads a cell of this form.
    pub fn parse(&self, text: &str) -> Option<NaiveDateTime> {
        match &self.0 {
            Form::Format { format, date, offset } => parse_format(text, format, *offset)
                .or_else(|| date.as_ref().and_then(|date| parse_format(text, date, false))),
            Form::Quarter { year_first, between } => {
                let (year, quarter) = if *year_first {
                    let (year, rest) = text.split_at_checked(4)?;
                    (year, strip_q(rest.strip_prefix(between.as_str())?)?)
                } else {
                    let (quarter, year) = strip_q(text)?.split_at_checked(1)?;
                    (year.strip_prefix(between.as_str())?, quarter)
                };
                let quarter = digits(quarter).filter(|q| (1..=4).contains(q) && quarter.len() == 1)?;
                NaiveDate::from_ymd_opt(year_of(year)?, quarter * 3 - 2, 1)
                    .map(|d| d.and_time(NaiveTime::MIN))
            }
            Form::Week { between } => {
                let (year, rest) = text.split_at_checked(4)?;
                let week = rest.strip_prefix(between.as_str())?.strip_prefix(['W', 'w'])?;
                NaiveDate::from_isoywd_opt(
                    year_of(year)?,
                    digits(week).filter(|_| week.len() <= 2)?,
                    Weekday::Mon,
                )
                .map(|d| d.and_time(NaiveTime::MIN))
            }
            Form::Epoch { per_second } => epoch(text, *per_second),
        }
    }

    /// Writes a date in this form.
    pub fn format(&self, date: NaiveDateTime) -> String {
        match &self.0 {
            Form::Format { format, offset: true, .. } => date.and_utc().format(format).to_string(),
            Form::Format { format, .. } => date.format(format).to_string(),
            Form::Quarter { year_first, between } => {
                let (year, quarter) = (date.year(), date.month0() / 3 + 1);
                if *year_first {
                    format!("{year:04}{between}Q{quarter}")
                } else {
                    format!("Q{quarter}{between}{year:04}")
                }
            }
            Form::Week { between } => {
                let week = date.iso_week();
                format!("{:04}{between}W{:02}", week.year(), week.week())
            }
            Form::Epoch { per_second } => {
                let nanos = i128::from(date.and_utc().timestamp()) * 1_000_000_000
                    + i128::from(date.and_utc().timestamp_subsec_nanos());
                (nanos / (1_000_000_000 / i128::from(*per_second))).to_string()
            }
        }
    }

    /// What the form is called in messages: its strftime format, or an example.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.0 {
            Form::Format { format, .. } => format.clone(),
            Form::Quarter { year_first: true, between } => format!("2020{between}Q1"),
            Form::Quarter { between, .. } => format!("Q1{between}2020"),
            Form::Week { between } => format!("2020{between}W05"),
            Form::Epoch { per_second: 1 } => "seconds since 1970".to_owned(),
            Form::Epoch { per_second: 1_000 } => "milliseconds since 1970".to_owned(),
            Form::Epoch { per_second: 1_000_000 } => "microseconds since 1970".to_owned(),
            Form::Epoch { .. } => "nanoseconds since 1970".to_owned(),
        }
    }

    /// Whether its dates were converted to UTC.
    #[must_use]
    pub fn is_utc(&self) -> bool {
        matches!(&self.0, Form::Format { offset: true, .. })
    }
}

fn strip_q(text: &str) -> Option<&str> {
    text.strip_prefix(['Q', 'q'])
}

/// Digits only: `u32::from_str` alone would also take a plus sign.
fn digits(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn year_of(text: &str) -> Option<i32> {
    (text.len() == 4).then(|| digits(text)).flatten().and_then(|y| i32::try_from(y).ok())
}

fn epoch(text: &str, per_second: i64) -> Option<NaiveDateTime> {
    let count = text.parse::<i64>().ok()?;
    let nanos = count.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let date =
        DateTime::from_timestamp(count.div_euclid(per_second), u32::try_from(nanos).ok()?)?.naive_utc();
    // Milliseconds read as seconds land tens of thousands of years away.
    (0..=9999).contains(&date.year()).then_some(date)
}

/// Reads a text of a chrono format; a part of a date that the format leaves out is the first.
fn parse_format(text: &str, format: &str, offset: bool) -> Option<NaiveDateTime> {
    // A year of two digits or five is a mistake where four are written.
    if format.starts_with("%Y") && !text.bytes().take(4).all(|b| b.is_ascii_digit()) {
        return None;
    }
    if offset {
        return DateTime::parse_from_str(&text.replace('Z', "+00:00"), &format.replace('Z', "%:z"))
            .ok()
            .map(|d| d.naive_utc());
    }
    let clock =
        format.contains("%H") || format.contains("%-H") || format.contains("%I") || format.contains("%-I");
    let date = if clock && !format.contains("%M") {
        NaiveDateTime::parse_from_str(&format!("{text}:00"), &format!("{format}:%M")).ok()
    } else if clock {
        NaiveDateTime::parse_from_str(text, format).ok()
    } else {
        let has = |codes: &[&str]| codes.iter().any(|code| format.contains(code));
        let (text, format) = if has(&["%d", "%-d", "%e", "%j", "%F", "%D", "%x"]) {
            (text.to_owned(), format.to_owned())
        } else if has(&["%m", "%-m", "%b", "%B"]) {
            (format!("{text} 1"), format!("{format} %d"))
        } else {
            (format!("{text} 1 1"), format!("{format} %m %d"))
        };
        NaiveDate::parse_from_str(&text, &format).ok().map(|d| d.and_time(NaiveTime::MIN))
    };
    // More than four digits are no year that a file means.
    date.filter(|d| (0..=9999).contains(&d.year()))
}

/// A run of digits, of letters, or of anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Digits(&'a str),
    Word(&'a str),
    Other(&'a str),
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let class = |c: char| {
        if c.is_ascii_digit() {
            0
        } else if c.is_alphabetic() {
            1
        } else {
            2
        }
    };
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| class(c) != class(first)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        out.push(match class(first) {
            0 => Token::Digits(token),
            1 => Token::Word(token),
            _ => Token::Other(token),
        });
        rest = after;
    }
    out
}

/// Cells after which padding is known.
const SAMPLE: usize = 1000;

/// The forms that all cells so far allow.
#[derive(Debug, Clone)]
pub(crate) struct Forms {
    alive: Vec<DateForm>,
    /// For each, how many cells it writes back exactly, so that padding is as in the file.
    exact: Vec<usize>,
    cells: usize,
    /// Whether whole numbers may be counts since 1970: in a column that dates go by.
    named: bool,
}

impl Forms {
    /// No cell yet, of a column whose name is one that dates go by, or not.
    pub(crate) fn new(named: bool) -> Self {
        Self { alive: Vec::new(), exact: Vec::new(), cells: 0, named }
    }

    /// Takes the next cell; whether a form is left.
    pub(crate) fn push(&mut self, text: &str) -> bool {
        if self.cells == 0 {
            self.alive = candidates(text, self.named);
            self.exact = vec![0; self.alive.len()];
        }
        self.cells += 1;
        if self.cells == SAMPLE {
            self.prune();
        }
        if self.cells > 1 && self.alive.is_empty() {
            return false;
        }
        let mut keep = Vec::with_capacity(self.alive.len());
        for (form, exact) in self.alive.iter().zip(&mut self.exact) {
            let date = form.parse(text);
            *exact += usize::from(date.is_some_and(|d| form.format(d) == text));
            keep.push(date.is_some());
        }
        // The first row may lack a time of day that later rows have.
        if !keep.contains(&true) && self.cells > 1 {
            let finer: Vec<DateForm> = candidates(text, self.named)
                .into_iter()
                .filter(|f| matches!(&f.0, Form::Format { date: Some(d), .. } if self.alive.iter().any(|a| matches!(&a.0, Form::Format { format, .. } if format == d))))
                .collect();
            self.exact = vec![0; finer.len()];
            self.alive = finer;
            return !self.alive.is_empty();
        }
        let mut kept = keep.iter();
        self.exact.retain(|_| kept.next().is_some_and(|k| *k));
        let mut kept = keep.iter();
        self.alive.retain(|_| kept.next().is_some_and(|k| *k));
        !self.alive.is_empty()
    }

    /// Of forms that differ in padding alone, keeps the one that writes most cells back exactly: the cells so far tell.
    fn prune(&mut self) {
        let loose = |form: &DateForm| form.name().replace("%-", "%");
        let mut best: Vec<(usize, DateForm)> = Vec::new();
        for (exact, form) in self.exact.drain(..).zip(self.alive.drain(..)) {
            match best.iter_mut().find(|(_, b)| loose(b) == loose(&form)) {
                Some(same) if exact > same.0 => *same = (exact, form),
                Some(_) => {}
                None => best.push((exact, form)),
            }
        }
        (self.exact, self.alive) = best.into_iter().unzip();
    }

    /// The forms that are left, the one that writes most cells back exactly first.
    pub(crate) fn finish(self) -> Vec<DateForm> {
        let mut all: Vec<(usize, DateForm)> = self.exact.into_iter().zip(self.alive).collect();
        all.sort_by_key(|(exact, _)| std::cmp::Reverse(*exact));
        all.into_iter().map(|(_, form)| form).collect()
    }
}

/// Every form that a text may be of.
fn candidates(text: &str, named: bool) -> Vec<DateForm> {
    let all = tokens(text);
    let mut forms: Vec<Form> = Vec::new();
    if let [Token::Digits(number)] = all.as_slice() {
        forms.extend(compact(number));
    }
    if named && text.parse::<i64>().is_ok() {
        let units: [i64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];
        // A count of one unit, read as one of a coarser unit, is far in the future; of a finer one, in January 1970.
        let recent = |per: &i64| epoch(text, *per).is_some_and(|d| (1971..=2200).contains(&d.year()));
        forms.extend(units.into_iter().filter(recent).map(|per_second| Form::Epoch { per_second }));
    }
    match all.as_slice() {
        [Token::Digits(y), Token::Word("Q" | "q"), Token::Digits(_)] if y.len() == 4 => {
            forms.push(Form::Quarter { year_first: true, between: String::new() });
        }
        [Token::Digits(y), Token::Other(between), Token::Word("Q" | "q"), Token::Digits(_)]
            if y.len() == 4 =>
        {
            forms.push(Form::Quarter { year_first: true, between: (*between).to_owned() });
        }
        [Token::Word("Q" | "q"), Token::Digits(q), Token::Other(between), Token::Digits(_)]
            if q.len() == 1 =>
        {
            forms.push(Form::Quarter { year_first: false, between: (*between).to_owned() });
        }
        [Token::Digits(y), Token::Word("W"), Token::Digits(_)] if y.len() == 4 => {
            forms.push(Form::Week { between: String::new() });
        }
        [Token::Digits(y), Token::Other(between), Token::Word("W"), Token::Digits(_)] if y.len() == 4 => {
            forms.push(Form::Week { between: (*between).to_owned() });
        }
        _ => {}
    }
    for (date, used) in dates(&all) {
        let Some(rest) = all.get(used..) else { continue };
        if rest.is_empty() {
            forms.extend(padded(&date).into_iter().map(|format| Form::Format {
                format,
                date: None,
                offset: false,
            }));
            continue;
        }
        for (clock, offset) in clocks(rest) {
            for date in padded(&date) {
                for hour in [clock.clone(), clock.replace("%H", "%-H").replace("%I", "%-I")] {
                    forms.push(Form::Format {
                        format: format!("{date}{hour}"),
                        date: Some(date.clone()),
                        offset,
                    });
                }
            }
        }
    }
    forms.dedup();
    forms.into_iter().map(DateForm).filter(|f| f.parse(text).is_some()).collect()
}

/// A date written as one number.
fn compact(number: &str) -> Vec<Form> {
    let formats: &[&str] = match number.len() {
        4 => &["%Y"],
        6 => &["%Y%m"],
        8 => &["%Y%m%d"],
        12 => &["%Y%m%d%H%M"],
        14 => &["%Y%m%d%H%M%S"],
        _ => &[],
    };
    let of = |format: &&str| Form::Format { format: (**format).to_owned(), date: None, offset: false };
    formats.iter().map(of).collect()
}

/// A date's format with its month and day padded to two digits, and without.
fn padded(format: &str) -> Vec<String> {
    let bare = format.replace("%m", "%-m").replace("%d", "%-d");
    if bare == format { vec![format.to_owned()] } else { vec![format.to_owned(), bare] }
}

/// Formats of the date that tokens begin with, and how many tokens it takes.
fn dates(all: &[Token<'_>]) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    // A day of the week before the date.
    let (lead, skip) = match all {
        [Token::Word(day), Token::Other(sep), ..] if name(day, &DAYS).is_some() => {
            let code = if day.len() > 3 { "%A" } else { "%a" };
            (format!("{code}{}", escaped(sep)), 2)
        }
        _ => (String::new(), 0),
    };
    let rest = all.get(skip..).unwrap_or_default();
    let separates = |token: &Token<'_>| match token {
        Token::Other(text) => text.len() <= 3 && text.chars().all(|c| "-/., _':+".contains(c)),
        Token::Digits(_) | Token::Word(_) => true,
    };
    // Between the parts of a date stands one mark, and a blank at most beside it.
    let marks = |token: &Token<'_>| matches!(token, Token::Other(text) if text.trim().len() > 1);
    if !rest.iter().take(5).all(separates) || rest.iter().take(4).any(marks) {
        return out;
    }
    let part = |token: &Token<'_>| -> Vec<&'static str> {
        match token {
            Token::Digits(d) => match d.len() {
                4 => vec!["%Y"],
                2 => vec!["%m", "%d", "%y"],
                1 => vec!["%m", "%d"],
                _ => Vec::new(),
            },
            Token::Word(w) if name(w, &MONTHS).is_some() => {
                vec![if w.len() > 3 { "%B" } else { "%b" }]
            }
            Token::Word(_) | Token::Other(_) => Vec::new(),
        }
    };
    let is = |parts: &[&str], years: usize, months: usize, days: usize| {
        let count = |of: &[&str]| parts.iter().filter(|p| of.contains(p)).count();
        count(&["%Y", "%y"]) == years && count(&["%m", "%b", "%B"]) == months && count(&["%d"]) == days
    };
    if let [a, Token::Other(x), b, Token::Other(y), c, ..] = rest {
        for (a, b, c) in product(&part(a), &part(b), &part(c)) {
            // The year stands at an end; where it is the first, the month follows, and where its two digits are, a hyphen.
            let year = |part: &str| matches!(part, "%Y" | "%y");
            let ordered = !year(b) && (!year(a) || b != "%d");
            if is(&[a, b, c], 1, 1, 1) && ordered && !(a == "%y" && *x != "-") {
                out.push((format!("{lead}{a}{}{b}{}{c}", escaped(x), escaped(y)), skip + 5));
            }
        }
    }
    // `Jan1995`, `2020Jan05`: words need no separator.
    if let [a, Token::Other(x), b] = rest {
        for a in part(a) {
            for b in part(b) {
                if is(&[a, b], 1, 1, 0) && (a != "%y") && (b != "%y" || matches!(a, "%b" | "%B")) {
                    out.push((format!("{lead}{a}{}{b}", escaped(x)), skip + 3));
                }
            }
        }
    }
    if let [a @ Token::Word(_), b @ Token::Digits(_)] | [a @ Token::Digits(_), b @ Token::Word(_)] = rest {
        for a in part(a) {
            for b in part(b) {
                if is(&[a, b], 1, 1, 0) && a != "%y" {
                    out.push((format!("{lead}{a}{b}"), skip + 2));
                }
            }
        }
    }
    if let [a @ Token::Digits(_), b @ Token::Word(_), c @ Token::Digits(_), ..] = rest {
        for (a, b, c) in product(&part(a), &part(b), &part(c)) {
            if is(&[a, b, c], 1, 1, 1) && b != "%d" {
                out.push((format!("{lead}{a}{b}{c}"), skip + 3));
            }
        }
    }
    if let [Token::Digits(d), ..] = rest
        && d.len() == 8
        && rest.len() > 1
    {
        out.push((format!("{lead}%Y%m%d"), skip + 1));
    }
    out
}

fn product<'a>(a: &[&'a str], b: &[&'a str], c: &[&'a str]) -> Vec<(&'a str, &'a str, &'a str)> {
    let mut out = Vec::new();
    for a in a {
        for b in b {
            out.extend(c.iter().map(|c| (*a, *b, *c)));
        }
    }
    out
}

/// The number of a name, in full or of its first three letters.
fn name(word: &str, names: &[&str]) -> Option<usize> {
    let word = word.to_lowercase();
    names.iter().position(|n| *n == word || (word.len() == 3 && n.starts_with(&word)))
}

fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

/// Formats of the time of day that tokens hold, with whether an offset from UTC follows.
fn clocks(all: &[Token<'_>]) -> Vec<(String, bool)> {
    let (lead, rest) = match all {
        [Token::Other(lead), rest @ ..] if lead.chars().all(|c| matches!(c, ' ' | ',' | '_' | '-')) => {
            (escaped(lead), rest)
        }
        [Token::Word("T"), rest @ ..] => ("T".to_owned(), rest),
        _ => return Vec::new(),
    };
    let (mut format, rest) = match rest {
        [
            Token::Digits(_),
            Token::Other(":"),
            Token::Digits(_),
            Token::Other(":"),
            Token::Digits(_),
            Token::Other("."),
            Token::Digits(f),
            rest @ ..,
        ] if (1..=9).contains(&f.len()) => {
            // Reading takes any number of digits; writing takes as many as stand here.
            let fraction = match f.len() {
                3 => "%.3f",
                6 => "%.6f",
                9 => "%.9f",
                _ => "%.f",
            };
            (format!("{lead}%H:%M:%S{fraction}"), rest)
        }
        [
            Token::Digits(_),
            Token::Other(":"),
            Token::Digits(_),
            Token::Other(":"),
            Token::Digits(_),
            rest @ ..,
        ] => (format!("{lead}%H:%M:%S"), rest),
        [Token::Digits(_), Token::Other(":"), Token::Digits(_), rest @ ..] => (format!("{lead}%H:%M"), rest),
        [Token::Digits(h), Token::Digits(_), ..] if h.len() == 4 => return Vec::new(),
        [Token::Digits(h), rest @ ..] if h.len() == 2 && rest.is_empty() => (format!("{lead}%H"), rest),
        _ => return Vec::new(),
    };
    let half = |word: &str| match word {
        "AM" | "PM" => Some("%p"),
        "am" | "pm" => Some("%P"),
        _ => None,
    };
    match rest {
        [] => vec![(format, false)],
        [Token::Word(w)] if half(w).is_some() => {
            format = format.replace("%H", "%I") + half(w).unwrap_or_default();
            vec![(format, false)]
        }
        [Token::Other(" "), Token::Word(w)] if half(w).is_some() => {
            format = format.replace("%H", "%I") + " " + half(w).unwrap_or_default();
            vec![(format, false)]
        }
        [Token::Word("Z")] => vec![(format + "Z", true)],
        [Token::Other(" "), Token::Word(zone @ ("UTC" | "GMT"))] => vec![(format!("{format} {zone}"), false)],
        [Token::Other(sign), Token::Digits(h), Token::Other(":"), Token::Digits(m)]
            if sign.trim_start() == "+" || sign.trim_start() == "-" =>
        {
            let space = if sign.starts_with(' ') { " " } else { "" };
            if h.len() == 2 && m.len() == 2 {
                vec![(format!("{format}{space}%:z"), true)]
            } else {
                Vec::new()
            }
        }
        [Token::Other(sign), Token::Digits(d)] if sign.trim_start() == "+" || sign.trim_start() == "-" => {
            let space = if sign.starts_with(' ') { " " } else { "" };
            match d.len() {
                4 => vec![(format!("{format}{space}%z"), true)],
                2 => vec![(format!("{format}{space}%#z"), true)],
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}
