// SPDX-License-Identifier: Apache-2.0
//! The laws of LEDBAT++'s control with the constants of draft-irtf-iccrg-ledbat-plus-plus, section 4.

#[path = "../../../../traffic/rust/base_delay.rs"]
mod base_delay;
#[path = "../../../../traffic/rust/ledbat_control.rs"]
mod ledbat_control;

use ledbat_control::{change, gain, Control, Phase};

const PACKET: u16 = 1000;
const BASE: f64 = 0.021;
/// Acknowledgements of a window.
const PARTS: usize = 10;

fn near(value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() < part, "{value} is not {expected}");
}

/// A flow alone in a queue without a limit, whose rate is `packets` per base RTT: each round trip acknowledges a window.
struct Flow {
    control: Control,
    now: f64,
    rate: f64,
}

impl Flow {
    fn new(packets: f64) -> Self {
        Self { control: Control::new(PACKET), now: 0.0, rate: packets }
    }

    fn packets(&self) -> f64 {
        self.control.window / f64::from(PACKET)
    }

    /// The round-trip time, with the flow's own queue and `other` seconds of another's.
    fn rtt(&self, other: f64) -> f64 {
        BASE * (self.packets() / self.rate).max(1.0) + other
    }

    fn round(&mut self, other: f64) {
        let (rtt, part) = (self.rtt(other), self.control.window / PARTS as f64);
        for n in 1..=PARTS {
            let at = self.now + rtt * n as f64 / PARTS as f64;
            self.control.acked(at, at - rtt, part, rtt, true);
        }
        self.now += rtt;
    }

    /// Goes on until the phase is another one, and returns how long that took.
    fn until(&mut self, ends: impl Fn(Phase) -> bool) -> f64 {
        let began = self.now;
        while !ends(self.control.phase) {
            self.round(0.0);
            assert!(self.now - began < 1000.0, "{:?} does not end", self.control.phase);
        }
        self.now - began
    }
}

#[test]
fn gain_is_that_of_section_4_2() {
    for (base, divisor) in
        [(0.001, 16.0), (0.0075, 16.0), (0.008, 15.0), (0.02, 6.0), (0.06, 2.0), (0.12, 1.0), (0.2, 1.0)]
    {
        assert_eq!(gain(base), 1.0 / divisor);
    }
}

#[test]
fn the_window_changes_by_section_4_3() {
    let sixth = 1.0 / 6.0;
    for delay in [0.0, 0.03, 0.06] {
        assert_eq!(change(sixth, 100.0, delay), sixth);
    }
    near(change(sixth, 100.0, 0.066), sixth - 10.0, 1e-9);
    assert_eq!(change(sixth, 100.0, 0.6), -50.0);
}

#[test]
fn the_first_slow_start_grows_by_gain_and_ends_at_three_quarters_of_the_target() {
    let mut flow = Flow::new(1000.0);
    assert_eq!(flow.packets(), 2.0);
    for _ in 0..12 {
        flow.round(0.0);
    }
    near(flow.packets(), 2.0 * (1.0_f64 + 1.0 / 6.0).powi(12), 1e-6);
    flow.round(0.044);
    assert_eq!(flow.control.phase, Phase::SlowStart { initial: true });
    for _ in 0..2 {
        flow.round(0.046);
    }
    assert_eq!(flow.control.phase, Phase::Avoidance);
}

#[test]
fn slowdowns_take_two_round_trips_at_two_packets_and_a_tenth_of_the_time() {
    let mut flow = Flow::new(50.0);
    flow.until(|phase| phase == Phase::Avoidance);
    let rtt = flow.rtt(0.0);
    let first = flow.until(|phase| matches!(phase, Phase::Slowdown { .. }));
    assert!((2.0..=3.5).contains(&(first / rtt)), "{first} s after slow start, RTT {rtt}");
    assert_eq!(flow.packets(), 2.0);
    let began = flow.now;
    flow.until(|phase| !matches!(phase, Phase::Slowdown { .. }));
    assert_eq!(flow.control.phase, Phase::SlowStart { initial: false });
    flow.until(|phase| phase == Phase::Avoidance);
    let took = flow.now - began;
    let calm = flow.until(|phase| matches!(phase, Phase::Slowdown { .. }));
    near(calm, 9.0 * took, 0.1);
}

#[test]
fn alone_it_keeps_the_queue_at_its_target() {
    let mut flow = Flow::new(50.0);
    flow.until(|phase| phase == Phase::Avoidance);
    let mut delays = Vec::new();
    while flow.now < 120.0 {
        flow.round(0.0);
        if flow.control.phase == Phase::Avoidance {
            delays.push(flow.rtt(0.0) - BASE);
        }
    }
    let last = &delays[delays.len() - 50..];
    near(last.iter().sum::<f64>() / last.len() as f64, 0.06, 0.15);
}

#[test]
fn it_yields_to_the_queue_of_another_flow() {
    let mut flow = Flow::new(50.0);
    flow.until(|phase| phase == Phase::Avoidance);
    let mut windows = Vec::new();
    for _ in 0..200 {
        flow.round(0.2);
        windows.push(flow.packets());
    }
    // The first slowdown, a few round trips after slow start, returns to the window that it found.
    let last = &windows[100..];
    let mean = last.iter().sum::<f64>() / last.len() as f64;
    assert!(mean < 0.1 * 50.0, "{mean} packets: {windows:?}");
}

#[test]
fn a_loss_halves_the_window_once_a_round_trip_and_after_a_slowdown_the_window_before_it() {
    let mut flow = Flow::new(1000.0);
    for _ in 0..20 {
        flow.round(0.0);
    }
    let before = flow.control.window;
    flow.control.lost(flow.now, flow.now - 0.001, false);
    flow.control.lost(flow.now + 0.001, flow.now - 0.0005, false);
    near(flow.control.window, before / 2.0, 1e-9);
    assert_eq!(flow.control.phase, Phase::Avoidance);
    flow.until(|phase| matches!(phase, Phase::Slowdown { .. }));
    let slowed = flow.control.window;
    flow.control.lost(flow.now, flow.now - 2.0 * BASE, false);
    assert_eq!(flow.control.window, slowed);
    flow.until(|phase| phase == Phase::Avoidance);
    near(flow.packets(), before / 4.0 / f64::from(PACKET), 0.2);
    flow.control.lost(flow.now, flow.now, true);
    assert_eq!(flow.packets(), 2.0);
    flow.control.resizes(2 * PACKET);
    assert_eq!(flow.packets(), 4.0, "of the size before");
}
