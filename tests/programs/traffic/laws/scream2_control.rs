// SPDX-License-Identifier: Apache-2.0
//! The laws of SCReAM v2's control with the constants of draft-johansson-ccwg-rfc8298bis-screamv2-07.

#[path = "../../../../traffic/rust/base_delay.rs"]
mod base_delay;
#[path = "../../../../traffic/rust/delay_target.rs"]
mod delay_target;
#[path = "../../../../traffic/rust/scream2_control.rs"]
mod scream2_control;

use scream2_control::{Control, FRAME_PERIOD, TARGET_BITRATE_MIN};

const MSS: usize = 1000;
const MAX: f64 = 100e6;

/// A path with no queue but what `delay` adds, whose packets are marked by `marks`; a report comes for each packet.
struct Path {
    control: Control,
    rtt: f64,
    now: f64,
    seq: u64,
}

impl Path {
    fn new(rtt: f64) -> Self {
        Self { control: Control::new(MSS, MAX), rtt, now: 0.0, seq: 0 }
    }

    /// Sends a window's packets and reports each after an RTT: which had CE, were lost (None), or waited in a queue.
    fn round(&mut self, fate: impl Fn(u64) -> Option<bool>, queue: f64) {
        let count = ((self.control.ref_wnd / MSS as f64).round() as u64).max(1);
        let first = self.seq;
        let gap = self.rtt / count as f64;
        for n in 0..count {
            self.control.sent(self.now + n as f64 * gap, first + n, MSS);
        }
        for n in 0..count {
            let arrived = self.now + n as f64 * gap + self.rtt / 2.0 + queue;
            let report: Vec<Option<bool>> = (0..=n).map(|n| fate(first + n)).collect();
            self.control.hears(self.now + n as f64 * gap + self.rtt, first, &report, arrived);
        }
        self.seq += count;
        self.now += self.rtt;
    }

    fn unmarked(&mut self) {
        self.round(|_| Some(false), 0.0);
    }

    /// A control whose window is of that many packets, with known RTT, base delay and congestion `ago` seconds before.
    fn at(rtt: f64, packets: f64, ago: f64) -> Self {
        let mut path = Self::new(rtt);
        path.unmarked();
        path.control.ref_wnd = packets * MSS as f64;
        path.now += ago;
        path
    }
}

fn near(value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() < part, "{value} is not {expected}");
}

#[test]
fn alpha_attacks_by_an_eighth_and_decays_by_a_128th() {
    let mut path = Path::at(0.025, 1.0, 1.0);
    let report = |path: &mut Path, ce| {
        path.control.sent(path.now, path.seq, MSS);
        path.now += 0.025;
        path.control.hears(path.now, path.seq, &[Some(ce)], path.now - 0.0125);
        path.seq += 1;
        path.control.l4s_alpha
    };
    near(report(&mut path, true), 0.125, 1e-9);
    near(report(&mut path, true), 0.125 + 0.875 * 0.125, 1e-9);
    let alpha = path.control.l4s_alpha;
    near(report(&mut path, false), alpha * 127.0 / 128.0, 1e-9);
}

#[test]
fn alpha_is_of_at_least_ten_milliseconds() {
    let mut path = Path::at(0.1, 4.0, 1.0);
    for n in 0..4 {
        path.control.sent(path.now, path.seq + n, MSS);
    }
    // Four packets in 4 ms, the second and third marked: one update, with the first that comes 10 ms after the last.
    path.now += 0.1;
    let before = path.control.l4s_alpha;
    path.control.hears(path.now, path.seq, &[Some(false)], path.now - 0.05);
    assert_eq!(path.control.l4s_alpha, before * 127.0 / 128.0);
    path.control.hears(path.now + 0.004, path.seq, &[Some(false), Some(true), Some(true)], path.now - 0.05);
    assert_eq!(path.control.l4s_alpha, before * 127.0 / 128.0);
    let report = [Some(false), Some(true), Some(true), Some(false)];
    path.control.hears(path.now + 0.011, path.seq, &report, path.now - 0.05);
    near(path.control.l4s_alpha, 2.0 / 3.0 / 8.0, 1e-9);
}

#[test]
fn a_loss_takes_thirty_percent_once_a_round_trip() {
    let mut path = Path::at(0.02, 100.0, 1.0);
    let before = path.control.ref_wnd;
    path.round(|seq| (seq % 10 != 5).then_some(false), 0.0);
    let after = path.control.ref_wnd / before;
    assert!((0.69..0.76).contains(&after), "{after}");
}

#[test]
fn after_a_reordering_a_loss_counts_once_the_reordering_window_is_over() {
    let mut path = Path::at(0.02, 100.0, 1.0);
    let first = path.seq;
    for n in 0..60 {
        path.control.sent(path.now + n as f64 * 0.001, first + n, MSS);
    }
    // Reports come every ms, each of the newest packet and the one before. Packet 0 comes 10 ms after packet 1.
    let at = |n: u64| path.now + 0.02 + n as f64 * 0.001;
    path.control.hears(at(1), first, &[None, Some(false)], at(1));
    path.control.hears(at(11), first, &[Some(false); 12], at(11));
    let lost = first + 20;
    let counted = (12..60).find(|n| {
        let before = path.control.ref_wnd;
        let report = [first + n - 1, first + n].map(|seq| (seq != lost).then_some(false));
        path.control.hears(at(*n), first + n - 1, &report, at(*n));
        path.control.ref_wnd < 0.8 * before
    });
    assert!(counted.is_some_and(|n| (31..=32).contains(&n)), "{counted:?}");
}

#[test]
fn marks_take_half_of_alpha_and_less_at_long_rtts() {
    let reduced = |rtt: f64| {
        let mut path = Path::at(rtt, 100.0, 0.5);
        path.control.l4s_alpha = 0.4;
        for n in 0..2 {
            path.control.sent(path.now, path.seq + n, MSS);
        }
        let before = path.control.ref_wnd;
        path.now += rtt;
        // Its bytes in flight do not let the window grow with the same report.
        path.control.hears(path.now, path.seq, &[Some(false), Some(true)], path.now - rtt / 2.0);
        let alpha = path.control.l4s_alpha;
        (1.0 - path.control.ref_wnd / before) / alpha
    };
    near(reduced(0.025), 0.5, 1e-6);
    near(reduced(0.1), 0.125, 1e-6);
}

#[test]
fn after_a_hundred_round_trips_without_congestion_the_window_returns_to_what_was_in_flight() {
    let mut path = Path::at(0.02, 1000.0, 10.0);
    for n in 0..20 {
        path.control.sent(path.now, path.seq + n, MSS);
    }
    path.now += 0.02;
    path.control.sent(path.now, path.seq + 20, MSS); // a new round trip: 20 packets are those of the previous one
    path.control.hears(path.now, path.seq, &[Some(true)], path.now - 0.01);
    assert!(path.control.ref_wnd <= 21.0 * MSS as f64, "{}", path.control.ref_wnd);
}

#[test]
fn the_window_grows_by_a_packet_per_virtual_rtt_and_slower_near_the_inflection_point() {
    // The first mark sets the inflection point; an eighth away from it, growth is no longer slowed down.
    let grown = |rtt: f64, away: f64| {
        let mut path = Path::at(rtt, 100.0, 0.5);
        path.round(|_| Some(true), 0.0);
        path.unmarked(); // reacts to the last of the marks
        path.control.ref_wnd = 100.0 * MSS as f64 * away;
        let before = path.control.ref_wnd;
        path.unmarked();
        (path.control.ref_wnd - before) / MSS as f64
    };
    near(grown(0.025, 0.7), 1.0, 0.08);
    near(grown(0.005, 0.7), 0.2, 0.08);
    near(grown(0.025, 1.0), 0.25, 0.15);
}

#[test]
fn growth_is_multiplicative_once_congestion_is_a_hundred_round_trips_ago() {
    let mut path = Path::at(0.025, 200.0, 2.5);
    let before = path.control.ref_wnd;
    path.unmarked();
    // A packet by addition, and 2 % of 200.
    near(path.control.ref_wnd - before, 5.0 * MSS as f64, 0.08);
}

#[test]
fn the_window_does_not_grow_beyond_what_is_in_flight() {
    let mut path = Path::at(0.025, 100.0, 1.0);
    let before = path.control.ref_wnd;
    for _ in 0..50 {
        path.control.sent(path.now, path.seq, MSS);
        path.now += 0.025;
        path.control.hears(path.now, path.seq, &[Some(false)], path.now - 0.0125);
        path.seq += 1;
    }
    assert_eq!(path.control.ref_wnd, before);
}

#[test]
fn a_queue_above_half_of_its_target_reduces_as_marks_would() {
    let mut path = Path::at(0.025, 100.0, 0.5);
    for _ in 0..8 {
        path.round(|_| Some(false), 0.01);
    }
    let calm = path.control.ref_wnd;
    assert!(calm > 100.0 * MSS as f64);
    for _ in 0..8 {
        path.round(|_| Some(false), 0.058);
    }
    assert!(path.control.ref_wnd < 0.5 * calm);
    assert!((0.06..=0.4).contains(&path.control.qdelay_target.seconds));
}

#[test]
fn the_target_is_the_windows_rate_less_overhead_and_slack() {
    let mut path = Path::at(0.05, 100.0, 1.0);
    path.unmarked();
    let control = &path.control;
    let rate = control.ref_wnd * 8.0 / control.s_rtt;
    near(control.target_bitrate, rate / 1.2 * 1000.0 / 1020.0, 0.02);
    // Frames that wait for more than a quarter of a period lower it, at most by (1.2 + 0.5) / 1.2.
    let before = path.control.target_bitrate;
    for _ in 0..200 {
        path.control.encoded((before * FRAME_PERIOD / 8.0) as usize, FRAME_PERIOD);
    }
    path.unmarked();
    near(path.control.target_bitrate, before * 1.2 / 1.7, 0.05);
}

#[test]
fn packets_are_paced_at_one_and_a_half_times_the_target_and_four_times_that_at_the_maximum() {
    let mut control = Control::new(MSS, MAX);
    control.target_bitrate = 40e6;
    near(control.gap(MSS), 8000.0 / 60e6, 1e-9);
    control.target_bitrate = 90e6;
    near(control.gap(MSS), 8000.0 / (1.5 * 90e6 / 0.5), 1e-9);
    control.target_bitrate = MAX;
    near(control.gap(MSS), 8000.0 / (1.5 * MAX * 4.0), 1e-9);
}

#[test]
fn three_windows_may_be_in_flight() {
    let mut path = Path::at(0.025, 10.0, 0.0);
    for n in 0..30 {
        assert!(path.control.allows(MSS), "packet {n}");
        path.control.sent(path.now, path.seq + n, MSS);
    }
    assert!(!path.control.allows(MSS));
    assert_eq!(path.control.bytes_in_flight(), 30 * MSS);
}

#[test]
fn it_begins_with_the_least_window_and_bitrate() {
    let control = Control::new(MSS, MAX);
    assert_eq!((control.ref_wnd, control.target_bitrate, control.s_rtt), (3000.0, TARGET_BITRATE_MIN, 0.0));
}
