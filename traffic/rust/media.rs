// SPDX-License-Identifier: Apache-2.0
//! What SCReAM's two versions share: a program that sends one video over RTP at the rate and pace of its control, and
//! the receiver's record of what arrived (RFC 8888). Times are seconds of the program's clock.

use std::{
    collections::VecDeque,
    env,
    error::Error,
    io,
    net::{SocketAddr, UdpSocket},
    process,
    slice::Chunks,
    time::Instant,
};

use crate::{
    rtp::{extended, media, read, report, sequence, Arrival, Clock, RTP_HEADER},
    socket,
};

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A frame is left out while packets wait as long as this.
const LATE: f64 = 0.5;
/// Without an answer one packet goes each so often, or a whole lost window would end the flow.
const SILENCE: f64 = 0.5;
/// How many packets each report has at least, so that a lost one loses nothing.
const REPORTED: u64 = 64;

/// A congestion control of media: it decides the rate of the frames, and when a packet may leave.
pub trait MediaControl {
    /// From a frame to the next.
    const FRAME_PERIOD: f64;
    /// Bytes of the largest RTP packet.
    const MSS: usize;
    /// What media is sent through.
    type Socket: MediaSocket;

    /// The control of a video of at most that many bit/s.
    fn of_video(most_bps: f64) -> Self;

    /// Bit/s of the next frame.
    fn target_bps(&self) -> f64;

    /// Whether the window has room for a packet; the pace aside.
    fn allows(&self, bytes: usize) -> bool;

    /// How long after a packet the next one may go.
    fn gap(&self, bytes: usize) -> f64;

    /// Takes note of a new frame of that size, while the oldest packet that waits to be sent has waited so long.
    fn encoded(&mut self, bytes: usize, waited: f64);

    /// Takes note of a packet that leaves `now`.
    fn sent(&mut self, now: f64, seq: u64, bytes: usize);

    /// Takes a report that came `now`: what arrived from packet `first` on, of which `last` has the highest number.
    fn hears(&mut self, now: f64, first: u64, arrivals: &[Option<Arrival>], last: Arrival);

    /// When the control next adjusts its rate by itself; by default never.
    fn due(&self) -> f64 {
        f64::INFINITY
    }

    /// Adjusts the rate, with `queued` bytes not sent yet.
    fn adjusts(&mut self, _queued: usize) {}
}

/// Bytes that are received at once, at most.
pub const MOST: usize = 1 << 16;

/// A connected UDP socket.
pub trait MediaSocket: Sized {
    fn of(socket: UdpSocket) -> io::Result<Self>;

    /// Sends a media packet.
    fn media(&self, packet: &[u8]) -> io::Result<()>;

    /// Waits for datagrams, at most to `until`, and returns those that came.
    fn reports<'a>(&self, buffer: &'a mut [u8; MOST], until: Option<Instant>) -> io::Result<Option<Chunks<'a, u8>>>;
}

struct Sender<C: MediaControl> {
    socket: C::Socket,
    clock: Clock,
    control: C,
    /// Packets not sent yet: when their frame was made, and what they are.
    queue: VecDeque<(f64, Vec<u8>)>,
    frames: u64,
    made: u64,
    sent: u64,
    next_frame: f64,
    next_packet: f64,
    last: f64,
}

impl<C: MediaControl> Sender<C> {
    /// Does what is due, and returns when something is again.
    fn acts(&mut self, now: f64) -> Outcome<f64> {
        if self.control.due() <= now {
            self.control.adjusts(self.queue.iter().map(|(_, packet)| packet.len()).sum());
        }
        if self.next_frame <= now {
            let waited = self.queue.front().map_or(0.0, |(made, _)| now - made);
            if waited < LATE {
                self.makes_frame(now, waited);
            }
            self.next_frame += C::FRAME_PERIOD;
        }
        while self.next_packet <= now && self.may_send(now) {
            let Some((_, packet)) = self.queue.pop_front() else { break };
            self.socket.media(&packet)?;
            self.control.sent(now, self.sent, packet.len());
            self.sent += 1;
            self.last = now;
            self.next_packet = now + self.control.gap(packet.len());
        }
        let waits = self.next_packet > now && self.may_send(now);
        let next = self.next_frame.min(self.control.due());
        Ok(if waits { next.min(self.next_packet) } else { next })
    }

    fn may_send(&self, now: f64) -> bool {
        let allows = |(_, packet): &(f64, Vec<u8>)| self.control.allows(packet.len()) || now - self.last >= SILENCE;
        self.queue.front().is_some_and(allows)
    }

    fn makes_frame(&mut self, now: f64, waited: f64) {
        let mut left = ((self.control.target_bps() * C::FRAME_PERIOD / 8.0) as usize).max(RTP_HEADER + 1);
        self.control.encoded(left, waited);
        while left > 0 {
            let bytes = left.min(C::MSS);
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
        let Some(last) = arrivals.iter().rev().find_map(Option::as_ref) else { return };
        self.control.hears(now, first, &arrivals, *last);
    }
}

fn send<C: MediaControl>(socket: UdpSocket, most_bps: f64) -> Outcome {
    let mut sender = Sender {
        socket: C::Socket::of(socket)?,
        clock: Clock(Instant::now()),
        control: C::of_video(most_bps),
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
        if let Some(packets) = sender.socket.reports(&mut buffer, until)? {
            packets.for_each(|packet| sender.hears(packet, sender.clock.now()));
        }
    }
}

/// What arrived and is reported, from packet `first` on.
#[derive(Default)]
pub struct Arrivals {
    first: u64,
    arrivals: VecDeque<Option<Arrival>>,
    reported: u64,
}

impl Arrivals {
    /// Takes note of a packet, and returns whether it is a media packet that can still be reported.
    pub fn takes(&mut self, packet: &[u8], arrival: Arrival) -> bool {
        if packet.len() < RTP_HEADER {
            return false;
        }
        let seq = extended(sequence(packet), self.first + self.arrivals.len() as u64);
        let Some(place) = seq.checked_sub(self.first).map(|place| place as usize) else { return false };
        self.arrivals.resize(self.arrivals.len().max(place + 1), None);
        self.arrivals[place] = Some(arrival);
        true
    }

    /// Returns the report that is made `now`: of every packet since the last one, and of REPORTED at least.
    pub fn report(&mut self, now: f64) -> Vec<u8> {
        let end = self.first + self.arrivals.len() as u64;
        let from = self.reported.min(end.saturating_sub(REPORTED));
        self.arrivals.drain(..(from - self.first) as usize);
        (self.first, self.reported) = (from, end);
        report(from, self.arrivals.make_contiguous(), now)
    }
}

fn act<C: MediaControl>(words: &[&str], receive: fn(SocketAddr) -> Outcome) -> Outcome {
    match words {
        ["receive", address, port] => receive(SocketAddr::new(address.parse()?, port.parse()?)),
        ["send", address, port, from_port, most] => {
            let to = SocketAddr::new(address.parse()?, port.parse()?);
            send::<C>(socket::connected(to, from_port.parse()?)?, most.parse::<f64>()? * 1000.0)
        }
        _ => Err("receive ADDRESS PORT | send ADDRESS PORT FROM_PORT MOST_KBPS".into()),
    }
}

/// Does what the command line says: sends a video of that control, or receives one.
pub fn run<C: MediaControl>(name: &str, receive: fn(SocketAddr) -> Outcome) {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Err(error) = act::<C>(&words, receive) {
        eprintln!("{name}: {error}");
        process::exit(1);
    }
}
