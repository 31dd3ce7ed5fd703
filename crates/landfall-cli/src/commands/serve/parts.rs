//! Bodies of several parts, as `curl -F` and forms of browsers send them: a history and its future rows, a CSV each.

use super::answer::Refusal;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::StatusCode;

/// The names of the parts.
const HISTORY: &str = "data";
const FUTURE: &str = "future";

/// A history, and the rows after it where they were given: a CSV each.
#[derive(Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) history: Bytes,
    pub(super) future: Option<Bytes>,
}

/// The parts of a body of `multipart/form-data`.
pub(super) async fn read(body: Bytes, boundary: String) -> Result<Parts, Refusal> {
    let bad = |text: String| Refusal::new(StatusCode::BAD_REQUEST, text);
    let unread = |why: multer::Error| bad(format!("the body is no multipart/form-data: {why}"));
    let mut parts = multer::Multipart::new(Full::new(body).into_data_stream(), boundary);
    let (mut history, mut future) = (None, None);
    while let Some(part) = parts.next_field().await.map_err(unread)? {
        let name: String = part.name().unwrap_or_default().chars().take(40).collect();
        let place = match name.as_str() {
            HISTORY => &mut history,
            FUTURE => &mut future,
            _ => {
                return Err(bad(format!(
                    "a part has the name {name:?}; send `{HISTORY}`, the history as a CSV, and `{FUTURE}`, the rows after it"
                )));
            }
        };
        if place.replace(part.bytes().await.map_err(unread)?).is_some() {
            return Err(bad(format!("the part `{name}` is there twice; send it once")));
        }
    }
    let missing = || {
        bad(format!("the part `{HISTORY}` is missing; send the history as a CSV: -F {HISTORY}=@history.csv"))
    };
    Ok(Parts { history: history.ok_or_else(missing)?, future })
}
