// SPDX-License-Identifier: Apache-2.0
//! One video with SCReAM v2 (draft-johansson-ccwg-rfc8298bis-screamv2-07) over RTP as ECT(1): `receive ADDRESS PORT`
//! acknowledges each packet and its ECN field by RFC 8888, `send ADDRESS PORT FROM_PORT MOST_KBPS` sends frames of the
//! target bitrate, MOST_KBPS at most, until it is killed.

mod base_delay;
mod delay_target;
mod marked;
mod media;
mod rtp;
mod scream2_control;
mod socket;

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    num::NonZeroU64,
    slice::Chunks,
    time::Instant,
};

use marked::Marked;
use media::{Arrivals, MediaControl, MediaSocket, Outcome, MOST};
use rtp::{Arrival, Clock};
use scream2_control::{Control, FRAME_PERIOD};

/// Largest RTP packet: 1400 bytes with UDP and IP, as in Ericsson's tests; the draft's example is 1000.
const MSS: usize = 1372;
const CE: u8 = 3;

/// Section 5: a report goes after so many packets, after the last of a frame, and at the latest after FEEDBACK_MOST.
const FEEDBACK_PACKETS: u64 = 16;
const FEEDBACK_MOST: f64 = 0.04;

fn receive(at: SocketAddr) -> Outcome {
    let socket = Marked::new(socket::accepting(at)?)?;
    let clock = Clock(Instant::now());
    let mut arrivals = Arrivals::default();
    let (mut new, mut due) = (0, None);
    let mut buffer = [0; MOST];
    loop {
        let mut last = false;
        if let Some((packets, ecn)) = socket.arrives(&mut buffer, due.map(|due| clock.at(due)))? {
            let now = clock.now();
            for packet in packets {
                if arrivals.takes(packet, Arrival { at: now, ecn }) {
                    new += 1;
                    last |= packet[1] >> 7 == 1;
                    due.get_or_insert(now + FEEDBACK_MOST);
                }
            }
        }
        let now = clock.now();
        if new >= FEEDBACK_PACKETS || last || due.is_some_and(|due| due <= now) {
            (new, due) = (0, None);
            socket.sends(&arrivals.report(now), false)?;
        }
    }
}

impl MediaSocket for Marked {
    fn of(socket: UdpSocket) -> io::Result<Self> {
        Self::new(socket)
    }

    fn media(&self, packet: &[u8]) -> io::Result<()> {
        self.sends(packet, true)
    }

    fn reports<'a>(&self, buffer: &'a mut [u8; MOST], until: Option<Instant>) -> io::Result<Option<Chunks<'a, u8>>> {
        Ok(self.arrives(buffer, until)?.map(|(packets, _)| packets))
    }
}

impl MediaControl for Control {
    const FRAME_PERIOD: f64 = FRAME_PERIOD;
    const MSS: usize = MSS;
    type Socket = Marked;

    fn of_video(most_bps: f64) -> Self {
        Self::new(MSS, most_bps)
    }

    fn target_bps(&self) -> f64 {
        self.target_bitrate
    }

    fn allows(&self, bytes: usize) -> bool {
        Self::allows(self, bytes)
    }

    fn gap(&self, bytes: usize) -> f64 {
        Self::gap(self, bytes)
    }

    fn encoded(&mut self, bytes: usize, waited: f64) {
        Self::encoded(self, bytes, waited);
    }

    fn sent(&mut self, now: f64, seq: u64, bytes: usize) {
        Self::sent(self, now, seq, bytes);
    }

    fn hears(&mut self, now: f64, first: u64, arrivals: &[Option<Arrival>], last: Arrival) {
        let received: Vec<Option<bool>> = arrivals.iter().map(|it| it.map(|it| it.ecn == CE)).collect();
        Self::hears(self, now, first, &received, last.at);
    }
}

fn main() {
    // Or each gap between two packets would be 50 us longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    media::run::<Control>("scream2", receive);
}
