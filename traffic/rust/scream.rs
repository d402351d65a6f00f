// SPDX-License-Identifier: Apache-2.0
//! One video with SCReAM (RFC 8298) over RTP: `receive ADDRESS PORT` acknowledges each packet by RFC 8888, `send ADDRESS
//! PORT FROM_PORT MOST_KBPS` sends pictures of what rate it may, MOST_KBPS at most, until it is killed.

mod base_delay;
mod delay_target;
mod media;
mod rtp;
mod scream_control;
mod socket;

use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, UdpSocket},
    slice::Chunks,
    time::Instant,
};

use media::{Arrivals, MediaControl, MediaSocket, Outcome, MOST};
use rtp::{Arrival, Clock};
use scream_control::{Control, MSS};

fn receive(at: SocketAddr) -> Outcome {
    let socket = socket::accepting(at)?;
    let clock = Clock(Instant::now());
    let mut arrivals = Arrivals::default();
    // Of the packets of the last second, their time and size.
    let (mut recent, mut due) = (VecDeque::<(f64, usize)>::new(), None);
    let mut buffer = [0; MOST];
    loop {
        if let Some(packets) = socket.reports(&mut buffer, due.map(|due| clock.at(due)))? {
            let now = clock.now();
            for packet in packets {
                if !arrivals.takes(packet, Arrival { at: now, ecn: 0 }) {
                    continue;
                }
                recent.push_back((now, packet.len()));
                while recent.front().is_some_and(|(at, _)| *at < now - 1.0) {
                    recent.pop_front();
                }
                let bps = recent.iter().map(|(_, bytes)| bytes * 8).sum::<usize>() as f64;
                due.get_or_insert(now + 1.0 / (bps / 10_000.0).clamp(2.5, 50.0));
            }
        }
        let now = clock.now();
        if due.is_some_and(|due| due <= now) {
            due = None;
            socket.send(&arrivals.report(now))?;
        }
    }
}

impl MediaSocket for UdpSocket {
    fn of(socket: UdpSocket) -> io::Result<Self> {
        Ok(socket)
    }

    fn media(&self, packet: &[u8]) -> io::Result<()> {
        self.send(packet).map(drop)
    }

    fn reports<'a>(&self, buffer: &'a mut [u8; MOST], until: Option<Instant>) -> io::Result<Option<Chunks<'a, u8>>> {
        let received = socket::arrives(self, until, |socket| socket.recv(buffer))?;
        Ok(received.map(|bytes| buffer[..bytes].chunks(bytes.max(1))))
    }
}

impl MediaControl for Control {
    const FRAME_PERIOD: f64 = 1.0 / 30.0;
    const MSS: usize = MSS;
    type Socket = UdpSocket;

    fn of_video(most_bps: f64) -> Self {
        Self::new(most_bps)
    }

    fn target_bps(&self) -> f64 {
        self.target_bps
    }

    fn allows(&self, bytes: usize) -> bool {
        Self::allows(self, bytes)
    }

    fn gap(&self, bytes: usize) -> f64 {
        Self::gap(self, bytes)
    }

    fn encoded(&mut self, bytes: usize, _: f64) {
        Self::encoded(self, bytes);
    }

    fn sent(&mut self, now: f64, seq: u64, bytes: usize) {
        Self::sent(self, now, seq, bytes);
    }

    fn hears(&mut self, now: f64, first: u64, arrivals: &[Option<Arrival>], last: Arrival) {
        let received: Vec<bool> = arrivals.iter().map(Option::is_some).collect();
        Self::hears(self, now, first, &received, last.at);
    }

    fn due(&self) -> f64 {
        self.next_rate
    }

    fn adjusts(&mut self, queued: usize) {
        Self::adjusts(self, queued);
    }
}

fn main() {
    media::run::<Control>("scream", receive);
}
