// SPDX-License-Identifier: Apache-2.0
//! The delay of a path without a queue (RFC 6817). Times are seconds, of any clocks that do not drift.

use std::collections::VecDeque;

/// The least delay of each of the last ten minutes counts.
const BASE_HISTORY: usize = 10;
const MINUTE: f64 = 60.0;

/// The least delay of each minute, and when it began.
#[derive(Clone, Debug, Default)]
pub struct BaseDelay(VecDeque<(f64, f64)>);

impl BaseDelay {
    /// Of a packet's `delay`, by clocks that need not agree, what is no queue (RFC 6817).
    pub fn least(&mut self, now: f64, delay: f64) -> f64 {
        match self.0.back_mut() {
            Some((since, least)) if now - *since < MINUTE => *least = least.min(delay),
            _ => self.0.push_back((now, delay)),
        }
        if self.0.len() > BASE_HISTORY {
            self.0.pop_front();
        }
        self.0.iter().map(|(_, least)| *least).fold(f64::INFINITY, f64::min)
    }
}

/// Appends to a history of at most that many values.
pub fn keep(history: &mut VecDeque<f64>, value: f64, most: usize) {
    history.push_back(value);
    if history.len() > most {
        history.pop_front();
    }
}
