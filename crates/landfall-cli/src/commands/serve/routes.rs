//! What the server answers, path by path.

use super::access::Access;
use super::answer::{Body, Form, Refusal, internal, plain};
use super::forecasts::{Forecasts, Given};
use super::limits::{Held, Limits, Memory};
use super::metrics::Metrics;
use super::network::{Full, Queue};
use super::parts::{self, Parts};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// What all requests share.
pub(super) struct Server<F: Forecasts> {
    pub(super) forecasts: F,
    pub(super) queue: Queue<F::Network>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) access: Access,
    pub(super) limits: Limits,
    pub(super) memory: Memory,
    pub(super) connections: Arc<Semaphore>,
    /// The answer of `GET /model`.
    pub(super) model: String,
    /// The answer of `GET /`.
    pub(super) help: String,
}

impl<F: Forecasts> Server<F> {
    /// Answers a request.
    pub(super) async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let response = match self.clone().answer(request).await {
            Ok(response) => response,
            Err(refusal) => refusal.response(),
        };
        self.metrics.answered(response.status().as_u16());
        response
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        if let Some(refusal) = self.access.refusal(&request) {
            return Err(refusal);
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let read = method == Method::GET || method == Method::HEAD;
        match path.as_str() {
            "/forecast" if method == Method::POST => {
                let begun = Instant::now();
                let answered = self.clone().forecast(request).await;
                self.metrics.took(begun.elapsed());
                answered
            }
            "/forecast" => Err(Refusal::method(&method, &path, "POST")),
            "/" | "/health" | "/metrics" | "/model" if !read => Err(Refusal::method(&method, &path, "GET")),
            "/" => Ok(plain(StatusCode::OK, "text/plain; charset=utf-8", self.help.clone())),
            "/health" => {
                let body = serde_json::json!({"status": "ok", "forecaster": self.forecasts.name()});
                Ok(plain(StatusCode::OK, "application/json", body.to_string()))
            }
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

    async fn forecast(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let deadline = Instant::now() + self.limits.time;
        let (form, boundary) = content(request.headers())?;
        let answer = accepted(request.headers(), form)?;
        let asked = self.forecasts.asked(request.uri().query())?;
        let (body, held) = self.body(request, deadline).await?;
        let place = self.memory.read(body.len(), deadline).await?;
        let given = match (form, boundary) {
            (Form::Json, _) => Given::Json(body),
            (Form::Csv, None) => Given::Csv(Parts { history: body, future: None }),
            (Form::Csv, Some(boundary)) => Given::Csv(parts::read(body, boundary).await?),
        };
        let server = Arc::clone(&self);
        let read = move || {
            let read = server.forecasts.read(&given, asked);
            drop((given, held, place));
            read
        };
        let (jobs, rest) = self.apart(deadline, read).await??;
        let waiting = self.queue.put(jobs).map_err(|Full { length }| {
            let text =
                format!("{length} histories wait already, and no more may (--queue); try again in a second");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        let mut all = Vec::with_capacity(waiting.len());
        for answer in waiting {
            let answer = timeout_at(deadline, answer).await.map_err(|_| self.limits.late())?;
            let answer =
                answer.map_err(|_| internal("the network stopped; restart the server".to_owned()))?;
            all.push(answer.map_err(internal)?);
        }
        let server = Arc::clone(&self);
        self.apart(deadline, move || server.forecasts.finish(all, rest, answer)).await?
    }

    /// Does what takes time on a thread that nobody waits for but this request, and not beyond its time.
    async fn apart<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        // Who has waited too long for a thread needs none any more.
        let work = move || (Instant::now() < deadline).then(work);
        match timeout_at(deadline, tokio::task::spawn_blocking(work)).await {
            Ok(Ok(Some(done))) => Ok(done),
            Ok(Err(why)) => Err(internal(why.to_string())),
            Ok(Ok(None)) | Err(_) => Err(self.limits.late()),
        }
    }

    /// The whole body, within its limits of size and time, and its place in memory.
    async fn body(&self, request: Request<Incoming>, deadline: Instant) -> Result<(Bytes, Held), Refusal> {
        let most = self.limits.body;
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
            let _ = timeout_at(deadline, async { while let Some(Ok(_)) = rest.frame().await {} }).await;
            return Err(too_large(Some(given)));
        }
        let (mut incoming, mut body, mut held) =
            (Limited::new(request.into_body(), most), BytesMut::new(), Held::default());
        loop {
            match timeout_at(deadline, incoming.frame()).await {
                Ok(None) => return Ok((body.freeze(), held)),
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.memory.hold(bytes.len(), &mut held)?;
                        body.extend_from_slice(&bytes);
                    }
                }
                Ok(Some(Err(why))) if why.is::<LengthLimitError>() => return Err(too_large(None)),
                Ok(Some(Err(why))) => {
                    let text = format!("the body did not arrive whole: {why}");
                    return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
                }
                Err(_) => {
                    let seconds = self.limits.time.as_secs();
                    let text = format!("the body did not arrive within {seconds} s (--timeout)");
                    return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, text));
                }
            }
        }
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
