// SPDX-License-Identifier: Apache-2.0
//! SCReAM's sender as RFC 8298, section 4.1, has it, without ECN: window, send window, pace and media rate. Times are
//! seconds of any one clock, sizes bytes, rates bit/s; constants have the RFC's names and values.

use std::collections::VecDeque;

use crate::{
    base_delay::{keep, BaseDelay},
    delay_target::{moments, DelayTarget},
};

const QDELAY_TARGET_LO: f64 = 0.1;
const QDELAY_WEIGHT: f64 = 0.1;
const QDELAY_TREND_TH: f64 = 0.2;
const QDELAY_TREND_LO: f64 = 0.2;
const T_RESUME_FAST_INCREASE: f64 = 5.0;
pub const MSS: usize = 1000;
const MIN_CWND: f64 = 3000.0;
const MAX_BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 1.1;
const GAIN: f64 = 1.0;
const BETA_LOSS: f64 = 0.8;
const BETA_R: f64 = 0.9;
const RATE_ADJUST_INTERVAL: f64 = 0.2;
const TARGET_BITRATE_MIN: f64 = 64_000.0;
const RAMP_UP_SPEED: f64 = 200_000.0;
const PRE_CONGESTION_GUARD: f64 = 0.1;
const TX_QUEUE_SIZE_FACTOR: f64 = 1.0;
const RTP_QDELAY_TH: f64 = 0.02;
const TARGET_RATE_SCALE_RTP_QDELAY: f64 = 0.95;
const RATE_PACE_MIN: f64 = 50_000.0;

const SAMPLED: f64 = 0.05;
const TREND_SAMPLES: usize = 20;
const FLIGHT_WINDOW: f64 = 5.0;

struct Packet {
    seq: u64,
    at: f64,
    bytes: usize,
    acked: bool,
    missed: Option<f64>,
    lost: bool,
}

/// Bytes since the last look, as a rate.
#[derive(Default)]
struct Meter {
    bytes: usize,
    bps: f64,
}

impl Meter {
    fn read(&mut self, seconds: f64) {
        self.bps = self.bytes as f64 * 8.0 / seconds;
        self.bytes = 0;
    }
}

pub struct Control {
    most_bps: f64,
    pub target_bps: f64,
    /// When the media's rate is next set anew.
    pub next_rate: f64,
    last_max_bps: f64,
    cwnd: f64,
    rtt: f64,
    fast_increase: bool,
    calm_since: Option<f64>,
    packets: VecDeque<Packet>,
    highest: Option<u64>,
    flights: VecDeque<(f64, usize)>,
    reordering: f64,
    last_loss: f64,
    loss_event_rate: f64,
    counted: f64,
    base: BaseDelay,
    qdelay: f64,
    qdelay_target: DelayTarget,
    sampled: f64,
    fraction_avg: f64,
    fractions: VecDeque<f64>,
    trend: f64,
    trend_mem: f64,
    transmitted: Meter,
    acknowledged: Meter,
    encoded: Meter,
    media_bps: VecDeque<f64>,
}

impl Control {
    pub fn new(most_bps: f64) -> Self {
        Self {
            most_bps,
            target_bps: TARGET_BITRATE_MIN,
            next_rate: RATE_ADJUST_INTERVAL,
            last_max_bps: 1.0,
            cwnd: MIN_CWND,
            rtt: 0.0,
            fast_increase: true,
            calm_since: None,
            packets: VecDeque::new(),
            highest: None,
            flights: VecDeque::new(),
            reordering: 0.0,
            last_loss: f64::NEG_INFINITY,
            loss_event_rate: 0.0,
            counted: 0.0,
            base: BaseDelay::default(),
            qdelay: 0.0,
            qdelay_target: DelayTarget::new(QDELAY_TARGET_LO),
            sampled: f64::NEG_INFINITY,
            fraction_avg: 0.0,
            fractions: VecDeque::from([0.0; TREND_SAMPLES]),
            trend: 0.0,
            trend_mem: 0.0,
            transmitted: Meter::default(),
            acknowledged: Meter::default(),
            encoded: Meter::default(),
            media_bps: VecDeque::new(),
        }
    }

    fn in_flight(&self) -> usize {
        let beyond = |packet: &&Packet| self.highest.is_none_or(|highest| packet.seq > highest);
        self.packets.iter().rev().take_while(beyond).map(|packet| packet.bytes).sum()
    }

    fn most_in_flight(&self) -> usize {
        self.flights.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// Whether a packet may go now; the pace aside.
    pub fn allows(&self, bytes: usize) -> bool {
        let slack = if self.qdelay <= self.qdelay_target.seconds { MSS as f64 } else { 0.0 };
        (self.in_flight() + bytes) as f64 <= self.cwnd + slack
    }

    /// How long after a packet the next one may go.
    pub fn gap(&self, bytes: usize) -> f64 {
        let pace = if self.rtt > 0.0 { self.cwnd * 8.0 / self.rtt } else { RATE_PACE_MIN };
        bytes as f64 * 8.0 / pace.max(RATE_PACE_MIN)
    }

    pub fn encoded(&mut self, bytes: usize) {
        self.encoded.bytes += bytes;
    }

    pub fn sent(&mut self, now: f64, seq: u64, bytes: usize) {
        self.packets.push_back(Packet { seq, at: now, bytes, acked: false, missed: None, lost: false });
        self.transmitted.bytes += bytes;
        while self.flights.front().is_some_and(|(at, _)| *at < now - FLIGHT_WINDOW) {
            self.flights.pop_front();
        }
        self.flights.push_back((now, self.in_flight()));
    }

    /// Takes a report that came `now`: what was received from packet `first` on, and when the one with the highest
    /// number was, by the receiver's clock.
    pub fn hears(&mut self, now: f64, first: u64, received: &[bool], arrived: f64) {
        let Some(highest) = received.iter().rposition(|came| *came).map(|last| first + last as u64) else { return };
        let before = self.highest;
        if before.is_some_and(|before| highest < before) {
            return;
        }
        self.highest = Some(highest);
        let in_flight = self.in_flight();
        let mut delay = None;
        let mut newly = 0;
        let mut lost = false;
        for packet in self.packets.iter_mut().take_while(|packet| packet.seq <= highest) {
            if before.is_none_or(|before| packet.seq > before) {
                newly += packet.bytes;
            }
            let came = packet.seq >= first && received[(packet.seq - first) as usize];
            if came && !packet.acked {
                packet.acked = true;
                self.acknowledged.bytes += packet.bytes;
                if let Some(missed) = packet.missed {
                    self.reordering = self.reordering.max(now - missed);
                }
                if packet.seq == highest {
                    delay = Some(arrived - packet.at);
                    let rtt = now - packet.at;
                    self.rtt = if self.rtt > 0.0 { self.rtt + (rtt - self.rtt) / 8.0 } else { rtt };
                }
            } else if !packet.acked && !packet.lost {
                packet.lost = now - *packet.missed.get_or_insert(now) >= self.reordering;
                lost |= packet.lost;
            }
        }
        // The receiver reports such a packet no more; one that is neither acked nor lost yet may be lost later.
        while self.packets.front().is_some_and(|packet| packet.seq < first && (packet.acked || packet.lost)) {
            self.packets.pop_front();
        }
        if let Some(delay) = delay {
            self.qdelay = delay - self.base.least(now, delay);
        }
        self.samples(now);
        self.counts_losses(now, lost);
        if lost && now - self.last_loss > self.rtt {
            self.last_loss = now;
            self.fast_increase = false;
            self.cwnd = (self.cwnd * BETA_LOSS).max(MIN_CWND);
            self.last_max_bps = self.target_bps;
            self.target_bps = (self.target_bps * BETA_R).max(TARGET_BITRATE_MIN);
        } else {
            self.grows(in_flight, newly);
        }
        self.resumes(now);
    }

    fn samples(&mut self, now: f64) {
        if now - self.sampled < SAMPLED {
            return;
        }
        self.sampled = now;
        let fraction = self.qdelay / self.qdelay_target.seconds;
        self.fraction_avg += QDELAY_WEIGHT * (fraction - self.fraction_avg);
        keep(&mut self.fractions, fraction, TREND_SAMPLES);
        self.trend = (steadiness(&self.fractions) * self.fraction_avg).clamp(0.0, 1.0);
        self.trend_mem = (0.99 * self.trend_mem).max(self.trend);
        self.qdelay_target.samples(self.qdelay, self.loss_event_rate);
    }

    /// The fraction of round trips with losses, of the last hundred or so.
    fn counts_losses(&mut self, now: f64, lost: bool) {
        if lost && now - self.last_loss > self.rtt {
            self.loss_event_rate += 0.01;
        }
        if now - self.counted > self.rtt {
            self.counted = now;
            self.loss_event_rate *= 0.99;
        }
    }

    fn grows(&mut self, in_flight: usize, newly: usize) {
        let (in_flight, newly) = (in_flight as f64, newly as f64);
        if self.fast_increase && self.trend >= QDELAY_TREND_TH {
            self.fast_increase = false;
            self.last_max_bps = self.target_bps;
        }
        if self.fast_increase {
            if in_flight * 1.5 + newly > self.cwnd {
                self.cwnd += newly;
            }
            return;
        }
        let target = self.qdelay_target.seconds;
        let off_target = (target - self.qdelay) / target;
        if off_target <= 0.0 || in_flight * 1.25 + newly > self.cwnd {
            self.cwnd += GAIN * off_target * newly * MSS as f64 / self.cwnd;
        }
        let used = self.most_in_flight() as f64 * MAX_BYTES_IN_FLIGHT_HEAD_ROOM;
        self.cwnd = self.cwnd.min(used).max(MIN_CWND);
    }

    fn resumes(&mut self, now: f64) {
        if self.trend >= QDELAY_TREND_LO {
            self.calm_since = None;
        } else if now - *self.calm_since.get_or_insert(now) >= T_RESUME_FAST_INCREASE {
            self.fast_increase = true;
        }
    }

    /// Sets the media's rate anew, every RATE_ADJUST_INTERVAL, with `queued` bytes not sent yet.
    pub fn adjusts(&mut self, queued: usize) {
        self.next_rate += RATE_ADJUST_INTERVAL;
        for meter in [&mut self.transmitted, &mut self.acknowledged, &mut self.encoded] {
            meter.read(RATE_ADJUST_INTERVAL);
        }
        keep(&mut self.media_bps, self.encoded.bps, (10.0 / RATE_ADJUST_INTERVAL) as usize);
        let current = self.transmitted.bps.max(self.acknowledged.bps);
        let queued = queued as f64 * 8.0;
        let ramp = RAMP_UP_SPEED.min(self.target_bps / 2.0) * RATE_ADJUST_INTERVAL;
        let scale = (((self.target_bps - self.last_max_bps) / self.last_max_bps * 4.0).powi(2)).clamp(0.2, 1.0);
        if self.fast_increase {
            self.target_bps += ramp * scale;
        } else {
            let change = current * (1.0 - PRE_CONGESTION_GUARD * self.trend) - TX_QUEUE_SIZE_FACTOR * queued;
            self.target_bps += if change > 0.0 { (change * scale).min(ramp) } else { change };
            if queued > RTP_QDELAY_TH * current {
                self.target_bps *= TARGET_RATE_SCALE_RTP_QDELAY;
            }
        }
        let limit = current.max(self.encoded.bps).max(median(&self.media_bps)) * (2.0 - self.trend_mem);
        self.target_bps = self.target_bps.min(limit).clamp(TARGET_BITRATE_MIN, self.most_bps);
    }
}

fn median(values: &VecDeque<f64>) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The autocorrelation at lag 1, of what differs from the mean: near 1 where a delay rises or falls steadily.
fn steadiness(values: &VecDeque<f64>) -> f64 {
    let (mean, variance) = moments(values.iter());
    let lagged: f64 = values.iter().zip(values.iter().skip(1)).map(|(one, next)| (one - mean) * (next - mean)).sum();
    if variance > 0.0 {
        lagged / (variance * values.len() as f64)
    } else {
        0.0
    }
}
