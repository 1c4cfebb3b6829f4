//! Serving the metrics over HTTP and HTTPS.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{sleep, timeout, timeout_at};

use super::scrape::Scraper;
use super::web::{Access, Web};
use super::{PATIENCE, after, text};
use crate::command::YES;
use crate::error::Error;
use crate::output::{Notes, Output};
use crate::server::Place;

/// One connection more closes the oldest that has not logged in, or else the oldest.
const CONNECTIONS: usize = 64;

/// How long a connection may be open before its first request.
const FIRST: Duration = Duration::from_secs(5);

/// How long a connection may be open without another request.
const IDLE: Duration = Duration::from_secs(120);

/// For a scrape, a password, and the files that each new connection reads: a flood of connections starts no thread each.
const THREADS: usize = 8;

/// The time that scrapes under way get after the signal to stop.
const LAST_SCRAPES: Duration = Duration::from_secs(5);

/// Prometheus says here how long it waits.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";

/// How much of that time is left for the way of the answer.
const RESERVE: f64 = 0.9;

/// The longest time that is taken from the header, in seconds.
const LONGEST: f64 = 60.0;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What all connections share.
struct Site {
    scraper: Arc<Mutex<Scraper>>,
    web: Web,
}

/// A status, the type of a text, and the text.
type Page = (StatusCode, &'static str, String);

/// Serves metrics until SIGTERM or SIGINT, as the web configuration file says.
pub(crate) fn serve(
    place: Place,
    hot_locks: u32,
    (listen, web): (&str, Option<&Path>),
    output: Output,
) -> Result<u8, Error> {
    let notes = Notes::new(output.json);
    let scraper = Arc::new(Mutex::new(Scraper::new(place, hot_locks, notes)));
    let site = Arc::new(Site { scraper, web: Web::new(web, notes)? });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|cause| Error::System { what: "cannot start", cause })?;
    let outcome = runtime.block_on(run(site, listen, notes));
    // A scrape that hangs must not delay the end.
    runtime.shutdown_background();
    outcome.map(|()| YES)
}

async fn run(site: Arc<Site>, listen: &str, notes: Notes) -> Result<(), Error> {
    let signals = |cause| Error::System { what: "signals cannot be handled", cause };
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let refused = |cause| Error::Listen { address: listen.to_string(), cause };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    notes.say(&format!("serves {}://{address}/metrics", site.web.scheme()?));
    let connections = GracefulShutdown::new();
    tokio::select! {
        () = accept(&listener, &site, &connections) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(listener);
    // Later answers are cut off.
    let _ = timeout(LAST_SCRAPES, connections.shutdown()).await;
    Ok(())
}

/// An open connection, and what its client has done on it.
struct Visit {
    client: Arc<Client>,
    connection: AbortHandle,
}

#[derive(Default)]
struct Client {
    /// It has sent the head of a request.
    has_asked: AtomicBool,
    /// A request of it was served.
    is_admitted: AtomicBool,
}

/// Accepts connections for ever.
async fn accept(listener: &TcpListener, site: &Arc<Site>, connections: &GracefulShutdown) {
    let mut visits: Vec<Visit> = Vec::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No file descriptors are left, or the client is gone: the next one may have more luck.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        visits.retain(|visit| !visit.connection.is_finished());
        make_room(&mut visits);
        let client = Arc::new(Client::default());
        let conversation = converse(stream, site.clone(), client.clone(), connections.watcher());
        visits.push(Visit { client, connection: tokio::spawn(conversation).abort_handle() });
    }
}

/// Closes a connection where there are too many.
fn make_room(visits: &mut Vec<Visit>) {
    if visits.len() < CONNECTIONS {
        return;
    }
    let stranger = visits.iter().position(|visit| !visit.client.is_admitted.load(Ordering::Relaxed));
    visits.remove(stranger.unwrap_or(0)).connection.abort();
}

async fn converse(stream: TcpStream, site: Arc<Site>, client: Arc<Client>, watcher: Watcher) {
    let Some(stream) = site.web.open(stream).await else { return };
    let asking = client.clone();
    let service = service_fn(move |request| answer(request, site.clone(), asking.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A client that breaks off has its reasons.
        _ = watcher.watch(connection) => {}
        () = silence(&client) => {}
    }
}

/// Ends if the client does not ask in time.
async fn silence(client: &Client) {
    sleep(FIRST).await;
    if client.has_asked.load(Ordering::Relaxed) {
        pending().await
    }
}

async fn answer(
    request: Request<Incoming>,
    site: Arc<Site>,
    client: Arc<Client>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    client.has_asked.store(true, Ordering::Relaxed);
    let access = site.web.access(request.headers()).await;
    let is_admitted = matches!(access, Access::Granted);
    client.is_admitted.store(is_admitted, Ordering::Relaxed);
    let (status, kind, text) = match access {
        Access::Granted => page(&request, &site).await,
        Access::Denied => refusal(StatusCode::UNAUTHORIZED, "Log in as a user of the exporter.\n"),
        Access::Busy => {
            refusal(StatusCode::SERVICE_UNAVAILABLE, "Too many logins are under way: try again.\n")
        }
        Access::Broken => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The web configuration file has a fault: see the exporter's log.\n",
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if !is_admitted {
        // Its place is for a client that may read.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    match status {
        StatusCode::METHOD_NOT_ALLOWED => _ = headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD")),
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"rlock\""));
        }
        _ => {}
    }
    Ok(response)
}

fn refusal(status: StatusCode, text: &str) -> Page {
    (status, PLAIN, text.to_string())
}

async fn page(request: &Request<Incoming>, site: &Site) -> Page {
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            metrics(site.scraper.clone(), patience(request.headers())).await
        }
        (&Method::GET | &Method::HEAD, "/") => {
            (StatusCode::OK, PLAIN, "The metrics are at /metrics.\n".to_string())
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, PLAIN, "Nothing is here: the metrics are at /metrics.\n".to_string())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "Use GET.\n".to_string()),
    }
}

async fn metrics(scraper: Arc<Mutex<Scraper>>, patience: Duration) -> Page {
    let deadline = after(patience);
    let Ok(mut scraper) = timeout_at(deadline.into(), scraper.lock_owned()).await else {
        let text = "Another scrape is under way: scrape less often.\n";
        return (StatusCode::SERVICE_UNAVAILABLE, PLAIN, text.to_string());
    };
    let scraped = spawn_blocking(move || text::of(&scraper.scrape(deadline))).await;
    match scraped.map_err(io::Error::from) {
        Ok(Ok(text)) => (StatusCode::OK, TEXT, text),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
    }
}

fn patience(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(TIMEOUT_HEADER).and_then(|value| value.to_str().ok()?.parse::<f64>().ok());
    match seconds.filter(|seconds| *seconds > 0.0) {
        Some(seconds) => Duration::from_secs_f64(seconds.min(LONGEST) * RESERVE),
        None => PATIENCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_that_of_prometheus() {
        let cases = [
            (Some("10"), 9_000),
            (Some("0.5"), 450),
            (Some("1e9"), 54_000),
            (Some("-1"), 5_000),
            (Some("NaN"), 5_000),
            (Some("soon"), 5_000),
            (None, 5_000),
        ];
        for (value, ms) in cases {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(TIMEOUT_HEADER, value.parse().unwrap());
            }
            assert_eq!(patience(&headers), Duration::from_millis(ms), "{value:?}");
        }
    }
}
