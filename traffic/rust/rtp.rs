// SPDX-License-Identifier: Apache-2.0
//! Media packets (RTP) and their feedback (RFC 8888), by the clock of the program that makes them.

use std::time::{Duration, Instant};

pub const RTP_HEADER: usize = 12;
const RTCP_HEADER: usize = 12;
const SSRC: [u8; 4] = [0, 0, 0, 1];
/// Transport-layer feedback, congestion control feedback (RFC 8888).
const FEEDBACK: [u8; 2] = [2 << 6 | 11, 205];
const ARRIVED: u16 = 1 << 15;
/// Bits of a metric block to the right of the ECN field.
const ECN_SHIFT: u16 = 13;
/// Of arrival times in a report, a second's.
const TICKS: f64 = 1024.0;

/// Seconds since the program began.
pub struct Clock(pub Instant);

impl Clock {
    pub fn now(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    pub fn at(&self, seconds: f64) -> Instant {
        self.0 + Duration::from_secs_f64(seconds)
    }
}

/// When a packet arrived (s, the receiver's clock), and with which ECN field.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub at: f64,
    pub ecn: u8,
}

/// The whole number nearest to `near` whose last 16 bits are `low`.
pub fn extended(low: u16, near: u64) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u16) as i16))
}

/// The sequence number (16 bits) of a media packet.
pub fn sequence(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[2], packet[3]])
}

pub fn media(seq: u64, picture: u64, last: bool, bytes: usize) -> Vec<u8> {
    let mut packet = vec![2 << 6, u8::from(last) << 7 | 96];
    packet.extend((seq as u16).to_be_bytes());
    packet.extend((picture as u32).wrapping_mul(3000).to_be_bytes());
    packet.extend(SSRC);
    packet.resize(bytes, 0);
    packet
}

/// What one packet of feedback, made `now`, says of the packets from `first` on.
pub fn report(first: u64, arrivals: &[Option<Arrival>], now: f64) -> Vec<u8> {
    let mut packet = Vec::from(FEEDBACK);
    packet.extend([0; 2]);
    packet.extend(SSRC);
    packet.extend(SSRC);
    packet.extend((first as u16).to_be_bytes());
    packet.extend((arrivals.len() as u16).to_be_bytes());
    for arrival in arrivals {
        let block = arrival.map(|Arrival { at, ecn }| {
            let ago = ((now - at) * TICKS).round().min(f64::from(0x1ffd_u16)) as u16;
            ARRIVED | u16::from(ecn) << ECN_SHIFT | ago
        });
        packet.extend(block.unwrap_or(0).to_be_bytes());
    }
    packet.resize(packet.len().next_multiple_of(4), 0);
    packet.extend(((now * 65536.0) as u64 as u32).to_be_bytes());
    let words = (packet.len() / 4 - 1) as u16;
    packet[2..4].copy_from_slice(&words.to_be_bytes());
    packet
}

/// Of a report: the number of its first packet (16 bits), and what it says of each.
pub fn read(packet: &[u8]) -> Option<(u16, Vec<Option<Arrival>>)> {
    if packet.len() < RTCP_HEADER + 8 || packet[..2] != FEEDBACK {
        return None;
    }
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (end, count) = (packet.len() - 4, usize::from(word(RTCP_HEADER + 2)));
    let list = RTCP_HEADER + 4;
    if list + 2 * count > end {
        return None;
    }
    let made = f64::from(u32::from_be_bytes(packet[end..].try_into().ok()?)) / 65536.0;
    let arrival = |block: u16| {
        let at = made - f64::from(block & 0x1fff) / TICKS;
        (block & ARRIVED != 0).then_some(Arrival { at, ecn: (block >> ECN_SHIFT & 3) as u8 })
    };
    Some((word(RTCP_HEADER), (list..list + 2 * count).step_by(2).map(|at| arrival(word(at))).collect()))
}
