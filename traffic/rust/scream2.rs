// SPDX-License-Identifier: Apache-2.0
//! One video with SCReAM v2 (draft-johansson-ccwg-rfc8298bis-screamv2-07) over RTP as ECT(1): `receive ADDRESS PORT`
//! acknowledges each packet and its ECN field by RFC 8888, `send ADDRESS PORT FROM_PORT MOST_KBPS` sends frames of the
//! target bitrate, MOST_KBPS at most, until it is killed.

mod marked;
mod rtp;
mod scream2_control;
mod socket;

use std::{collections::VecDeque, env, error::Error, net::SocketAddr, num::NonZeroU64, process, time::Instant};

use marked::{Marked, MOST};
use rtp::{extended, media, read, report, sequence, Arrival, Clock, RTP_HEADER};
use scream2_control::{Control, FRAME_PERIOD};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Largest RTP packet: 1400 bytes with UDP and IP, as in Ericsson's tests; the draft's example is 1000.
const MSS: usize = 1372;
const CE: u8 = 3;
/// A frame is left out while packets wait as long as this.
const LATE: f64 = 0.5;
/// Without an answer one packet goes each so often, or a whole lost window would end the flow.
const SILENCE: f64 = 0.5;

/// Section 5: a report goes after so many packets, after the last of a frame, and at the latest after FEEDBACK_MOST.
const FEEDBACK_PACKETS: u64 = 16;
const FEEDBACK_MOST: f64 = 0.04;
/// How many packets each report has at least, so that a lost one loses nothing.
const REPORTED: u64 = 64;

fn receive(at: SocketAddr) -> Outcome {
    let socket = Marked::new(socket::accepting(at)?)?;
    let clock = Clock(Instant::now());
    // Of the packets from `first` on.
    let (mut first, mut arrivals) = (0, VecDeque::<Option<Arrival>>::new());
    let (mut reported, mut new, mut due) = (0, 0, None);
    let mut buffer = [0; MOST];
    loop {
        let mut last = false;
        if let Some((packets, ecn)) = socket.arrives(&mut buffer, due.map(|due| clock.at(due)))? {
            let now = clock.now();
            for packet in packets.filter(|packet| packet.len() >= RTP_HEADER) {
                let seq = extended(sequence(packet), first + arrivals.len() as u64);
                let Some(place) = seq.checked_sub(first).map(|place| place as usize) else { continue };
                arrivals.resize(arrivals.len().max(place + 1), None);
                arrivals[place] = Some(Arrival { at: now, ecn });
                new += 1;
                last |= packet[1] >> 7 == 1;
                due.get_or_insert(now + FEEDBACK_MOST);
            }
        }
        let now = clock.now();
        if new >= FEEDBACK_PACKETS || last || due.is_some_and(|due| due <= now) {
            (new, due) = (0, None);
            let end = first + arrivals.len() as u64;
            let from = reported.min(end.saturating_sub(REPORTED));
            arrivals.drain(..(from - first) as usize);
            (first, reported) = (from, end);
            socket.sends(&report(first, arrivals.make_contiguous(), now), false)?;
        }
    }
}

struct Sender {
    socket: Marked,
    clock: Clock,
    control: Control,
    /// Packets not sent yet: when their frame was made, and what they are.
    queue: VecDeque<(f64, Vec<u8>)>,
    frames: u64,
    made: u64,
    sent: u64,
    next_frame: f64,
    next_packet: f64,
    last: f64,
}

impl Sender {
    /// Does what is due, and returns when something is again.
    fn acts(&mut self, now: f64) -> Outcome<f64> {
        if self.next_frame <= now {
            let waits = self.queue.front().map_or(0.0, |(made, _)| now - made);
            if waits < LATE {
                self.makes_frame(now, waits);
            }
            self.next_frame += FRAME_PERIOD;
        }
        while self.next_packet <= now && self.may_send(now) {
            let Some((_, packet)) = self.queue.pop_front() else { break };
            self.socket.sends(&packet, true)?;
            self.control.sent(now, self.sent, packet.len());
            self.sent += 1;
            self.last = now;
            self.next_packet = now + self.control.gap(packet.len());
        }
        let waits = self.next_packet > now && self.may_send(now);
        Ok(if waits { self.next_frame.min(self.next_packet) } else { self.next_frame })
    }

    fn may_send(&self, now: f64) -> bool {
        let allows = |(_, packet): &(f64, Vec<u8>)| self.control.allows(packet.len()) || now - self.last >= SILENCE;
        self.queue.front().is_some_and(allows)
    }

    fn makes_frame(&mut self, now: f64, waits: f64) {
        let mut left = ((self.control.target_bitrate * FRAME_PERIOD / 8.0) as usize).max(RTP_HEADER + 1);
        self.control.encoded(left, waits);
        while left > 0 {
            let bytes = left.min(MSS);
            left -= bytes;
            let packet = media(self.made, self.frames, left == 0, bytes.max(RTP_HEADER));
            self.queue.push_back((now, packet));
            self.made += 1;
        }
        self.frames += 1;
    }

    fn hears(&mut self, packet: &[u8], now: f64) {
        let Some((first, arrivals)) = read(packet) else { return };
        let first = extended(first, self.sent);
        let received: Vec<Option<bool>> = arrivals.iter().map(|it| it.map(|it| it.ecn == CE)).collect();
        let Some(last) = arrivals.iter().rev().find_map(Option::as_ref) else { return };
        self.control.hears(now, first, &received, last.at);
    }
}

fn send(to: SocketAddr, from_port: u16, most_bps: f64) -> Outcome {
    let mut sender = Sender {
        socket: Marked::new(socket::connected(to, from_port)?)?,
        clock: Clock(Instant::now()),
        control: Control::new(MSS, most_bps),
        queue: VecDeque::new(),
        frames: 0,
        made: 0,
        sent: 0,
        next_frame: 0.0,
        next_packet: 0.0,
        last: 0.0,
    };
    let mut buffer = [0; MOST];
    loop {
        let until = sender.acts(sender.clock.now())?;
        let until = Some(sender.clock.at(until));
        if let Some((packets, _)) = sender.socket.arrives(&mut buffer, until)? {
            packets.for_each(|packet| sender.hears(packet, sender.clock.now()));
        }
    }
}

fn act(words: &[&str]) -> Outcome {
    match words {
        ["receive", address, port] => receive(SocketAddr::new(address.parse()?, port.parse()?)),
        ["send", address, port, from_port, most] => {
            send(SocketAddr::new(address.parse()?, port.parse()?), from_port.parse()?, most.parse::<f64>()? * 1000.0)
        }
        _ => Err("receive ADDRESS PORT | send ADDRESS PORT FROM_PORT MOST_KBPS".into()),
    }
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Or each gap between two packets would be 50 us longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    if let Err(error) = act(&words) {
        eprintln!("scream2: {error}");
        process::exit(1);
    }
}
