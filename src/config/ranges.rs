//! What the numbers of the settings may be.

use std::ops::RangeInclusive;

use toml::Value;

use crate::server;

/// The range of a number by its key from the top; `None` for one that its type alone bounds.
pub fn allowed(key: &str) -> Option<RangeInclusive<f64>> {
    match key.split_once('.')? {
        ("ranking", name) => Some(ranking(name)),
        ("server", name) => server::settings::RANGES.iter().find(|it| it.0 == name).map(|it| it.1.clone()),
        ("evidence", "endpoint_seconds") => Some(1.0..=3600.0),
        ("evidence", _) => Some(0.0..=MOST_CACHED),
        // Nothing at all would be within 0 bytes or pixels.
        ("images" | "snapshot", _) => Some(1.0..=MOST_BYTES),
        _ => None,
    }
}

const MOST_CACHED: f64 = 1e6;
const MOST_BYTES: f64 = (1u64 << 40) as f64;

/// What a number under `ranking` may be. Beyond it an order would still come out, and mean nothing.
fn ranking(key: &str) -> RangeInclusive<f64> {
    /// Far above any useful weight, and far below what sums of scores could overflow by.
    const MOST: f64 = 1000.0;
    let name = key.rsplit('.').next().unwrap_or(key);
    let is_share = name == "b" || name.ends_with("_b") || name == "demotion";
    if is_share { 0.0..=1.0 } else { 0.0..=MOST }
}

/// A value as a number, if it is one.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}
