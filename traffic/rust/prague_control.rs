// SPDX-License-Identifier: Apache-2.0
//! Prague (draft-briscoe-iccrg-prague-congestion-control-04) over QUIC: window and pace, with the rules of Sojourn's TCP
//! Prague (hardware/kernel/README.md). Times are seconds of any one clock, sizes bytes of UDP payload.

/// Gain of alpha, the moving average of the marked fraction.
const GAIN: f64 = 1.0 / 16.0;
/// Least virtual RTT.
const RTT_VIRT: f64 = 0.025;
/// What the window grows by per virtual RTT: a packet of this size, with its IP header.
const INCREASE: f64 = 1500.0;
/// IPv4 and UDP.
const HEADERS: f64 = 28.0;
const LEAST_PACKETS: f64 = 2.0;
/// RFC 9002, section 7.2.
const INITIAL_PACKETS: f64 = 10.0;

/// Packets that arrived and are not acknowledged, as only every second one is; and half a packet, as windows are not whole.
const UNACKED: f64 = 1.5;
/// Pace over a window per RTT, as in TCP Prague: what is in flight is a window, not less.
const AHEAD: f64 = 1.036;
/// Part of the pace while more than the window is in flight.
const WAITING: f64 = 0.1;

#[derive(Clone, Debug)]
pub struct Control {
    packet: f64,
    pub window: f64,
    slow_start: bool,
    srtt: f64,
    in_flight: f64,
    pub alpha: f64,
    /// Packets acknowledged and marked since alpha was updated, and the packet whose acknowledgement ends the round.
    acked: u64,
    marked: u64,
    round_end: u64,
    alpha_updated: f64,
    largest_sent: u64,
    largest_acked: u64,
    /// CWR or a loss's recovery, in which no mark reduces the window: the packet whose acknowledgement ends it.
    cwr_end: Option<u64>,
    /// When a mark last reduced the window.
    reduced: f64,
    /// Packets sent until then belong to the last loss.
    recovery: f64,
}

impl Control {
    pub fn new(packet: u16) -> Self {
        let packet = f64::from(packet);
        Self {
            packet,
            window: INITIAL_PACKETS * packet,
            slow_start: true,
            srtt: 0.0,
            in_flight: 0.0,
            alpha: 0.0,
            acked: 0,
            marked: 0,
            round_end: 0,
            alpha_updated: 0.0,
            largest_sent: 0,
            largest_acked: 0,
            cwr_end: None,
            reduced: f64::NEG_INFINITY,
            recovery: f64::NEG_INFINITY,
        }
    }

    /// Sets the size of a full packet.
    pub fn resizes(&mut self, packet: u16) {
        self.packet = f64::from(packet);
    }

    /// Bytes per second; 0 before the first sample of the RTT. A pace alone would take a round trip to follow a reduced
    /// window, and more marks meanwhile; so the flow nearly stops until no more than the window is in flight.
    pub fn pace(&self) -> f64 {
        if self.srtt == 0.0 {
            return 0.0;
        }
        match () {
            () if self.slow_start => 2.0 * self.window / self.srtt,
            () if self.in_flight > self.window_with(UNACKED) => WAITING * self.window / self.srtt,
            () => AHEAD * self.window / self.srtt,
        }
    }

    /// The window and so many packets.
    pub fn window_with(&self, packets: f64) -> f64 {
        self.window + packets * self.packet
    }

    pub fn sent(&mut self, packet: u64, bytes: f64) {
        self.in_flight += bytes;
        self.largest_sent = self.largest_sent.max(packet);
    }

    /// Sets the bytes that are neither acknowledged nor lost.
    pub fn remain(&mut self, bytes: f64) {
        self.in_flight = bytes;
    }

    /// Takes the acknowledgement of a packet, `now`, with a smoothed RTT; a window that nothing fills does not grow.
    pub fn acked(&mut self, now: f64, packet: u64, bytes: f64, srtt: f64, filled: bool) {
        self.srtt = srtt;
        self.acked += 1;
        self.largest_acked = self.largest_acked.max(packet);
        if filled {
            self.window += self.growth(bytes);
        }
        if self.largest_acked >= self.round_end && now - self.alpha_updated >= RTT_VIRT {
            self.alpha += GAIN * (self.marked.min(self.acked) as f64 / self.acked as f64 - self.alpha);
            (self.acked, self.marked) = (0, 0);
            self.round_end = self.largest_sent + 1;
            self.alpha_updated = now;
        }
    }

    fn growth(&self, bytes: f64) -> f64 {
        if self.slow_start {
            return bytes;
        }
        let ratio = self.srtt / self.srtt.max(RTT_VIRT);
        let payload = self.packet / (self.packet + HEADERS);
        bytes / self.window * ratio.powi(2) * INCREASE * payload
    }

    /// Takes one packet's mark, after its acknowledgement. It takes back that packet's growth; the window shrinks on
    /// entry into CWR, which lasts a round trip, if the last time by a mark is a virtual RTT ago.
    pub fn marked(&mut self, now: f64) {
        self.marked += 1;
        self.window -= self.growth(self.packet);
        if self.cwr_end.is_none_or(|end| self.largest_acked >= end) {
            self.cwr_end = Some(self.largest_sent + 1);
            if self.slow_start || now - self.reduced >= RTT_VIRT {
                self.reduced = now;
                self.reduces(if self.slow_start { 0.5 } else { self.alpha / 2.0 });
            }
        }
        self.window = self.window.max(LEAST_PACKETS * self.packet);
    }

    /// Takes the loss of a packet of `sent`: half of the window, once a round trip.
    pub fn lost(&mut self, now: f64, sent: f64, persistent: bool) {
        if sent > self.recovery {
            self.recovery = now;
            self.cwr_end = Some(self.largest_sent + 1);
            self.reduces(0.5);
        }
        if persistent {
            self.window = LEAST_PACKETS * self.packet;
        }
    }

    fn reduces(&mut self, part: f64) {
        self.slow_start = false;
        self.window = (self.window * (1.0 - part)).max(LEAST_PACKETS * self.packet);
    }
}
