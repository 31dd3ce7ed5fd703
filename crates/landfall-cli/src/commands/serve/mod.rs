//! `landfall serve`: forecasts over HTTP.
//!
//! Requests arrive on the threads of an HTTP server, which do nothing that takes time; further threads read and scale their histories
//! and make their answers; one thread owns the network and takes whatever waits as its next batch.

mod access;
mod answer;
mod columns;
mod describe;
mod forecasts;
mod json;
mod limits;
mod metrics;
mod network;
mod of_run;
mod parts;
mod query;
mod request;
mod routes;
mod without_run;

use self::access::Access;
use self::forecasts::Forecasts;
use self::limits::{Limits, Memory};
use self::metrics::Metrics;
use self::network::Queue;
use self::of_run::{OfRun, RunNetwork};
use self::request::Reading;
use self::routes::Server;
use self::without_run::{Pretrained, WithoutRun};
use crate::args::Serve as Args;
use crate::commands::kept_intervals::interval_errors;
use crate::error::CliError;
use crate::output;
use crate::signals::Stop;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use landfall_forecast::run::{HalfWidths, Run, RunError, Weights, on_device};
use landfall_forecast::without_run::PanelForecaster;
use landfall_train::data::WindowedPanel;
use landfall_train::models::Predicts;
use landfall_train::train::Batches;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;

/// How long the server waits at most before it looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a request's first line and headers, and of what is read at once.
const HEAD: usize = 32 * 1024;
/// Header lines of a request.
const HEADERS: usize = 64;
/// Threads of connections, at most.
const THREADS: usize = 8;
/// Threads that read histories and make answers, at most: the network has threads of its own.
const READERS: usize = 4;
/// How long what does not end in time is waited for.
const GRACE: Duration = Duration::from_millis(100);

/// What is served, ready to be.
struct Ready<F: Forecasts> {
    forecasts: F,
    network: F::Network,
    /// What a person knows it by.
    title: String,
    /// The answer of `GET /model`.
    model: String,
    /// The answer of `GET /`.
    help: String,
}

/// Serves until a signal comes.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    match &args.run {
        Some(path) => of_run(args, path),
        None => without_run(args),
    }
}

/// Serves a run.
fn of_run(args: &Args, path: &Path) -> Result<(), CliError> {
    if args.pretrained.is_some() {
        let why = "a run has its own; leave it out";
        return Err(CliError::Flags { flag: "--pretrained", other: "a run directory".to_owned(), why });
    }
    let run = Run::open(path)?;
    match run.resolved().network.predicts() {
        Predicts::Rows(_) => {}
        Predicts::Value => return Err(RunError::NoFuture { path: path.to_owned() }.into()),
        Predicts::Classes(_) => return Err(RunError::Classes { path: path.to_owned() }.into()),
    }
    let errors = interval_errors(&run, &args.intervals)?;
    let opened = Opened::new(args)?;
    let placed = on_device(args.on.device, args.on.threads, |engine| {
        let mut session = run.predictor(engine, args.weights)?;
        run.make_ready()?;
        let batches = Batches::new(&mut session, usize::from(args.max_batch))?;
        let of = |(levels, panel): &(Vec<f64>, WindowedPanel)| {
            run.half_widths(engine, args.weights, (panel.clone(), None), levels)
        };
        let widths = errors.as_ref().map(of);
        Ok((session, batches, widths.transpose()?))
    })?;
    placed.note().iter().for_each(|device| output::note(device));
    let (session, batches, widths) = placed.made;
    let most = batches.most();
    if !batches.left_out().is_empty() {
        output::note(&format!(
            "note: at most {most} histories at once: larger products are summed in another order"
        ));
    }
    let levels = widths.as_ref().map_or(&[][..], HalfWidths::levels);
    let ready = Ready {
        model: describe::model(&run, levels, most),
        help: describe::help(&run, levels, opened.address),
        title: path.display().to_string(),
        network: RunNetwork { session, batches },
        forecasts: OfRun { reading: Reading::of(&run, limits(args).histories), widths, run },
    };
    serve(args, opened, ready)
}

/// Serves the pretrained forecaster.
fn without_run(args: &Args) -> Result<(), CliError> {
    let intervals = &args.intervals;
    let of_runs = [
        ("--interval", intervals.interval.is_some()),
        ("--no-interval", intervals.no_interval),
        ("--data", !intervals.data.is_empty()),
        ("--weights", args.weights != Weights::Best),
    ];
    if let Some((flag, _)) = of_runs.iter().find(|(_, given)| *given) {
        let why = "only a run has a use for it, requests say what they ask for; leave it out, or name a run directory";
        return Err(CliError::Flags { flag, other: "no run directory".to_owned(), why });
    }
    let opened = Opened::new(args)?;
    let (pretrained, most) = (args.pretrained.as_deref(), usize::from(args.max_batch));
    let forecaster = PanelForecaster::new(pretrained, args.on.device, args.on.threads)?;
    forecaster.device().iter().for_each(|device| output::note(device));
    let ready = Ready {
        model: describe::pretrained(pretrained, &forecaster, most),
        help: describe::help_without_run(&forecaster, opened.address),
        title: pretrained
            .map_or_else(|| "the pretrained forecaster".to_owned(), |path| path.display().to_string()),
        forecasts: WithoutRun::of(&forecaster, limits(args).histories),
        network: Pretrained { forecaster, most },
    };
    serve(args, opened, ready)
}

/// A server that listens already and does not answer yet: its network takes a moment to be ready.
struct Opened {
    listener: std::net::TcpListener,
    address: SocketAddr,
    access: Access,
    stop: Stop,
}

impl Opened {
    fn new(args: &Args) -> Result<Self, CliError> {
        let address = SocketAddr::new(args.host, args.port);
        let access = Access::of(&args.access, address)?;
        let stop = Stop::watch();
        let refused = |why| CliError::Listen { address, why };
        let listener = std::net::TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address, access: access.at(address), stop })
    }
}

/// What requests may take.
fn limits(args: &Args) -> Limits {
    Limits {
        body: usize::from(args.max_body) << 20,
        histories: usize::from(args.max_histories).min(usize::from(args.queue)),
        time: Duration::from_secs(args.timeout.into()),
        connections: usize::from(args.connections),
    }
}

/// Answers until a signal comes.
fn serve<F: Forecasts>(args: &Args, opened: Opened, ready: Ready<F>) -> Result<(), CliError> {
    let Opened { listener, address, access, stop } = opened;
    let Ready { forecasts, network, title, model, help } = ready;
    let (limits, metrics) = (limits(args), Arc::new(Metrics::new()));
    let (queue, network) =
        Queue::start(network, usize::from(args.queue), Arc::clone(&metrics)).map_err(CliError::Server)?;
    let (connections, memory) = (Arc::new(Semaphore::new(limits.connections)), Memory::new(limits));
    let server = Server { forecasts, queue, metrics, access, limits, memory, connections, model, help };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, THREADS))
        .max_blocking_threads(cores.clamp(1, READERS))
        .enable_io()
        .enable_time()
        .build()
        .map_err(CliError::Server)?;
    output::line(&format!("Serving {title} on http://{address}"))?;
    let ended = runtime.block_on(listen(listener, Arc::new(server), &stop));
    // Requests that did not finish in time are dropped with the runtime, and with them the last way into the queue.
    runtime.shutdown_timeout(GRACE);
    // A history that is still being read keeps the queue open, and ends with the process.
    let since = Instant::now();
    while !network.is_finished() && since.elapsed() < GRACE {
        std::thread::sleep(LOOK);
    }
    ended.map_err(CliError::Server)?;
    output::note("stopped");
    Ok(())
}

/// Accepts connections until a signal comes, and then waits for those that are open.
async fn listen<F: Forecasts>(
    listener: std::net::TcpListener,
    server: Arc<Server<F>>,
    stop: &Stop,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    while !stop.raised() {
        let Ok(Ok(place)) = timeout(LOOK, Arc::clone(&server.connections).acquire_owned()).await else {
            continue;
        };
        let stream = loop {
            match timeout(LOOK, listener.accept()).await {
                Ok(Ok((stream, _))) => break Some(stream),
                // Too many open files, or a client that is gone already: the next one may be served.
                Ok(Err(_)) => tokio::time::sleep(LOOK).await,
                Err(_) => {}
            }
            if stop.raised() {
                break None;
            }
        };
        let Some(stream) = stream else { break };
        let (server, limit) = (Arc::clone(&server), server.limits.time);
        let service = service_fn(move |request| {
            let server = Arc::clone(&server);
            async move { Ok::<_, Infallible>(server.respond(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limit)
            .max_buf_size(HEAD)
            .max_headers(HEADERS)
            .serve_connection(TokioIo::new(within(stream, limit)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off, or writes what is not HTTP, has its answer or wants none.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    let _ = timeout(server.limits.time, graceful.shutdown()).await;
    Ok(())
}

/// A connection whose client must take what is written to it in time.
fn within(stream: TcpStream, limit: Duration) -> std::pin::Pin<Box<TimeoutStream<TcpStream>>> {
    // Small answers are not held back for more.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limit));
    Box::pin(stream)
}
