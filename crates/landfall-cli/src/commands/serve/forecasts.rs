//! What a server forecasts with: how a request is read, what the network makes of it, and what is answered.

use super::answer::{Body, Form, Refusal};
use super::parts::Parts;
use bytes::Bytes;
use hyper::Response;

/// A body: JSON, or CSVs.
pub(super) enum Given {
    Json(Bytes),
    Csv(Parts),
}

/// A network, which a thread of its own has.
pub(super) trait Network: Send + 'static {
    /// What it takes.
    type Job: Send + 'static;
    /// What it made of that.
    type Done: Send + 'static;

    /// The most that it takes at once.
    fn most(&self) -> usize;

    /// What it makes of each, or why there is nothing.
    fn predict(&mut self, jobs: Vec<Self::Job>) -> Result<Vec<Self::Done>, String>;
}

/// What is served.
pub(super) trait Forecasts: Sized + Send + Sync + 'static {
    type Network: Network;
    /// What a request asks for beside its body.
    type Asked: Send + 'static;
    /// What an answer needs beside what the network made.
    type Rest: Send + 'static;

    /// The name of what forecasts.
    fn name(&self) -> String;

    /// What the query of a request asks for.
    fn asked(&self, query: Option<&str>) -> Result<Self::Asked, Refusal>;

    /// What the network is to take for a body.
    fn read(&self, given: &Given, asked: Self::Asked) -> Result<Read<Self>, Refusal>;

    /// The answer.
    fn finish(&self, done: Vec<Done<Self>>, rest: Self::Rest, form: Form) -> Result<Response<Body>, Refusal>;
}

/// What the network takes.
pub(super) type Job<F> = <<F as Forecasts>::Network as Network>::Job;
/// What the network made of it.
pub(super) type Done<F> = <<F as Forecasts>::Network as Network>::Done;
/// A request that was read.
pub(super) type Read<F> = (Vec<Job<F>>, <F as Forecasts>::Rest);
