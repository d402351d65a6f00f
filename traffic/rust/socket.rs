// SPDX-License-Identifier: Apache-2.0
//! UDP between two ends that know each other, waited for to the nanosecond.

use std::{
    io::{ErrorKind, Result},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Instant,
};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// The socket `at` that address, once its first packet has come, which stays to be read.
pub fn accepting(at: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    let (_, other) = socket.peek_from(&mut [0])?;
    ready(socket, other)
}

/// A socket of `from_port` to `other`.
pub fn connected(other: SocketAddr, from_port: u16) -> Result<UdpSocket> {
    let any: IpAddr = if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    ready(UdpSocket::bind((any, from_port))?, other)
}

fn ready(socket: UdpSocket, other: SocketAddr) -> Result<UdpSocket> {
    socket.connect(other)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Waits until something is there, at most to `until`, and returns what `receive` makes of it.
pub fn arrives<T>(
    socket: &UdpSocket,
    until: Option<Instant>,
    receive: impl FnOnce(&UdpSocket) -> Result<T>,
) -> Result<Option<T>> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
    poll(&mut [PollFd::new(socket, PollFlags::IN)], left.as_ref())?;
    match receive(socket) {
        Ok(what) => Ok(Some(what)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
