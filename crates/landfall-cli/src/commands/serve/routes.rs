//! What the server answers, path by path.

use super::answer::{Body, Refusal, forecasts, plain};
use super::metrics::Metrics;
use super::network::{Full, Queue};
use super::parts::{self, Parts};
use super::request::{Form, Given, Histories, Reader, Reading, refused};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use landfall_train::data::Future;
use landfall_train::run::{Forecast, HalfWidths, Prepared, Run, RunError};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::{timeout, timeout_at};

/// What a request may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of a body.
    pub(super) body: usize,
    /// Histories.
    pub(super) histories: usize,
    /// Time.
    pub(super) time: Duration,
    /// Connections at once.
    pub(super) connections: usize,
}

/// Bodies from this size on are read on a thread that others need not wait for.
const LARGE: usize = 256 * 1024;

/// What all requests share.
pub(super) struct Server {
    pub(super) run: Run,
    pub(super) reading: Reading,
    /// Of the intervals of its answers, where they have any.
    pub(super) widths: Option<HalfWidths>,
    pub(super) queue: Queue,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: Limits,
    pub(super) connections: Arc<Semaphore>,
    /// The answer of `GET /model`.
    pub(super) model: String,
    /// The answer of `GET /`.
    pub(super) help: String,
}

impl Server {
    /// Answers a request.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let response = match self.answer(request).await {
            Ok(response) => response,
            Err(refusal) => refusal.response(),
        };
        self.metrics.answered(response.status().as_u16());
        response
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let read = method == Method::GET || method == Method::HEAD;
        match path.as_str() {
            "/forecast" if method == Method::POST => {
                let begun = Instant::now();
                let answered = self.forecast(request).await;
                self.metrics.took(begun.elapsed());
                answered
            }
            "/forecast" => Err(Refusal::method(&method, &path, "POST")),
            "/" | "/health" | "/metrics" | "/model" if !read => Err(Refusal::method(&method, &path, "GET")),
            "/" => Ok(plain(StatusCode::OK, "text/plain; charset=utf-8", self.help.clone())),
            "/health" => Ok(plain(StatusCode::OK, "application/json", "{\"status\":\"ok\"}")),
            "/model" => Ok(plain(StatusCode::OK, "application/json", self.model.clone())),
            "/metrics" => {
                let open = self.limits.connections.saturating_sub(self.connections.available_permits());
                let text = self.metrics.text(self.queue.waiting(), open);
                Ok(plain(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
            }
            _ => {
                let shown: String = path.chars().take(80).collect();
                let text = format!("there is no {shown}; GET / describes what there is");
                Err(Refusal::new(StatusCode::NOT_FOUND, text))
            }
        }
    }

    async fn forecast(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let deadline = tokio::time::Instant::now() + self.limits.time;
        let (form, boundary) = content(request.headers())?;
        let answer = accepted(request.headers(), form)?;
        let series = series(request.uri().query())?;
        let body = self.body(request).await?;
        let size = body.len();
        let given = match (form, boundary) {
            (Form::Json, _) => Given::Json(body),
            (Form::Csv, None) => Given::Csv(Parts { history: body, future: None }),
            (Form::Csv, Some(boundary)) => Given::Csv(parts::read(body, boundary).await?),
        };
        let read = || self.prepare(&given, series.as_deref());
        let (prepared, notes) = if size > LARGE { tokio::task::block_in_place(read) } else { read() }?;
        let waiting = self.queue.put(prepared).map_err(|Full { length }| {
            let text =
                format!("{length} histories wait already, and no more may (--queue); try again in a second");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        let mut all: Vec<Forecast> = Vec::with_capacity(waiting.len());
        for answer in waiting {
            let internal = |why: String| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why);
            let answer = timeout_at(deadline, answer).await.map_err(|_| {
                let seconds = self.limits.time.as_secs();
                let text =
                    format!("no forecast within {seconds} s (--timeout); try again with fewer histories");
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
            })?;
            let answer =
                answer.map_err(|_| internal("the network stopped; restart the server".to_owned()))?;
            let (prepared, predicted) = answer.map_err(internal)?;
            let mut forecast = self.run.finish(prepared, predicted);
            if let Some(widths) = &self.widths {
                widths
                    .of(forecast.context.name())
                    .map_err(|why| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why.to_string()))?;
                widths.add_to(&mut forecast);
            }
            all.push(forecast);
        }
        let levels = self.widths.as_ref().map_or(&[][..], HalfWidths::levels);
        Ok(forecasts(&self.run, levels, &all, (answer, notes)))
    }

    /// The whole body, within its limits of size and time.
    async fn body(&self, request: Request<Incoming>) -> Result<bytes::Bytes, Refusal> {
        let (most, time) = (self.limits.body, self.limits.time);
        let too_large = |given: Option<u64>| {
            let given = given.map_or_else(|| "more".to_owned(), |n| format!("{n} bytes"));
            let text = format!("the body has {given}, and at most {most} bytes are taken (--max-body)");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        };
        let length = request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if let Some(given) = length.filter(|&n| n > most as u64) {
            // Who is still sending when the connection closes sees it reset, and no answer: what is not far too large is let in and
            // forgotten.
            let mut rest = Limited::new(request.into_body(), most.saturating_mul(4));
            let _ = timeout(time, async { while let Some(Ok(_)) = rest.frame().await {} }).await;
            return Err(too_large(Some(given)));
        }
        match timeout(time, Limited::new(request.into_body(), most).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(why)) if why.is::<LengthLimitError>() => Err(too_large(None)),
            Ok(Err(why)) => {
                Err(Refusal::new(StatusCode::BAD_REQUEST, format!("the body did not arrive whole: {why}")))
            }
            Err(_) => {
                let text = format!("the body did not arrive within {} s (--timeout)", time.as_secs());
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, text))
            }
        }
    }

    /// The scaled histories of a body.
    fn prepare(&self, given: &Given, series: Option<&str>) -> Result<(Vec<Prepared>, Vec<String>), Refusal> {
        let reader = Reader { run: &self.run, reading: &self.reading, most: self.limits.histories };
        let Histories { all, notes } = reader.read(given, series)?;
        // Each history of JSON stands for itself; the series of one CSV are told apart by their names.
        let only = matches!(given, Given::Json(_)) || all.len() == 1;
        let prepared = all.iter().map(|(series, future)| {
            let future = future.as_deref().map(Future::Rows);
            self.run.prepare(series, future, only).map_err(|why| {
                if let RunError::Data(why) = &why {
                    refused(why)
                } else {
                    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string())
                }
            })
        });
        Ok((prepared.collect::<Result<_, _>>()?, notes))
    }
}

/// The media type of a header's value, without its parameters.
fn media_type(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// What the body is, by `Content-Type`; of one of several parts, what stands between them.
fn content(headers: &HeaderMap) -> Result<(Form, Option<String>), Refusal> {
    let unsupported = |given: &str| {
        let given: String = given.chars().take(80).collect();
        let text = format!(
            "the content type is {given}; send -H 'Content-Type: application/json', -H 'Content-Type: text/csv' or -F data=@FILE"
        );
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    };
    let Some(value) = headers.get(CONTENT_TYPE) else { return Err(unsupported("not given")) };
    let given = value.to_str().map_err(|_| unsupported("not text"))?;
    match media_type(given).as_str() {
        "application/json" => Ok((Form::Json, None)),
        "text/csv" => Ok((Form::Csv, None)),
        "multipart/form-data" => match multer::parse_boundary(given) {
            Ok(boundary) => Ok((Form::Csv, Some(boundary))),
            Err(why) => {
                Err(Refusal::new(StatusCode::BAD_REQUEST, format!("the content type is {given}: {why}")))
            }
        },
        _ => Err(unsupported(given)),
    }
}

/// In what form the answer is wanted, by `Accept`: the first type that there is, and of any that of the request.
fn accepted(headers: &HeaderMap, content: Form) -> Result<Form, Refusal> {
    let mut given = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).peekable();
    if given.peek().is_none() {
        return Ok(content);
    }
    let form = |name: String| match name.as_str() {
        "application/json" | "application/*" => Some(Form::Json),
        "text/csv" | "text/*" => Some(Form::Csv),
        "*/*" => Some(content),
        _ => None,
    };
    given.flat_map(|value| value.split(',')).map(media_type).find_map(form).ok_or_else(|| {
        let text = "the header Accept names neither application/json nor text/csv";
        Refusal::new(StatusCode::NOT_ACCEPTABLE, text)
    })
}

/// The name of the series in `?series=NAME`.
fn series(query: Option<&str>) -> Result<Option<String>, Refusal> {
    let Some(query) = query.filter(|q| !q.is_empty()) else { return Ok(None) };
    match query.split_once('=') {
        Some(("series", name)) if !name.contains('&') => decoded(name).map(Some),
        _ => {
            let text = "the only parameter of POST /forecast is ?series=NAME, once";
            Err(Refusal::new(StatusCode::BAD_REQUEST, text))
        }
    }
}

/// A percent-encoded text.
fn decoded(text: &str) -> Result<String, Refusal> {
    let bad = || Refusal::new(StatusCode::BAD_REQUEST, "?series= is not percent-encoded UTF-8");
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
