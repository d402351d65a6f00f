// SPDX-License-Identifier: Apache-2.0
//! The sender of SCReAM v2 as draft-johansson-ccwg-rfc8298bis-screamv2-07, section 4, describes it, in L4S mode and
//! without the optional REDUCE_JITTER: reference window, send window, pace and target bitrate. Times are seconds of any
//! one clock, sizes bytes, rates bit/s; constants and variables have the draft's names and values.

use std::collections::VecDeque;

use crate::{base_delay::BaseDelay, delay_target::DelayTarget};

const L4S_AVG_G_UP: f64 = 1.0 / 8.0;
const L4S_AVG_G_DOWN: f64 = 1.0 / 128.0;
const QDELAY_AVG_G: f64 = 1.0 / 4.0;
const QDELAY_TARGET_LO: f64 = 0.06;
const MIN_REF_WND: f64 = 3000.0;
const BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 1.5;
const BETA_LOSS: f64 = 0.7;
const POST_CONGESTION_DELAY_RTT: f64 = 100.0;
const MUL_INCREASE_FACTOR: f64 = 0.02;
const VIRTUAL_RTT: f64 = 0.025;
/// The overhead without REDUCE_JITTER: qdelay_dev_norm is 0.
const REF_WND_OVERHEAD_MAX: f64 = 3.0;
const RATE_PACE_MIN: f64 = 50_000.0;
const PACKET_PACING_HEADROOM: f64 = 1.5;
const MAX_RELAXED_PACING_FACTOR: f64 = 4.0;
const RELAXED_PACING_LIMIT_LOW: f64 = 0.8;
const PACKET_OVERHEAD: f64 = 20.0;
const RATE_ADJUST_GAIN: f64 = 1.0 / 16.0;
const FRAME_SIZE_DEV_ALPHA: f64 = 1.0 / 64.0;
pub const FRAME_PERIOD: f64 = 0.02;
/// The draft has no value; that of RFC 8298.
pub const TARGET_BITRATE_MIN: f64 = 64_000.0;

/// Interval of the queue delay's samples in its history (RFC 8298).
const SAMPLED: f64 = 0.05;
/// RFC 6298: gain of the smoothed RTT.
const RTT_GAIN: f64 = 1.0 / 8.0;

struct Packet {
    seq: u64,
    at: f64,
    bytes: usize,
    acked: bool,
    missed: Option<f64>,
    lost: bool,
}

/// What was congested since the last reduction.
#[derive(Default)]
struct Congestion {
    loss: bool,
    marks: bool,
}

pub struct Control {
    mss: f64,
    target_bitrate_max: f64,
    pub target_bitrate: f64,
    pub ref_wnd: f64,
    ref_wnd_i: f64,
    pub s_rtt: f64,
    pub l4s_alpha: f64,
    last_update_l4s_alpha_time: f64,
    data_units_delivered_this_rtt: usize,
    data_units_marked_this_rtt: usize,
    congestion: Congestion,
    last_congestion_detected_time: f64,
    last_reaction_to_congestion_time: f64,
    last_ref_wnd_i_update_time: f64,
    max_bytes_in_flight: usize,
    max_bytes_in_flight_prev: usize,
    last_round_time: f64,
    packets: VecDeque<Packet>,
    highest: Option<u64>,
    reordering: f64,
    loss_event_rate: f64,
    last_loss: f64,
    counted: f64,
    base: BaseDelay,
    qdelay: f64,
    qdelay_avg: f64,
    last_update_qdelay_avg_time: f64,
    pub qdelay_target: DelayTarget,
    sampled: f64,
    rate_adjust_factor: f64,
    frame_size_dev: f64,
}

impl Control {
    pub fn new(mss: usize, target_bitrate_max: f64) -> Self {
        Self {
            mss: mss as f64,
            target_bitrate_max,
            target_bitrate: TARGET_BITRATE_MIN,
            ref_wnd: MIN_REF_WND,
            ref_wnd_i: 1.0,
            s_rtt: 0.0,
            l4s_alpha: 0.0,
            last_update_l4s_alpha_time: 0.0,
            data_units_delivered_this_rtt: 0,
            data_units_marked_this_rtt: 0,
            congestion: Congestion::default(),
            last_congestion_detected_time: 0.0,
            last_reaction_to_congestion_time: 0.0,
            last_ref_wnd_i_update_time: 0.0,
            max_bytes_in_flight: 0,
            max_bytes_in_flight_prev: 0,
            last_round_time: 0.0,
            packets: VecDeque::new(),
            highest: None,
            reordering: 0.0,
            loss_event_rate: 0.0,
            last_loss: f64::NEG_INFINITY,
            counted: 0.0,
            base: BaseDelay::default(),
            qdelay: 0.0,
            qdelay_avg: 0.0,
            last_update_qdelay_avg_time: 0.0,
            qdelay_target: DelayTarget::new(QDELAY_TARGET_LO),
            sampled: f64::NEG_INFINITY,
            rate_adjust_factor: 0.0,
            frame_size_dev: 0.0,
        }
    }

    pub fn bytes_in_flight(&self) -> usize {
        let beyond = |packet: &&Packet| self.highest.is_none_or(|highest| packet.seq > highest);
        self.packets.iter().rev().take_while(beyond).map(|packet| packet.bytes).sum()
    }

    /// Whether the send window has room for a packet; the pace aside.
    pub fn allows(&self, bytes: usize) -> bool {
        (self.bytes_in_flight() + bytes) as f64 <= self.ref_wnd * REF_WND_OVERHEAD_MAX
    }

    /// How long after a packet the next one may go (t_pace).
    pub fn gap(&self, bytes: usize) -> f64 {
        let nominal_rate = self.target_bitrate / self.target_bitrate_max;
        let relaxed = (nominal_rate - RELAXED_PACING_LIMIT_LOW) / (1.0 - RELAXED_PACING_LIMIT_LOW);
        let scale = (1.0 - relaxed).clamp(1.0 / MAX_RELAXED_PACING_FACTOR, 1.0);
        let pace_bitrate = self.target_bitrate.max(RATE_PACE_MIN) * PACKET_PACING_HEADROOM / scale;
        bytes as f64 * 8.0 / pace_bitrate
    }

    /// Takes note of a new frame of that size, while the oldest packet that waits to be sent waits for `media_qdelay`.
    pub fn encoded(&mut self, bytes: usize, media_qdelay: f64) {
        let error = (media_qdelay - FRAME_PERIOD / 4.0) / FRAME_PERIOD;
        self.rate_adjust_factor = (self.rate_adjust_factor + error * RATE_ADJUST_GAIN).clamp(0.0, 0.5);
        let nominal = self.target_bitrate * FRAME_PERIOD / 8.0;
        let deviation = ((bytes as f64 - nominal) / nominal).max(0.0);
        self.frame_size_dev += FRAME_SIZE_DEV_ALPHA * (deviation - self.frame_size_dev);
        self.frame_size_dev = self.frame_size_dev.min(0.2);
    }

    pub fn sent(&mut self, now: f64, seq: u64, bytes: usize) {
        self.packets.push_back(Packet { seq, at: now, bytes, acked: false, missed: None, lost: false });
        let in_flight = self.bytes_in_flight();
        if now - self.last_round_time >= self.s_rtt {
            self.last_round_time = now;
            self.max_bytes_in_flight_prev = self.max_bytes_in_flight;
            self.max_bytes_in_flight = 0;
        }
        self.max_bytes_in_flight = self.max_bytes_in_flight.max(in_flight);
    }

    /// Takes a report that came `now`: of the packets from `first` on which were received and whether with CE, and
    /// when the one with the highest number was, by the receiver's clock.
    pub fn hears(&mut self, now: f64, first: u64, received: &[Option<bool>], arrived: f64) {
        let Some(highest) = received.iter().rposition(Option::is_some).map(|last| first + last as u64) else { return };
        let before = self.highest;
        if before.is_some_and(|before| highest < before) {
            return;
        }
        self.highest = Some(highest);
        let (mut newly_acked, mut newly_acked_ce, mut lost) = (0, 0, false);
        let mut delay = None;
        for packet in self.packets.iter_mut().take_while(|packet| packet.seq <= highest) {
            if before.is_none_or(|before| packet.seq > before) {
                newly_acked += packet.bytes;
            }
            let report = if packet.seq < first { None } else { received[(packet.seq - first) as usize] };
            match report {
                Some(ce) if !packet.acked => {
                    packet.acked = true;
                    self.data_units_delivered_this_rtt += 1;
                    if ce {
                        newly_acked_ce += packet.bytes;
                        self.data_units_marked_this_rtt += 1;
                        self.congestion.marks = true;
                    }
                    if let Some(missed) = packet.missed {
                        self.reordering = self.reordering.max(now - missed);
                    }
                    if packet.seq == highest {
                        delay = Some(arrived - packet.at);
                        let rtt = now - packet.at;
                        self.s_rtt = if self.s_rtt > 0.0 { self.s_rtt + (rtt - self.s_rtt) * RTT_GAIN } else { rtt };
                    }
                }
                None if !packet.acked && !packet.lost => {
                    packet.lost = now - *packet.missed.get_or_insert(now) >= self.reordering;
                    lost |= packet.lost;
                }
                _ => {}
            }
        }
        // The receiver reports such a packet no more; one that is neither acked nor lost yet may be lost later.
        while self.packets.front().is_some_and(|packet| packet.seq < first && (packet.acked || packet.lost)) {
            self.packets.pop_front();
        }
        if let Some(delay) = delay {
            self.qdelay = delay - self.base.least(now, delay);
        }
        self.congestion.loss |= lost;
        self.counts_losses(now, lost);
        self.averages(now);
        self.marked_share(now);
        self.samples(now);
        // ref_wnd_i is that of before this report.
        let scl = (((self.ref_wnd - self.ref_wnd_i) / self.ref_wnd_i * 8.0).powi(2)).clamp(0.1, 1.0);
        if self.congestion.loss || self.congestion.marks {
            self.last_congestion_detected_time = now;
        }
        if now - self.last_reaction_to_congestion_time >= VIRTUAL_RTT.min(self.s_rtt) {
            self.reduces(now, scl);
        }
        self.grows(now, newly_acked.saturating_sub(newly_acked_ce), scl);
        self.sets_target();
    }

    /// The fraction of round trips with losses, of the last hundred or so.
    fn counts_losses(&mut self, now: f64, lost: bool) {
        if lost && now - self.last_loss > self.s_rtt {
            self.last_loss = now;
            self.loss_event_rate += 0.01;
        }
        if now - self.counted > self.s_rtt {
            self.counted = now;
            self.loss_event_rate *= 0.99;
        }
    }

    /// Slow attack, fast decay.
    fn averages(&mut self, now: f64) {
        if now - self.last_update_qdelay_avg_time < VIRTUAL_RTT.min(self.s_rtt) {
            return;
        }
        self.last_update_qdelay_avg_time = now;
        let rise = (self.qdelay - self.qdelay_avg) * QDELAY_AVG_G;
        self.qdelay_avg = if rise < 0.0 { self.qdelay } else { self.qdelay_avg + rise };
    }

    /// Fast attack, slow decay.
    fn marked_share(&mut self, now: f64) {
        let due = now - self.last_update_l4s_alpha_time >= self.s_rtt.min(0.01);
        if !due || self.data_units_delivered_this_rtt == 0 {
            return;
        }
        self.last_update_l4s_alpha_time = now;
        let fraction = self.data_units_marked_this_rtt as f64 / self.data_units_delivered_this_rtt as f64;
        self.l4s_alpha = if fraction >= self.l4s_alpha {
            L4S_AVG_G_UP * fraction + (1.0 - L4S_AVG_G_UP) * self.l4s_alpha
        } else {
            (1.0 - L4S_AVG_G_DOWN) * self.l4s_alpha
        };
        self.data_units_delivered_this_rtt = 0;
        self.data_units_marked_this_rtt = 0;
    }

    /// Section 4.2.1.4.1.
    fn samples(&mut self, now: f64) {
        if now - self.sampled < SAMPLED {
            return;
        }
        self.sampled = now;
        self.qdelay_target.samples(self.qdelay, self.loss_event_rate);
    }

    /// Section 4.2.2.1.
    fn reduces(&mut self, now: f64, scl: f64) {
        let half = self.qdelay_target.seconds / 2.0;
        let virtual_ce = self.qdelay_avg > half;
        let Congestion { loss, marks } = std::mem::take(&mut self.congestion);
        if !(loss || marks || virtual_ce) {
            return;
        }
        if now - self.last_ref_wnd_i_update_time > 10.0 * self.s_rtt {
            self.last_ref_wnd_i_update_time = now;
            self.ref_wnd_i = self.ref_wnd;
        }
        let long_rtt = (self.s_rtt / VIRTUAL_RTT).max(1.0);
        if loss {
            self.ref_wnd *= BETA_LOSS;
        } else if marks {
            let mut backoff = self.l4s_alpha / 2.0 / long_rtt;
            if self.qdelay < self.qdelay_target.seconds * 0.25 {
                backoff *= scl.max(0.25);
            }
            if now - self.last_reaction_to_congestion_time > 100.0 * VIRTUAL_RTT.max(self.s_rtt) {
                self.ref_wnd = self.ref_wnd.min(self.max_bytes_in_flight_prev as f64);
            }
            self.ref_wnd *= 1.0 - backoff;
        } else {
            let l4s_alpha_v = ((self.qdelay_avg - half) / half).min(1.0);
            self.ref_wnd *= 1.0 - l4s_alpha_v / 2.0 / long_rtt;
        }
        self.ref_wnd = self.ref_wnd.max(MIN_REF_WND);
        self.last_reaction_to_congestion_time = now;
    }

    /// Section 4.2.2.2.
    fn grows(&mut self, now: f64, unmarked: usize, scl: f64) {
        let since = now - self.last_congestion_detected_time;
        let post_congestion_scale = (since / (POST_CONGESTION_DELAY_RTT * VIRTUAL_RTT.max(self.s_rtt))).clamp(0.0, 1.0);
        let increment = unmarked as f64
            * self.ref_wnd_ratio()
            * (self.s_rtt / VIRTUAL_RTT).min(1.0)
            * scl.max(0.25)
            * (1.0 + MUL_INCREASE_FACTOR * self.ref_wnd / self.mss * post_congestion_scale * scl);
        let most = self.max_bytes_in_flight.max(self.max_bytes_in_flight_prev) as f64;
        let grown = self.ref_wnd + increment;
        if grown <= self.mss + most * BYTES_IN_FLIGHT_HEAD_ROOM && self.target_bitrate < self.target_bitrate_max {
            self.ref_wnd = grown;
        }
    }

    fn ref_wnd_ratio(&self) -> f64 {
        (self.mss / self.ref_wnd).min(1.0)
    }

    /// Section 4.4.
    fn sets_target(&mut self) {
        let small = 1.0 - (self.ref_wnd_ratio() - 0.1).clamp(0.0, 0.2);
        let scale = small * self.mss / (self.mss + PACKET_OVERHEAD);
        let slack = 1.2 + self.rate_adjust_factor + self.frame_size_dev;
        let bitrate = scale / slack * 8.0 * self.ref_wnd / self.s_rtt;
        self.target_bitrate = bitrate.clamp(TARGET_BITRATE_MIN, self.target_bitrate_max);
    }
}
