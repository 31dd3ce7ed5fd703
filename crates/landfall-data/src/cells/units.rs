//! Percent signs and currencies, as they stand beside numbers.

/// A percent sign or a currency, as a message writes it.
pub(crate) type Unit = &'static str;

/// Signs, and words that are no codes. Longer ones before those that they end or begin with.
const SIGNS: [Unit; 33] = [
    "US$", "R$", "A$", "C$", "HK$", "NZ$", "S$", "NT$", "MX$", "$", "€", "£", "¥", "₹", "₩", "₽", "₺", "₫",
    "₪", "₴", "₱", "฿", "₦", "₡", "%", "zł", "Kč", "Ft", "Rs.", "Rs", "Fr.", "kr.", "kr",
];

/// Codes of ISO 4217.
const CODES: &str = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD \
    CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD \
    HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL \
    MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD \
    RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU \
    UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWL RMB";

/// The unit that a cell has before or behind its number.
pub(crate) fn unit_of(text: &str) -> Option<Unit> {
    SIGNS.into_iter().chain(CODES.split_ascii_whitespace()).find(|unit| has_unit(text, unit))
}

/// Whether a cell is a number with this unit.
pub(crate) fn has_unit(text: &str, unit: Unit) -> bool {
    let body = text.trim_matches(|c: char| c.is_whitespace() || "()+-\u{2212}".contains(c));
    without_unit(body, unit).is_some_and(|rest| rest.contains(|c: char| c.is_ascii_digit()))
}

/// A cell without its unit, whatever the case of its letters.
pub(crate) fn without_unit(text: &str, unit: Unit) -> Option<&str> {
    let same = |part: &str| part.eq_ignore_ascii_case(unit);
    let before = text.split_at_checked(unit.len()).filter(|(unit, _)| same(unit)).map(|(_, rest)| rest);
    let behind = || text.split_at_checked(text.len().checked_sub(unit.len())?).filter(|(_, unit)| same(unit));
    before.or_else(|| behind().map(|(rest, _)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_stands_before_or_behind_the_number() {
        for (text, unit) in [
            ("5%", Some("%")),
            ("€5", Some("€")),
            ("-$5", Some("$")),
            ("($5.00)", Some("$")),
            ("R$ 5", Some("R$")),
            ("US$5", Some("US$")),
            ("5 €", Some("€")),
            ("EUR 1.234,50", Some("EUR")),
            ("1 234 sek", Some("SEK")),
            ("5 kr", Some("kr")),
            ("5", None),
            ("", None),
            ("EUR", None),
            ("W5", None),
            ("5 kWh", None),
        ] {
            assert_eq!(unit_of(text), unit, "{text}");
        }
    }
}
