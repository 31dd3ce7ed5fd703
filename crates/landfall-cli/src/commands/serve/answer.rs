//! Answers: forecasts as JSON or CSV, and refusals as JSON.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use landfall_forecast::run::Forecast;
use landfall_forecast::table::{Labels, Table};
use serde::Serialize;

pub(super) type Body = Full<Bytes>;

/// What the body of a request is, and that of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Csv,
}

/// Why a request has no forecast.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: StatusCode,
    text: String,
    allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(code: StatusCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), allow: None }
    }

    /// A path that has other methods.
    pub(super) fn method(given: &hyper::Method, path: &str, allow: &'static str) -> Self {
        let text = format!("{given} {path} is not served; use {allow}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, text) }
    }

    pub(super) fn response(&self) -> Response<Body> {
        let body = serde_json::json!({"status": self.code.as_u16(), "error": self.text});
        let mut response = plain(self.code, "application/json", body.to_string());
        if self.code == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.code == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

/// A request with more histories than are taken.
pub(super) fn too_many(count: &str, most: usize) -> Refusal {
    let text = format!(
        "the request has {count} histories, and at most {most} are taken (--max-histories); send several requests"
    );
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

/// A request that the server could not serve, though it should have.
pub(super) fn internal(why: String) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
}

/// A response with this body.
pub(super) fn plain(code: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Bytes of names in a table: a client's own text must not come back many times over.
const MOST_NAMES: usize = 1 << 22;

#[derive(Serialize)]
struct Object<'a> {
    columns: &'a [String],
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    levels: &'a [f64],
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    interval_levels: &'a [f64],
    forecasts: Vec<One<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

#[derive(Serialize)]
struct One<'a> {
    series: Option<&'a str>,
    dates: Option<&'a [String]>,
    values: &'a [Vec<f64>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    quantiles: &'a [Vec<Vec<f64>>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    intervals: &'a [Vec<[Vec<f64>; 2]>],
}

/// What the forecasts of an answer are.
pub(super) struct Answered<'a> {
    /// The columns that are forecast.
    pub(super) columns: &'a [String],
    /// Levels of quantiles.
    pub(super) levels: &'a [f64],
    /// Levels of intervals in percent.
    pub(super) interval_levels: &'a [f64],
    pub(super) horizon: usize,
    /// Whether JSON names a single series too.
    pub(super) named: bool,
}

/// The forecasts of a request.
pub(super) fn forecasts(
    answered: &Answered<'_>,
    all: &[Forecast],
    (form, mut notes): (Form, Vec<String>),
) -> Result<Response<Body>, Refusal> {
    let Answered { columns, levels, interval_levels, horizon, named } = *answered;
    match form {
        Form::Csv => {
            let table = Table::new(all, columns, (levels, interval_levels), horizon);
            let named = table.named();
            if named > MOST_NAMES {
                let text = format!(
                    "the names of columns and series would be {named} bytes of the table, and at most {MOST_NAMES} are sent; shorten them, \
                     or ask for JSON, fewer levels or fewer rows"
                );
                return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text));
            }
            if let Some(name) = table.named_twice() {
                let text = format!(
                    "two columns of the table would be called `{name}`: rename that column, ask for other levels, or for JSON"
                );
                return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, text));
            }
            Ok(plain(StatusCode::OK, "text/csv; charset=utf-8", table.csv()))
        }
        Form::Json => {
            let labels = Labels::of(all, horizon);
            notes.extend(labels.note.clone());
            let named = named || all.len() > 1;
            let dated = labels.dated();
            let forecasts = all.iter().zip(&labels.rows).map(|(f, dates)| One {
                series: named.then(|| f.context.name()),
                dates: dated.then_some(dates.as_slice()),
                values: &f.values,
                quantiles: &f.quantiles,
                intervals: &f.intervals,
            });
            let forecasts = forecasts.collect();
            let object = Object { columns, levels, interval_levels, forecasts, notes: &notes };
            match serde_json::to_vec(&object) {
                Ok(bytes) => Ok(plain(StatusCode::OK, "application/json", bytes)),
                Err(why) => Err(internal(why.to_string())),
            }
        }
    }
}
