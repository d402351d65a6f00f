// SPDX-License-Identifier: Apache-2.0
//! A connected UDP socket that knows the ECN field of what it sends and receives.

use std::{
    io::{IoSliceMut, Result},
    net::{SocketAddr, UdpSocket},
    slice::Chunks,
    time::Instant,
};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

use crate::{media::MOST, socket};

pub struct Marked {
    socket: UdpSocket,
    other: SocketAddr,
    state: UdpSocketState,
}

impl Marked {
    pub fn new(socket: UdpSocket) -> Result<Self> {
        Ok(Self { other: socket.peer_addr()?, state: UdpSocketState::new((&socket).into())?, socket })
    }

    /// Sends as ECT(1), or as Not-ECT.
    pub fn sends(&self, datagram: &[u8], ect1: bool) -> Result<()> {
        let ecn = ect1.then_some(EcnCodepoint::Ect1);
        let transmit = Transmit { destination: self.other, ecn, contents: datagram, segment_size: None, src_ip: None };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    /// Waits for datagrams, at most to `until`, and returns them (the kernel may join several) with their ECN field.
    pub fn arrives<'a>(
        &self,
        buffer: &'a mut [u8; MOST],
        until: Option<Instant>,
    ) -> Result<Option<(Chunks<'a, u8>, u8)>> {
        let mut meta = [RecvMeta::default()];
        let received = socket::arrives(&self.socket, until, |socket| {
            self.state.recv(socket.into(), &mut [IoSliceMut::new(buffer)], &mut meta)
        })?;
        let [RecvMeta { len, stride, ecn, .. }] = meta;
        Ok(received.map(|_| (buffer[..len].chunks(stride.max(1)), ecn.map_or(0, |ecn| ecn as u8))))
    }
}
