//! Two planted leaks: what the check of determinism must find, switched on as defects of a file.
//!
//! Each moves the start of every group by up to a second, by a number that no seed gives: a draw from
//! the system, or the order of a map whose keys were drawn there. Leans on `scenario`.

#![expect(
    clippy::disallowed_types,
    reason = "random order is what is planted here"
)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::machine::Time;
use crate::scenario::{Defect, Settings};
use crate::units::Span;

/// Milliseconds that a start may move by.
const SPREAD: u64 = 1_000;

/// The settings that a run goes by: those of the file, but for planted leaks.
pub(super) fn planted(settings: &Settings) -> Cow<'_, Settings> {
    let defects = settings.server.iter().flat_map(|server| &server.defects);
    let leaks: Vec<fn() -> Vec<u64>> = defects
        .filter_map(|defect| match defect {
            Defect::UnseededDraw => Some(drawn as fn() -> _),
            Defect::HashOrder => Some(ordered as fn() -> _),
            _ => None,
        })
        .collect();
    let mut settings = Cow::Borrowed(settings);
    for leak in leaks {
        let moves = elsewhere(leak);
        for (group, by) in settings.to_mut().publishers.iter_mut().zip(moves) {
            group.start = Span(group.start.0 + Time::from_millis(by));
        }
    }
    settings
}

/// On a thread that no seed belongs to: on that of a world, even these would follow from it.
fn elsewhere(leak: fn() -> Vec<u64>) -> Vec<u64> {
    std::thread::spawn(leak).join().unwrap_or_default()
}

fn drawn() -> Vec<u64> {
    let state = RandomState::new();
    (0..SPREAD)
        .map(|number| state.hash_one(number) % SPREAD)
        .collect()
}

fn ordered() -> Vec<u64> {
    let map: HashMap<u64, ()> = (0..SPREAD).map(|number| (number, ())).collect();
    map.into_keys().collect()
}
