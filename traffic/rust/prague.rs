// SPDX-License-Identifier: Apache-2.0
//! Prague as a congestion controller of noq, which reports an acknowledgement with a new CE mark as an event without lost
//! bytes, but not how many marks it has. A receiver acknowledges each packet with CE at once (RFC 9000, 13.2.1), so each
//! such event is one mark.

use std::{any::Any, sync::Arc, time::Instant};

use noq::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::RttEstimator;

use crate::prague_control::Control;

/// Packets of a delayed acknowledgement (RFC 9000, 13.2.2), and one that is on its way.
const DELAYED: f64 = 3.0;

#[derive(Default)]
pub struct PragueConfig;

impl ControllerFactory for PragueConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let control = Control::new(mtu);
        Box::new(Prague { epoch: now, initial: control.window as u64, control })
    }
}

#[derive(Clone, Debug)]
struct Prague {
    epoch: Instant,
    initial: u64,
    control: Control,
}

impl Prague {
    /// Seconds since the connection began.
    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.epoch).as_secs_f64()
    }
}

impl Controller for Prague {
    fn on_packet_sent(&mut self, _: Instant, bytes: u16, packet: u64) {
        self.control.sent(packet, f64::from(bytes));
    }

    fn on_end_acks(&mut self, _: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.control.remain(in_flight as f64);
    }

    fn on_ack(&mut self, now: Instant, _: Instant, bytes: u64, packet: u64, idle: bool, rtt: &RttEstimator) {
        self.control.acked(self.seconds(now), packet, bytes as f64, rtt.get().as_secs_f64(), !idle);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, is_ecn: bool, _: u64, _: u64) {
        if is_ecn {
            self.control.marked(self.seconds(now));
        } else {
            self.control.lost(self.seconds(now), self.seconds(sent), persistent);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.control.resizes(mtu);
    }

    /// The pace keeps a window in flight. A window that limits would let packets go with the acknowledgements, in bursts
    /// whose marks share one event; so noq's has room for the packets whose acknowledgement is delayed.
    fn window(&self) -> u64 {
        self.control.window_with(DELAYED).ceil() as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = Some(self.control.pace() as u64).filter(|pace| *pace > 0);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
