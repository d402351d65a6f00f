// SPDX-License-Identifier: Apache-2.0
//! A law of SCReAM's control with the constants of RFC 8298.

#[path = "../../../../traffic/rust/base_delay.rs"]
mod base_delay;
#[path = "../../../../traffic/rust/delay_target.rs"]
mod delay_target;
#[path = "../../../../traffic/rust/scream_control.rs"]
mod scream_control;

use scream_control::{Control, MSS};

#[test]
fn after_a_reordering_a_loss_counts_once_the_reordering_window_is_over() {
    let mut control = Control::new(20e6);
    control.target_bps = 10e6;
    for seq in 0..60 {
        control.sent(seq as f64 * 0.001, seq, MSS);
    }
    // Reports come every ms, each of the newest packet and the one before. Packet 0 comes 10 ms after packet 1.
    let at = |seq: u64| 0.02 + seq as f64 * 0.001;
    control.hears(at(1), 0, &[false, true], at(1));
    control.hears(at(11), 0, &[true; 12], at(11));
    let lost = 20;
    let counted = (12..60).find(|seq| {
        let before = control.target_bps;
        control.hears(at(*seq), seq - 1, &[seq - 1, *seq].map(|seq| seq != lost), at(*seq));
        control.target_bps < before
    });
    assert!(counted.is_some_and(|seq| (31..=32).contains(&seq)), "{counted:?}");
}
