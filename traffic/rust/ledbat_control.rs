// SPDX-License-Identifier: Apache-2.0
//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus, section 4) over QUIC: a window that keeps the queue at a target delay and
//! yields to other flows. Times are seconds of any one clock, sizes bytes of UDP payload; GAIN and TARGET are the draft's.

use std::collections::VecDeque;

use crate::base_delay::{keep, BaseDelay};

const TARGET: f64 = 0.06;
/// Largest divisor of GAIN.
const MAX_DIVISOR: f64 = 16.0;
/// "Constant" of the multiplicative decrease.
const CONSTANT: f64 = 1.0;
/// Part of TARGET at which the initial slow start ends.
const SLOW_START_EXIT: f64 = 0.75;
const LEAST_PACKETS: f64 = 2.0;
/// Round trips from the end of the initial slow start to the first slowdown, and of a slowdown at the least window.
const SLOWDOWN_RTTS: f64 = 2.0;
/// The next slowdown is this many times the last one's duration after it.
const SLOWDOWN_INTERVAL: f64 = 9.0;
/// RFC 6817: the current delay is the least of so many samples.
const CURRENT_FILTER: usize = 4;

/// GAIN of section 4.2: a flow with an empty queue grows by this many packets per round trip.
pub fn gain(base: f64) -> f64 {
    1.0 / (2.0 * TARGET / base).ceil().clamp(1.0, MAX_DIVISOR)
}

/// What a window of that many packets changes by in a round trip with that queue delay (section 4.3), packets.
pub fn change(gain: f64, packets: f64, delay: f64) -> f64 {
    if delay <= TARGET {
        return gain;
    }
    (gain - CONSTANT * packets * (delay / TARGET - 1.0)).max(-packets / 2.0)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// At GAIN times the pace of TCP's; `initial`: until the queue shows.
    SlowStart {
        initial: bool,
    },
    Avoidance,
    /// At the least window until then.
    Slowdown {
        until: f64,
    },
}

#[derive(Clone, Debug)]
pub struct Control {
    packet: f64,
    pub window: f64,
    ssthresh: f64,
    pub phase: Phase,
    base: BaseDelay,
    samples: VecDeque<f64>,
    srtt: f64,
    slowdown_began: Option<f64>,
    next_slowdown: f64,
    /// Packets sent until then belong to the last loss.
    recovery: f64,
}

impl Control {
    pub fn new(packet: u16) -> Self {
        let packet = f64::from(packet);
        Self {
            packet,
            window: LEAST_PACKETS * packet,
            ssthresh: f64::INFINITY,
            phase: Phase::SlowStart { initial: true },
            base: BaseDelay::default(),
            samples: VecDeque::new(),
            srtt: 0.0,
            slowdown_began: None,
            next_slowdown: f64::INFINITY,
            recovery: f64::NEG_INFINITY,
        }
    }

    /// Sets the size of a full packet.
    pub fn resizes(&mut self, packet: u16) {
        self.packet = f64::from(packet);
        self.window = self.window.max(self.least());
    }

    fn least(&self) -> f64 {
        LEAST_PACKETS * self.packet
    }

    /// Takes the acknowledgement, `now`, of a packet that was sent at `sent`, with a smoothed RTT; a window that nothing
    /// fills does not grow.
    pub fn acked(&mut self, now: f64, sent: f64, bytes: f64, srtt: f64, filled: bool) {
        self.srtt = srtt;
        keep(&mut self.samples, now - sent, CURRENT_FILTER);
        let current = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let base = self.base.least(now, now - sent);
        let (delay, gain) = (current - base, gain(base));
        match self.phase {
            Phase::Slowdown { until } if now >= until => self.phase = Phase::SlowStart { initial: false },
            Phase::Slowdown { .. } => {}
            Phase::SlowStart { initial } => {
                if filled {
                    self.window += gain * bytes;
                }
                // After a slowdown, the window that was in order before limits it.
                if (initial && delay > SLOW_START_EXIT * TARGET) || self.window >= self.ssthresh {
                    self.window = self.window.min(self.ssthresh);
                    self.avoids(now);
                }
            }
            Phase::Avoidance if now >= self.next_slowdown => self.slows_down(now),
            Phase::Avoidance => {
                let packets = self.window / self.packet;
                let part = bytes / self.window;
                let change = change(gain, packets, delay) * self.packet * part;
                if filled || change < 0.0 {
                    self.window = (self.window + change).max(self.least());
                }
            }
        }
    }

    fn avoids(&mut self, now: f64) {
        self.phase = Phase::Avoidance;
        self.next_slowdown = match self.slowdown_began.take() {
            Some(began) => now + SLOWDOWN_INTERVAL * (now - began),
            None => now + SLOWDOWN_RTTS * self.srtt,
        };
    }

    fn slows_down(&mut self, now: f64) {
        self.slowdown_began = Some(now);
        self.ssthresh = self.window;
        self.window = self.least();
        self.phase = Phase::Slowdown { until: now + SLOWDOWN_RTTS * self.srtt };
    }

    /// Takes the loss, or the CE mark, of a packet that was sent at `sent`: half of the window, once a round trip. Of
    /// packets from before a slowdown, that window is ssthresh.
    pub fn lost(&mut self, now: f64, sent: f64, persistent: bool) {
        if sent > self.recovery {
            self.recovery = now;
            if self.slowdown_began.is_some_and(|began| sent < began) {
                self.ssthresh = (self.ssthresh / 2.0).max(self.least());
            } else {
                self.window = (self.window / 2.0).max(self.least());
                if matches!(self.phase, Phase::SlowStart { .. }) {
                    self.ssthresh = self.window;
                    self.avoids(now);
                }
            }
        }
        if persistent {
            self.window = self.least();
        }
    }
}
