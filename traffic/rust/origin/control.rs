// SPDX-License-Identifier: Apache-2.0
//! The congestion controls of a connection, by the names that `--origin-cc` has for them.

use std::sync::Arc;

use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};

use crate::browser_prague::BrowserPragueConfig;

/// The control that sends ECT(1).
pub const PRAGUE: &str = "prague";

pub fn factory(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>, String> {
    match name {
        "bbr3" => Ok(Arc::new(Bbr3Config::default())),
        "cubic" => Ok(Arc::new(CubicConfig::default())),
        "newreno" => Ok(Arc::new(NewRenoConfig::default())),
        PRAGUE => Ok(Arc::new(BrowserPragueConfig)),
        other => Err(format!("congestion control {other}; known: bbr3, cubic, newreno, prague")),
    }
}
