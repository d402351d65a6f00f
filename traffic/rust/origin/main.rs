// SPDX-License-Identifier: Apache-2.0
//! An HTTP/3 origin (RFC 9114) on noq and h3: serves the files of a site as the stand-ins' Caddy does.
//!
//! `ADDRESS PORT CONTROL CHAIN KEY LOG PREFIX=FOLDER ...`: listens on UDP with the certificates and the key of two PEM
//! files, sends with congestion control CONTROL, and appends a line of JSON per request to LOG. A path that begins with
//! PREFIX is a file in FOLDER; the longest PREFIX that fits decides. A file of `/live/` is a template (site.rs).

mod access_log;
mod ack_frames;
mod browser_prague;
mod control;
#[path = "../ect1.rs"]
mod ect1;
mod ect1_counts;
#[path = "../prague.rs"]
mod prague;
#[path = "../prague_control.rs"]
mod prague_control;
mod site;
mod streams;

use std::{
    cell::RefCell,
    env,
    error::Error,
    fs::File,
    net::{SocketAddr, UdpSocket},
    path::Path,
    process,
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use access_log::AccessLog;
use bytes::Bytes;
use control::PRAGUE;
use h3::server::{RequestResolver, RequestStream};
use http::{header, Method, Request, Response, StatusCode};
use noq::{
    crypto::rustls::QuicServerConfig, Endpoint, EndpointConfig, Incoming, Runtime, ServerConfig, TokioRuntime,
    TransportConfig,
};
use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use site::{Content, Site};
use streams::QuicConnection;
use tokio::task::{spawn_local, LocalSet};

type Outcome = Result<(), Box<dyn Error>>;

struct Origin {
    site: Site,
    log: RefCell<AccessLog>,
}

fn configured(control: &str, chain: &Path, key: &Path) -> Result<ServerConfig, Box<dyn Error>> {
    let mut provider = rustls::crypto::ring::default_provider();
    if control == PRAGUE {
        provider = ect1_counts::with_swapped_counts(provider);
    }
    let certificates = CertificateDer::pem_file_iter(chain)?.collect::<Result<Vec<_>, _>>()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates, PrivateKeyDer::from_pem_file(key)?)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(control::factory(control)?)
        // A queue sees the packets that a wire would.
        .enable_segmentation_offload(false);
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// What connections of that control run on.
fn runtime_of(control: &str) -> Arc<dyn Runtime> {
    match control {
        PRAGUE => Arc::new(ect1::Ect1Runtime),
        _ => Arc::new(TokioRuntime),
    }
}

async fn serve(at: SocketAddr, config: ServerConfig, control: &str, origin: Rc<Origin>) -> Outcome {
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), UdpSocket::bind(at)?, runtime_of(control))?;
    eprintln!("serving HTTP/3 at {at}");
    while let Some(incoming) = endpoint.accept().await {
        let origin = origin.clone();
        spawn_local(async move {
            let from = incoming.remote_address();
            if let Err(error) = converse(incoming, origin).await {
                eprintln!("{from}: {error}");
            }
        });
    }
    Ok(())
}

async fn converse(incoming: Incoming, origin: Rc<Origin>) -> Outcome {
    let from = incoming.remote_address();
    let transport = QuicConnection::new(incoming.await?);
    // Unknown frames and settings, which exercise a client, would be random bytes.
    let mut connection = h3::server::builder().send_grease(false).build(transport).await?;
    while let Some(resolver) = connection.accept().await? {
        let origin = origin.clone();
        spawn_local(async move {
            if let Err(error) = answer(resolver, from, origin).await {
                eprintln!("{from}: {error}");
            }
        });
    }
    Ok(())
}

async fn answer(resolver: RequestResolver<QuicConnection, Bytes>, from: SocketAddr, origin: Rc<Origin>) -> Outcome {
    let (request, mut stream) = resolver.resolve_request().await?;
    let begun = Instant::now();
    let (response, body) = respond(&request, &origin.site);
    let sent = send(&mut stream, &response, &body).await;
    origin.log.borrow_mut().add(from, &request, &response, body.len(), begun.elapsed());
    sent
}

async fn send<S: h3::quic::SendStream<Bytes>>(
    stream: &mut RequestStream<S, Bytes>,
    response: &Response<()>,
    body: &Bytes,
) -> Outcome {
    stream.send_response(response.clone()).await?;
    if !body.is_empty() {
        stream.send_data(body.clone()).await?;
    }
    Ok(stream.finish().await?)
}

/// Returns the answer to a request, and its body: empty for HEAD.
fn respond(request: &Request<()>, site: &Site) -> (Response<()>, Bytes) {
    // Nothing may be cached: every segment must cross the bottleneck.
    let response = Response::builder().header(header::CACHE_CONTROL, "no-store");
    let refused = |status: StatusCode| {
        let response = Response::builder().header(header::CACHE_CONTROL, "no-store").header(header::CONTENT_LENGTH, 0);
        (response.status(status).body(()).expect("a response"), Bytes::new())
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return refused(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Content { body, media_type } = match site.content(request.uri().path()) {
        Ok(Some(content)) => content,
        Ok(None) => return refused(StatusCode::NOT_FOUND),
        Err(error) => {
            eprintln!("{}: {error}", request.uri().path());
            return refused(StatusCode::INTERNAL_SERVER_ERROR);
        }
    };
    let response = response.header(header::CONTENT_TYPE, media_type).header(header::ACCEPT_RANGES, "bytes");
    let whole = body.len();
    let ranges = request.headers().get(header::RANGE).and_then(|value| value.to_str().ok());
    let (response, body) = match ranges.and_then(|text| requested(text, whole)) {
        None => (response.status(StatusCode::OK), body),
        Some(None) => {
            let range = format!("bytes */{whole}");
            (response.status(StatusCode::RANGE_NOT_SATISFIABLE).header(header::CONTENT_RANGE, range), Bytes::new())
        }
        Some(Some((first, last))) => {
            let range = format!("bytes {first}-{last}/{whole}");
            let part = body.slice(first..=last);
            (response.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, range), part)
        }
    };
    let response = response.header(header::CONTENT_LENGTH, body.len()).body(()).expect("a response");
    (response, if request.method() == Method::HEAD { Bytes::new() } else { body })
}

/// Returns the first and last byte that a Range header requests of a body (RFC 9110, 14.1.2).
///
/// None for a header to be ignored: of another unit, malformed, or of several ranges, which a server may send as a
/// whole. Some(None) if the body has none of these bytes.
fn requested(header: &str, whole: usize) -> Option<Option<(usize, usize)>> {
    let (first, last) = header.trim().strip_prefix("bytes=")?.trim().split_once('-')?;
    if first.is_empty() {
        let length: usize = last.parse().ok()?;
        return Some((length > 0 && whole > 0).then(|| (whole.saturating_sub(length), whole - 1)));
    }
    let first: usize = first.parse().ok()?;
    let last: usize = if last.is_empty() { usize::MAX } else { last.parse().ok()? };
    if last < first {
        return None;
    }
    Some((first < whole).then(|| (first, last.min(whole - 1))))
}

fn run(words: &[String]) -> Outcome {
    let [address, port, control, chain, key, log, folders @ ..] = words else {
        return Err("ADDRESS PORT CONTROL CHAIN KEY LOG PREFIX=FOLDER ...".into());
    };
    let at = SocketAddr::new(address.parse()?, port.parse()?);
    let config = configured(control, Path::new(chain), Path::new(key))?;
    let log = File::options().create(true).append(true).open(log).map_err(|error| format!("{log}: {error}"))?;
    let origin = Rc::new(Origin { site: Site::of(folders)?, log: RefCell::new(AccessLog::new(log)) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, serve(at, config, control, origin))
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let Err(error) = run(&words) {
        eprintln!("origin: {error}");
        process::exit(1);
    }
}
