// SPDX-License-Identifier: Apache-2.0
//! One video with SCReAM (RFC 8298) over RTP: `receive ADDRESS PORT` acknowledges each packet by RFC 8888, `send ADDRESS
//! PORT FROM_PORT MOST_KBPS` sends pictures of what rate it may, MOST_KBPS at most, until it is killed.

mod rtp;
mod scream_control;
mod socket;

use std::{
    collections::VecDeque,
    env,
    error::Error,
    net::{SocketAddr, UdpSocket},
    process,
    time::Instant,
};

use rtp::{extended, media, read, report, sequence, Arrival, Clock, RTP_HEADER};
use scream_control::{Control, MSS, RATE_ADJUST_INTERVAL};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const PICTURE: f64 = 1.0 / 30.0;
/// A picture is left out while packets wait as long as this.
const LATE: f64 = 0.5;
/// Without an answer one packet goes each so often, or a whole lost window would end the flow.
const SILENCE: f64 = 0.5;

/// How many packets each report has at least, so that a lost one loses nothing.
const REPORTED: u64 = 64;

fn receive(at: SocketAddr) -> Outcome {
    let socket = socket::accepting(at)?;
    let clock = Clock(Instant::now());
    // Of the packets from `first` on; of those of the last second their time and size.
    let (mut first, mut arrivals) = (0, VecDeque::<Option<Arrival>>::new());
    let mut recent = VecDeque::<(f64, usize)>::new();
    let (mut reported, mut due) = (0, None);
    let mut datagram = [0; 2048];
    loop {
        if let Some(bytes) = socket::arrives(&socket, due.map(|due| clock.at(due)), |it| it.recv(&mut datagram))? {
            let now = clock.now();
            let seq = extended(sequence(&datagram), first + arrivals.len() as u64);
            if bytes < RTP_HEADER || seq < first {
                continue;
            }
            let place = (seq - first) as usize;
            arrivals.resize(arrivals.len().max(place + 1), None);
            arrivals[place] = Some(Arrival { at: now, ecn: 0 });
            recent.push_back((now, bytes));
            while recent.front().is_some_and(|(at, _)| *at < now - 1.0) {
                recent.pop_front();
            }
            let bps = recent.iter().map(|(_, bytes)| bytes * 8).sum::<usize>() as f64;
            due.get_or_insert(now + 1.0 / (bps / 10_000.0).clamp(2.5, 50.0));
        }
        let now = clock.now();
        if due.is_some_and(|due| due <= now) {
            due = None;
            let end = first + arrivals.len() as u64;
            let from = reported.min(end.saturating_sub(REPORTED));
            arrivals.drain(..(from - first) as usize);
            (first, reported) = (from, end);
            socket.send(&report(first, arrivals.make_contiguous(), now))?;
        }
    }
}

struct Sender {
    socket: UdpSocket,
    clock: Clock,
    control: Control,
    /// Packets not sent yet: when their picture was taken, and what they are.
    queue: VecDeque<(f64, Vec<u8>)>,
    pictures: u64,
    made: u64,
    sent: u64,
    next_picture: f64,
    next_packet: f64,
    next_rate: f64,
    last: f64,
}

impl Sender {
    /// Does what is due, and returns when something is again.
    fn acts(&mut self, now: f64) -> Outcome<f64> {
        if self.next_rate <= now {
            self.control.adjusts(self.queue.iter().map(|(_, packet)| packet.len()).sum());
            self.next_rate += RATE_ADJUST_INTERVAL;
        }
        if self.next_picture <= now {
            if self.queue.front().is_none_or(|(taken, _)| now - taken < LATE) {
                self.takes_picture(now);
            }
            self.next_picture += PICTURE;
        }
        while self.next_packet <= now && self.may_send(now) {
            let Some((_, packet)) = self.queue.pop_front() else { break };
            self.socket.send(&packet)?;
            self.control.sent(now, self.sent, packet.len());
            self.sent += 1;
            self.last = now;
            self.next_packet = now + self.control.gap(packet.len());
        }
        let waits = self.next_packet > now && self.may_send(now);
        let next = self.next_picture.min(self.next_rate);
        Ok(if waits { next.min(self.next_packet) } else { next })
    }

    fn may_send(&self, now: f64) -> bool {
        let allows = |(_, packet): &(f64, Vec<u8>)| self.control.allows(packet.len()) || now - self.last >= SILENCE;
        self.queue.front().is_some_and(allows)
    }

    fn takes_picture(&mut self, now: f64) {
        let mut left = ((self.control.target_bps * PICTURE / 8.0) as usize).max(RTP_HEADER + 1);
        self.control.encoded(left);
        while left > 0 {
            let bytes = left.min(MSS);
            left -= bytes;
            let packet = media(self.made, self.pictures, left == 0, bytes.max(RTP_HEADER));
            self.queue.push_back((now, packet));
            self.made += 1;
        }
        self.pictures += 1;
    }

    fn hears(&mut self, packet: &[u8], now: f64) {
        let Some((first, arrivals)) = read(packet) else { return };
        let first = extended(first, self.sent);
        let received: Vec<bool> = arrivals.iter().map(Option::is_some).collect();
        let Some(last) = arrivals.iter().rev().find_map(Option::as_ref) else { return };
        self.control.hears(now, first, &received, last.at);
    }
}

fn send(to: SocketAddr, from_port: u16, most_bps: f64) -> Outcome {
    let mut sender = Sender {
        socket: socket::connected(to, from_port)?,
        clock: Clock(Instant::now()),
        control: Control::new(most_bps),
        queue: VecDeque::new(),
        pictures: 0,
        made: 0,
        sent: 0,
        next_picture: 0.0,
        next_packet: 0.0,
        next_rate: RATE_ADJUST_INTERVAL,
        last: 0.0,
    };
    let mut datagram = [0; 2048];
    loop {
        let until = sender.acts(sender.clock.now())?;
        let until = Some(sender.clock.at(until));
        if let Some(bytes) = socket::arrives(&sender.socket, until, |it| it.recv(&mut datagram))? {
            sender.hears(&datagram[..bytes], sender.clock.now());
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
    if let Err(error) = act(&words) {
        eprintln!("scream: {error}");
        process::exit(1);
    }
}
