// SPDX-License-Identifier: Apache-2.0
//! One bulk flow over QUIC by quiche (https://github.com/cloudflare/quiche): `receive ADDRESS PORT` takes one connection,
//! `send ADDRESS PORT FROM_PORT CONTROL` fills a stream until it is killed. CONTROL: cubic, reno, bbr2_gcongestion.

#[path = "../certificate.rs"]
mod certificate;
#[path = "../socket.rs"]
mod socket;

use std::{
    env,
    error::Error,
    net::{SocketAddr, UdpSocket},
    process,
    time::Instant,
};

use boring::{
    pkey::PKey,
    ssl::{SslContextBuilder, SslMethod},
    x509::X509,
};
use quiche::{Config, Connection, ConnectionId, RecvInfo, SendInfo};

use certificate::{CERTIFICATE, KEY};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Above any bandwidth-delay product here, with its queue: windows never limit.
const WINDOW: u64 = 64 << 20;
/// The UDP payload of a packet of 1500 bytes of IPv4 or IPv6: of the other QUIC flows, after they have probed the path.
const PAYLOAD: usize = 1452;
const BLOCK: usize = 64 << 10;
/// The client's first stream in one direction.
const STREAM: u64 = 2;

fn config(control: Option<&str>) -> Outcome<Config> {
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    if control.is_none() {
        tls.set_certificate(&*X509::from_der(CERTIFICATE)?)?;
        tls.set_private_key(&*PKey::private_key_from_pkcs8(KEY)?)?;
    }
    let mut config = Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    config.verify_peer(false); // the receiver's certificate is its own
    config.set_application_protos(&[b"bulk"])?;
    config.set_max_send_udp_payload_size(PAYLOAD);
    config.set_max_recv_udp_payload_size(PAYLOAD);
    config.set_initial_max_data(WINDOW);
    config.set_max_connection_window(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_max_stream_window(WINDOW);
    config.set_initial_max_streams_uni(1);
    if let Some(name) = control {
        config.set_cc_algorithm_name(name).map_err(|_| format!("congestion control {name}"))?;
    }
    Ok(config)
}

/// Random, from the kernel, as the library's own.
fn connection_id() -> Outcome<[u8; quiche::MAX_CONN_ID_LEN]> {
    let mut id = [0; quiche::MAX_CONN_ID_LEN];
    boring::rand::rand_bytes(&mut id)?;
    Ok(id)
}

/// Drives the connection until it is closed; `work` reads or fills its streams whenever something has happened.
///
/// A packet waits here for the time that the library's pacer gave it: as behind a sender's `fq`.
fn drive(socket: &UdpSocket, mut connection: Connection, mut work: impl FnMut(&mut Connection) -> Outcome) -> Outcome {
    let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
    let (mut incoming, mut outgoing) = (vec![0; 65_535], vec![0; PAYLOAD]);
    let mut due: Option<(usize, SendInfo)> = None;
    while !connection.is_closed() {
        work(&mut connection)?;
        loop {
            if let Some((length, info)) = due {
                if info.at > Instant::now() {
                    break;
                }
                socket.send(&outgoing[..length])?;
            }
            due = match connection.send(&mut outgoing) {
                Ok(packet) => Some(packet),
                Err(quiche::Error::Done) => None,
                Err(error) => return Err(error.into()),
            };
            if due.is_none() {
                break;
            }
        }
        let expires = connection.timeout_instant();
        let until = due.map(|(_, info)| info.at).into_iter().chain(expires).min();
        let mut wait = until;
        while let Some(length) = socket::arrives(socket, wait, |socket| socket.recv(&mut incoming))? {
            match connection.recv(&mut incoming[..length], RecvInfo { from: peer, to: local }) {
                Ok(_) | Err(quiche::Error::Done) => {}
                Err(error) => return Err(error.into()),
            }
            wait = Some(Instant::now()); // what else is there
        }
        if expires.is_some_and(|at| at <= Instant::now()) {
            connection.on_timeout();
        }
    }
    Ok(())
}

fn receive(at: SocketAddr) -> Outcome {
    let socket = socket::accepting(at)?;
    let id = connection_id()?;
    let connection =
        quiche::accept(&ConnectionId::from_ref(&id), None, socket.local_addr()?, socket.peer_addr()?, &mut config(None)?)?;
    let mut block = vec![0; BLOCK];
    drive(&socket, connection, |connection| {
        while connection.stream_readable(STREAM) && connection.stream_recv(STREAM, &mut block).is_ok() {}
        Ok(())
    })
}

fn send(to: SocketAddr, from_port: u16, control: &str) -> Outcome {
    let socket = socket::connected(to, from_port)?;
    let id = connection_id()?;
    let connection = quiche::connect(
        Some("receiver"),
        &ConnectionId::from_ref(&id),
        socket.local_addr()?,
        socket.peer_addr()?,
        &mut config(Some(control))?,
    )?;
    let block = vec![0; BLOCK];
    drive(&socket, connection, |connection| {
        while connection.is_established() {
            match connection.stream_send(STREAM, &block, false) {
                Ok(0) | Err(quiche::Error::Done) => break,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

fn run(words: &[&str]) -> Outcome {
    match words {
        ["receive", address, port] => receive(SocketAddr::new(address.parse()?, port.parse()?)),
        ["send", address, port, from_port, control] => {
            send(SocketAddr::new(address.parse()?, port.parse()?), from_port.parse()?, control)
        }
        _ => Err("receive ADDRESS PORT | send ADDRESS PORT FROM_PORT CONTROL".into()),
    }
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Err(error) = run(&words) {
        eprintln!("quic-quiche: {error}");
        process::exit(1);
    }
}
