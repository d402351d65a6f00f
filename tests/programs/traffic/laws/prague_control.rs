// SPDX-License-Identifier: Apache-2.0
//! The laws of Prague's control over QUIC: its window at a marking probability, and its single rules.

#[path = "../../../../traffic/rust/prague_control.rs"]
mod prague_control;

use prague_control::Control;

const PACKET: u16 = 1472;

/// Numbers from 0 to 1 that look random (Lehmer, modulus 2^31 - 1).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0 * 48271 % 0x7fff_ffff;
        self.0 as f64 / 0x7fff_ffff as f64
    }
}

fn near(value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() < part, "{value} is not {expected}");
}

/// A flow whose packets are acknowledged one by one after an RTT, paced by its own pace.
struct Flow {
    control: Control,
    rtt: f64,
    now: f64,
    sent: u64,
    acked: u64,
}

impl Flow {
    fn new(rtt: f64) -> Self {
        let mut control = Control::new(PACKET);
        control.sent(0, f64::from(PACKET));
        control.acked(rtt, 0, f64::from(PACKET), rtt, true);
        control.remain(0.0);
        Self { control, rtt, now: rtt, sent: 1, acked: 1 }
    }

    fn packets(&self) -> f64 {
        self.control.window / f64::from(PACKET)
    }

    /// Acknowledges one packet, which an RTT after it was sent has a window's packets behind it.
    fn acknowledges(&mut self, marked: bool) {
        self.now += self.rtt / self.packets();
        self.control.sent(self.sent + self.packets() as u64, f64::from(PACKET));
        self.sent += 1;
        self.control.acked(self.now, self.acked, f64::from(PACKET), self.rtt, true);
        self.control.remain(self.control.window);
        self.acked += 1;
        if marked {
            self.control.marked(self.now);
        }
    }
}

/// Marks per round trip by hardware/kernel/README.md, with r the RTT over the virtual RTT.
fn law(p: f64, r: f64) -> f64 {
    let mut m: f64 = 1.0;
    for _ in 0..100 {
        let cwrs = 2.0 - (-(1.0 / r - 1.0) * m).exp();
        m = (2.0 * (1.0 - p) * r * r * (m + 1.0) * cwrs).sqrt();
    }
    m
}

fn mean_window(rtt: f64, p: f64) -> f64 {
    let (mut flow, mut dice) = (Flow::new(rtt), Dice(1));
    let (mut area, mut time) = (0.0, 0.0);
    while flow.now < 400.0 {
        let before = flow.now;
        flow.acknowledges(dice.next() < p);
        if flow.now > 20.0 {
            area += flow.packets() * (flow.now - before);
            time += flow.now - before;
        }
    }
    area / time
}

#[test]
fn its_window_is_that_of_the_law() {
    for p in [0.02, 0.05, 0.2] {
        near(mean_window(0.05, p), law(p, 1.0) / p, 0.12);
        near(mean_window(0.02, p), law(p, 0.8) / p, 0.12);
    }
}

#[test]
fn it_doubles_each_round_trip_until_the_first_mark_which_halves() {
    let mut flow = Flow::new(0.05);
    let start = flow.packets();
    for _ in 0..start as u64 {
        flow.acknowledges(false);
    }
    near(flow.packets(), 2.0 * start, 0.1);
    near(flow.control.pace(), 2.0 * flow.control.window / 0.05, 1e-9);
    let before = flow.packets();
    flow.acknowledges(true);
    near(flow.packets(), before / 2.0, 0.01);
    flow.control.remain(flow.control.window);
    near(flow.control.pace(), 1.036 * flow.control.window / 0.05, 1e-9);
}

#[test]
fn marks_of_one_round_trip_reduce_once_by_half_of_alpha() {
    let mut flow = Flow::new(0.05);
    flow.acknowledges(true);
    flow.control.window = 100.0 * f64::from(PACKET);
    flow.control.alpha = 0.5;
    for _ in 0..110 {
        flow.acknowledges(false);
    }
    flow.control.alpha = 0.5;
    let before = flow.packets();
    flow.acknowledges(true);
    near(flow.packets(), 0.75 * before, 0.01);
    let after = flow.packets();
    for _ in 0..20 {
        flow.acknowledges(true);
    }
    near(flow.packets(), after, 0.01);
}

#[test]
fn a_window_grows_by_a_full_packet_per_virtual_rtt() {
    for (rtt, packets) in [(0.05, 1.0), (0.0125, 0.25)] {
        let mut flow = Flow::new(rtt);
        flow.acknowledges(true);
        flow.control.window = 100.0 * f64::from(PACKET);
        for _ in 0..100 {
            flow.acknowledges(false);
        }
        near(flow.packets() - 100.0, packets, 0.03);
    }
}

#[test]
fn alpha_moves_by_a_sixteenth_once_a_round_trip() {
    let mut flow = Flow::new(0.05);
    flow.acknowledges(true);
    flow.control.window = 10.0 * f64::from(PACKET);
    let before = flow.control.alpha;
    let mut steps = Vec::new();
    for _ in 0..60 {
        let last = flow.control.alpha;
        flow.acknowledges(true);
        if flow.control.alpha != last {
            steps.push((flow.control.alpha - last) / (1.0 - last));
        }
    }
    assert!(flow.control.alpha > before && (2..30).contains(&steps.len()), "{steps:?}");
    steps.iter().skip(1).for_each(|step| near(*step, 1.0 / 16.0, 0.01));
}

#[test]
fn a_loss_halves_once_a_round_trip_and_two_packets_remain() {
    let mut control = Control::new(PACKET);
    let start = control.window;
    control.lost(1.0, 0.95, false);
    control.lost(1.01, 0.96, false);
    assert_eq!(control.window, start / 2.0);
    control.lost(1.1, 1.05, true);
    assert_eq!(control.window, 2.0 * f64::from(PACKET));
}

/// Halved by a loss, a window of 100 packets; marked after so many acknowledgements.
fn marked_after_a_loss(acknowledged: u64) -> (f64, f64) {
    let mut flow = Flow::new(0.01);
    flow.acknowledges(true);
    flow.control.window = 100.0 * f64::from(PACKET);
    for _ in 0..300 {
        flow.acknowledges(false);
    }
    let now = flow.now;
    flow.control.lost(now, now - 0.01, false);
    for _ in 0..acknowledged {
        flow.acknowledges(false);
    }
    flow.control.alpha = 0.5;
    let before = flow.packets();
    flow.acknowledges(true);
    (before, flow.packets())
}

#[test]
fn a_mark_within_a_round_trip_of_a_loss_does_not_reduce_again_and_one_after_it_does() {
    let (before, after) = marked_after_a_loss(20);
    near(after, before, 0.01);
    let (before, after) = marked_after_a_loss(110);
    near(after, 0.75 * before, 0.01);
}

#[test]
fn a_window_that_nothing_fills_does_not_grow() {
    let mut control = Control::new(PACKET);
    let start = control.window;
    control.acked(0.1, 0, f64::from(PACKET), 0.05, false);
    assert_eq!(control.window, start);
}

#[test]
fn it_waits_while_more_than_the_window_is_in_flight() {
    let mut flow = Flow::new(0.05);
    flow.acknowledges(true);
    let rate = flow.control.window / 0.05;
    flow.control.remain(flow.control.window + f64::from(PACKET));
    near(flow.control.pace(), 1.036 * rate, 1e-9);
    flow.control.sent(100, f64::from(PACKET));
    near(flow.control.pace(), rate / 10.0, 1e-9);
}
