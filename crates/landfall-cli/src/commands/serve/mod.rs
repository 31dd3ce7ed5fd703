//! `landfall serve`: forecasts over HTTP.
//!
//! Requests arrive on the threads of an HTTP server, which do nothing that takes time; further threads read and scale their histories
//! and make their answers; one thread owns the network and takes whatever waits as its next batch.

mod access;
mod answer;
mod columns;
mod describe;
mod json;
mod limits;
mod metrics;
mod network;
mod parts;
mod request;
mod routes;

use self::access::Access;
use self::limits::{Limits, Memory};
use self::metrics::Metrics;
use self::network::Queue;
use self::request::Reading;
use self::routes::Server;
use crate::args::Serve as Args;
use crate::commands::kept_intervals::interval_errors;
use crate::error::CliError;
use crate::output;
use crate::signals::Stop;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use landfall_forecast::run::{HalfWidths, Run, RunError, on_device};
use landfall_train::data::WindowedPanel;
use landfall_train::models::Predicts;
use landfall_train::train::Batches;
use std::convert::Infallible;
use std::net::SocketAddr;
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

/// Serves until a signal comes.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let run = Run::open(&args.run)?;
    match run.resolved().network.predicts() {
        Predicts::Rows(_) => {}
        Predicts::Value => return Err(RunError::NoFuture { path: args.run.clone() }.into()),
        Predicts::Classes(_) => return Err(RunError::Classes { path: args.run.clone() }.into()),
    }
    let address = SocketAddr::new(args.host, args.port);
    let access = Access::of(&args.access, address)?;
    let errors = interval_errors(&run, &args.intervals)?;
    let stop = Stop::watch();
    let refused = |why| CliError::Listen { address, why };
    // Before the network is made ready, which takes a moment.
    let listener = std::net::TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let access = access.at(address);
    let placed = on_device(args.on.device, args.on.threads, |engine| {
        let mut session = run.predictor(engine, args.weights)?;
        let batches = Batches::new(&mut session, usize::from(args.max_batch))?;
        let of = |(levels, panel): &(Vec<f64>, WindowedPanel)| {
            run.half_widths(engine, args.weights, (panel.clone(), None), levels)
        };
        let widths = errors.as_ref().map(of);
        Ok((session, batches, widths.transpose()?))
    })?;
    placed.note().iter().for_each(|device| output::note(device));
    let (session, batches, widths) = placed.made;
    if !batches.left_out().is_empty() {
        let most = batches.most();
        output::note(&format!(
            "note: at most {most} histories at once: larger products are summed in another order"
        ));
    }
    let metrics = Arc::new(Metrics::new());
    let most = batches.most();
    let length = usize::from(args.queue);
    let (queue, network) =
        Queue::start(session, batches, length, Arc::clone(&metrics)).map_err(CliError::Server)?;
    let limits = Limits {
        body: usize::from(args.max_body) << 20,
        histories: usize::from(args.max_histories).min(length),
        time: Duration::from_secs(args.timeout.into()),
        connections: usize::from(args.connections),
    };
    let connections = Arc::new(Semaphore::new(limits.connections));
    let levels = widths.as_ref().map_or(&[][..], HalfWidths::levels);
    let (model, help) = (describe::model(&run, levels, most), describe::help(&run, levels, address));
    let (reading, memory) = (Reading::of(&run, limits.histories), Memory::new(limits));
    let server =
        Server { run, reading, widths, queue, metrics, access, limits, memory, connections, model, help };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, THREADS))
        .max_blocking_threads(cores.clamp(1, READERS))
        .enable_io()
        .enable_time()
        .build()
        .map_err(CliError::Server)?;
    output::line(&format!("Serving {} on http://{address}", args.run.display()))?;
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
async fn listen(listener: std::net::TcpListener, server: Arc<Server>, stop: &Stop) -> std::io::Result<()> {
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
