// SPDX-License-Identifier: Apache-2.0
//! LEDBAT++ as a congestion controller of noq: its delay is the time from a packet's departure to its acknowledgement.

use std::{any::Any, sync::Arc, time::Instant};

use noq::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::RttEstimator;

use crate::ledbat_control::Control;

#[derive(Default)]
pub struct LedbatConfig;

impl ControllerFactory for LedbatConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let control = Control::new(mtu);
        Box::new(Ledbat { epoch: now, initial: control.window as u64, control })
    }
}

#[derive(Clone, Debug)]
struct Ledbat {
    epoch: Instant,
    initial: u64,
    control: Control,
}

impl Ledbat {
    /// Seconds since the connection began.
    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.epoch).as_secs_f64()
    }
}

impl Controller for Ledbat {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: u64, idle: bool, rtt: &RttEstimator) {
        let (now, sent) = (self.seconds(now), self.seconds(sent));
        self.control.acked(now, sent, bytes as f64, rtt.get().as_secs_f64(), !idle);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, _: bool, _: u64, _: u64) {
        self.control.lost(self.seconds(now), self.seconds(sent), persistent);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.control.resizes(mtu);
    }

    fn window(&self) -> u64 {
        self.control.window as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
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
