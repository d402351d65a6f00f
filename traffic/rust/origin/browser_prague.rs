// SPDX-License-Identifier: Apache-2.0
//! The contenders' Prague with a browser as the receiver, which acknowledges up to ten packets at once, and marks no
//! earlier. Every mark counts, and packets that wait for their acknowledgement take no room in the window.

use std::{any::Any, mem, sync::Arc, time::Instant};

use noq::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::RttEstimator;

use crate::{ect1_counts, prague::PragueConfig};

/// Packets per acknowledgement that the contenders' Prague expects (RFC 9000, 13.2.2).
const EXPECTED: f64 = 2.0;
/// Gain of the moving average of packets per acknowledgement.
const GAIN: f64 = 1.0 / 8.0;

pub struct BrowserPragueConfig;

impl ControllerFactory for BrowserPragueConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let prague = Arc::new(PragueConfig).build(now, mtu);
        Box::new(BrowserPrague { prague, packet: f64::from(mtu), acked: 0, per_ack: EXPECTED, marks: 0 })
    }
}

#[derive(Debug)]
struct BrowserPrague {
    prague: Box<dyn Controller>,
    /// Bytes of a full packet.
    packet: f64,
    /// Packets of the acknowledgement that noq handles.
    acked: u64,
    per_ack: f64,
    /// The count of CE when a mark was last reported.
    marks: u64,
}

impl BrowserPrague {
    /// Bytes that wait for their acknowledgement, beyond what the contenders' Prague expects.
    fn waiting(&self) -> u64 {
        ((self.per_ack - EXPECTED).max(0.0) * self.packet) as u64
    }
}

impl Controller for BrowserPrague {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
        self.prague.on_packet_sent(now, bytes, packet);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, packet: u64, idle: bool, rtt: &RttEstimator) {
        self.acked += 1;
        self.prague.on_ack(now, sent, bytes, packet, idle, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, idle: bool, largest: Option<u64>) {
        self.per_ack += GAIN * (self.acked as f64 - self.per_ack);
        self.acked = 0;
        self.prague.on_end_acks(now, in_flight.saturating_sub(self.waiting()), idle, largest);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        is_ecn: bool,
        lost: u64,
        packet: u64,
    ) {
        if !is_ecn {
            return self.prague.on_congestion_event(now, sent, persistent, is_ecn, lost, packet);
        }
        let before = mem::replace(&mut self.marks, ect1_counts::ce());
        // The handshake's packets have a count of their own.
        for _ in 0..self.marks.saturating_sub(before).max(1) {
            self.prague.on_congestion_event(now, sent, persistent, is_ecn, lost, packet);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.packet = f64::from(mtu);
        self.prague.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.prague.window() + self.waiting()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.prague.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { packet, acked, per_ack, marks, .. } = *self;
        Box::new(Self { prague: self.prague.clone_box(), packet, acked, per_ack, marks })
    }

    fn initial_window(&self) -> u64 {
        self.prague.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
