//! What the name of a column says of time: `yearmonth`, `week_no`, `hour_ending`.

/// A word of time in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Weekday,
    DayOfYear,
    Hour,
    Minute,
    /// A part of a year or of a day that only its numbers tell.
    Period,
    /// The half hours of a day, counted from 1.
    HalfHour,
    /// A whole date, or a moment.
    Date,
    /// A moment, or a time of day.
    Time,
    Fiscal,
    /// The end of what is named: `hour_ending`.
    Ending,
    Of,
    /// Says nothing of time by itself: `number`, `iso`.
    Filler,
}

/// Words of names, longer ones before those that they begin with. `true` where the word alone says that a column is a time.
const WORDS: [(&str, Word, bool); 90] = [
    ("weekofyear", Word::Week, true),
    ("dayofyear", Word::DayOfYear, true),
    ("dayofweek", Word::Weekday, false),
    ("dayofmonth", Word::Day, true),
    ("hourofday", Word::Hour, true),
    ("settlement", Word::HalfHour, false),
    ("halfhour", Word::HalfHour, true),
    ("timestamp", Word::Time, true),
    ("datetime", Word::Date, true),
    ("unixtime", Word::Time, true),
    ("gregorian", Word::Filler, false),
    ("calendar", Word::Filler, false),
    ("financial", Word::Fiscal, false),
    ("fiscal", Word::Fiscal, false),
    ("quarters", Word::Quarter, true),
    ("quarter", Word::Quarter, true),
    ("quartal", Word::Quarter, true),
    ("trimestre", Word::Quarter, true),
    ("weekday", Word::Weekday, false),
    ("weekend", Word::Weekday, false),
    ("monday", Word::Weekday, false),
    ("wochentag", Word::Weekday, false),
    ("semaine", Word::Week, true),
    ("semana", Word::Week, true),
    ("woche", Word::Week, true),
    ("weeks", Word::Week, true),
    ("week", Word::Week, true),
    ("wk", Word::Week, true),
    ("ww", Word::Week, false),
    ("kw", Word::Week, false),
    ("woy", Word::Week, true),
    ("julian", Word::DayOfYear, true),
    ("yday", Word::DayOfYear, true),
    ("jday", Word::DayOfYear, true),
    ("doy", Word::DayOfYear, true),
    ("ddd", Word::DayOfYear, false),
    ("dow", Word::Weekday, false),
    ("months", Word::Month, true),
    ("month", Word::Month, true),
    ("monat", Word::Month, true),
    ("mnth", Word::Month, true),
    ("mth", Word::Month, true),
    ("mois", Word::Month, true),
    ("mon", Word::Month, false),
    ("mes", Word::Month, false),
    ("mm", Word::Month, false),
    ("mo", Word::Month, false),
    ("years", Word::Year, true),
    ("year", Word::Year, true),
    ("yyyy", Word::Year, true),
    ("jahr", Word::Year, true),
    ("annee", Word::Year, true),
    ("année", Word::Year, true),
    ("yr", Word::Year, false),
    ("fy", Word::Fiscal, false),
    ("año", Word::Year, true),
    ("ano", Word::Year, false),
    ("minutes", Word::Minute, false),
    ("minute", Word::Minute, false),
    ("periods", Word::Period, true),
    ("period", Word::Period, true),
    ("interval", Word::Period, false),
    ("per", Word::Period, false),
    ("hours", Word::Hour, false),
    ("hour", Word::Hour, true),
    ("stunde", Word::Hour, true),
    ("heure", Word::Hour, true),
    ("hora", Word::Hour, true),
    ("hr", Word::Hour, false),
    ("hh", Word::Hour, false),
    ("ending", Word::Ending, false),
    ("ended", Word::Ending, false),
    ("end", Word::Ending, false),
    ("dates", Word::Date, true),
    ("date", Word::Date, true),
    ("datum", Word::Date, true),
    ("fecha", Word::Date, true),
    ("epoch", Word::Time, true),
    ("time", Word::Time, true),
    ("zeit", Word::Time, true),
    ("ds", Word::Time, true),
    ("ts", Word::Time, false),
    ("days", Word::Day, false),
    ("day", Word::Day, true),
    ("jour", Word::Day, true),
    ("tag", Word::Day, false),
    ("dd", Word::Day, false),
    ("qtr", Word::Quarter, true),
    ("of", Word::Of, false),
    ("q", Word::Quarter, false),
];

/// Words that say nothing of time.
const FILLERS: [&str; 9] = ["number", "no", "num", "nr", "iso", "cal", "the", "unix", "utc"];

/// The words of a name, and whether nothing else stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeName {
    words: Vec<Word>,
    /// Whether one of them alone says that the column is a time.
    plain: bool,
}

impl TimeName {
    /// `None` for a name with another word in it, and for one without a word of time.
    pub(crate) fn of(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("he") {
            return Some(Self { words: vec![Word::Hour, Word::Ending], plain: false });
        }
        let (mut words, mut plain) = (Vec::new(), false);
        for part in parts(name) {
            let mut rest = part.as_str();
            while !rest.is_empty() {
                let (after, word, alone) = first_word(rest)?;
                rest = after;
                plain |= alone;
                words.push(word);
            }
        }
        // The day of the year is no year.
        if let Some(of) = words.iter().position(|word| *word == Word::Of) {
            let whole = words.split_off(of);
            let unit = words.pop()?;
            words.push(match (unit, whole.get(1)) {
                (Word::Day, Some(Word::Year)) => Word::DayOfYear,
                (Word::Day, Some(Word::Week)) => Word::Weekday,
                _ => unit,
            });
        }
        words.retain(|word| *word != Word::Filler);
        let time = words.iter().any(|word| ![Word::Fiscal, Word::Ending, Word::Of].contains(word))
            || words == [Word::Fiscal];
        time.then_some(Self { words, plain })
    }

    pub(crate) fn has(&self, word: Word) -> bool {
        self.words.contains(&word)
    }

    /// Whether it names a time of some kind beyond doubt, which a day of the week is not.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain && !self.has(Word::Weekday)
    }

    /// Whether it has these words and no others but that of a fiscal year.
    pub(crate) fn is(&self, words: &[Word]) -> bool {
        let own: Vec<Word> = self.words.iter().copied().filter(|word| *word != Word::Fiscal).collect();
        own == words
    }

    /// Whether it names a year: one of a calendar or a fiscal one.
    pub(crate) fn is_year(&self) -> bool {
        self.is(&[Word::Year]) || self.words == [Word::Fiscal]
    }
}

/// The letters of a name, apart where others stand between them and where a small one is followed by a capital one.
fn parts(name: &str) -> Vec<String> {
    let (mut parts, mut part, mut small) = (Vec::new(), String::new(), false);
    for c in name.chars() {
        if !c.is_alphabetic() || (small && c.is_uppercase()) {
            parts.push(std::mem::take(&mut part));
        }
        if c.is_alphabetic() {
            part.extend(c.to_lowercase());
        }
        small = c.is_lowercase();
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

/// The word that a text begins with, and what follows it.
fn first_word(text: &str) -> Option<(&str, Word, bool)> {
    let word = WORDS.iter().find_map(|(known, word, plain)| Some((text.strip_prefix(known)?, *word, *plain)));
    let filler = || FILLERS.iter().find_map(|known| Some((text.strip_prefix(known)?, Word::Filler, false)));
    word.into_iter().chain(filler()).find(|(rest, ..)| rest.is_empty() || first_word(rest).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_by_their_words() {
        let words = |name| TimeName::of(name).map(|name| name.words);
        for (name, expected) in [
            ("yearmonth", &[Word::Year, Word::Month][..]),
            ("YearMonth", &[Word::Year, Word::Month]),
            ("yyyymm", &[Word::Year, Word::Month]),
            ("week_no", &[Word::Week]),
            ("isoWeek", &[Word::Week]),
            ("week of year", &[Word::Week]),
            ("day_of_year", &[Word::DayOfYear]),
            ("day_of_month", &[Word::Day]),
            ("hour_ending", &[Word::Hour, Word::Ending]),
            ("HourEnding", &[Word::Hour, Word::Ending]),
            ("HE", &[Word::Hour, Word::Ending]),
            ("fiscal_year", &[Word::Fiscal, Word::Year]),
            ("FY", &[Word::Fiscal]),
            ("settlement_period", &[Word::HalfHour, Word::Period]),
            ("month number", &[Word::Month]),
        ] {
            assert_eq!(words(name).as_deref(), Some(expected), "{name}");
        }
        for name in
            ["", "holiday", "monday_sales", "price_per_unit", "update", "timeout", "no", "monthly_rate", "id"]
        {
            assert_eq!(words(name), None, "{name}");
        }
    }
}
