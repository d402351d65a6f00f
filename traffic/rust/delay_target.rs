// SPDX-License-Identifier: Apache-2.0
//! The target of SCReAM's queue delay, which both versions adapt alike (RFC 8298, section 4.1.2.4;
//! draft-johansson-ccwg-rfc8298bis-screamv2-07, section 4.2.1.4.1). Times are seconds.

use std::collections::VecDeque;

use crate::base_delay::keep;

const QDELAY_TARGET_HI: f64 = 0.4;
const VARIANCE_SAMPLES: usize = 200;
const AVERAGE_SAMPLES: usize = 50;

pub struct DelayTarget {
    /// QDELAY_TARGET_LO.
    least: f64,
    norms: VecDeque<f64>,
    pub seconds: f64,
}

impl DelayTarget {
    pub fn new(least: f64) -> Self {
        Self { least, norms: VecDeque::new(), seconds: least }
    }

    /// Takes a sample of the queue delay. A queue that stays where it is, or is lost from, has another flow in it: the
    /// target follows it.
    pub fn samples(&mut self, qdelay: f64, loss_event_rate: f64) {
        keep(&mut self.norms, qdelay / self.least, VARIANCE_SAMPLES);
        let (_, variance) = moments(self.norms.iter());
        let (average, _) = moments(self.norms.iter().rev().take(AVERAGE_SAMPLES));
        let new = (average + variance.sqrt()) * self.least;
        self.seconds = match () {
            () if loss_event_rate > 0.002 => 1.5 * new,
            () if variance < 0.2 => new,
            () if new < self.least => new.max(self.seconds * 0.5),
            () => self.seconds * 0.9,
        }
        .clamp(self.least, QDELAY_TARGET_HI);
    }
}

/// Mean and variance.
pub fn moments<'a>(values: impl Iterator<Item = &'a f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, values.map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}
