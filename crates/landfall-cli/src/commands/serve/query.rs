//! What stands behind the `?` of a request.

use super::answer::Refusal;
use hyper::StatusCode;

/// The parameters of a query, each of which is one of `names` and there once, with its value as it is written; `form` says what there
/// is.
pub(super) fn parameters<'q>(
    query: Option<&'q str>,
    names: &[&'static str],
    form: &str,
) -> Result<Vec<(&'static str, &'q str)>, Refusal> {
    let mut all: Vec<(&'static str, &'q str)> = Vec::new();
    for pair in query.filter(|query| !query.is_empty()).into_iter().flat_map(|query| query.split('&')) {
        let (given, value) = pair.split_once('=').unwrap_or((pair, ""));
        match names.iter().find(|name| **name == given) {
            Some(name) if pair.contains('=') && all.iter().all(|(other, _)| other != name) => {
                all.push((*name, value));
            }
            Some(_) | None => return Err(Refusal::new(StatusCode::BAD_REQUEST, form)),
        }
    }
    Ok(all)
}

/// A percent-encoded text, the value of this parameter.
pub(super) fn decoded(name: &str, text: &str) -> Result<String, Refusal> {
    let bad = || Refusal::new(StatusCode::BAD_REQUEST, format!("?{name}= is not percent-encoded UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16)).ok_or_else(bad);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(16 * high + low).map_err(|_| bad())?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}
