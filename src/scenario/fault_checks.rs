//! What the keys of a fault may say together.
//!
//! Leans on the settings structs.

use super::check::{Checked, refuse};
use super::path::KeyPath;
use super::{Fault, FaultAction, FaultPlace, RouteWay, Storage, StreamSettings};
use crate::machine::Time;

/// Which keys an action takes, beside `action` itself.
fn keys_of(action: FaultAction) -> &'static [&'static str] {
    match action {
        FaultAction::Drop => &["place", "frame", "publisher", "nth", "count"],
        FaultAction::Delay | FaultAction::Duplicate => {
            &["place", "frame", "publisher", "nth", "count", "delay"]
        }
        FaultAction::Cut | FaultAction::Hold => &["publisher", "from", "until"],
        FaultAction::Slow => &["publisher", "from", "until", "delay"],
        FaultAction::Limit => &["publisher", "from", "until", "bandwidth"],
        FaultAction::StepDown => &["from"],
        FaultAction::RollingRestart => &["from", "down_for"],
        FaultAction::Kill
        | FaultAction::Restart
        | FaultAction::PowerLoss
        | FaultAction::Freeze
        | FaultAction::HoldDisk => &["role", "server", "from", "until"],
        FaultAction::SlowDisk => &["role", "server", "from", "until", "delay"],
        FaultAction::CutRoutes | FaultAction::HoldRoutes => {
            &["role", "server", "peer", "way", "from", "until"]
        }
        FaultAction::SlowRoutes => &["role", "server", "peer", "way", "from", "until", "delay"],
        FaultAction::LimitRoutes => &[
            "role",
            "server",
            "peer",
            "way",
            "from",
            "until",
            "bandwidth",
        ],
    }
}

/// Whether it has to say when it ends: it could do no good, or nothing else, for ever.
const fn needs_end(action: FaultAction) -> bool {
    matches!(
        action,
        FaultAction::Hold
            | FaultAction::Freeze
            | FaultAction::Restart
            | FaultAction::HoldRoutes
            | FaultAction::HoldDisk
    )
}

/// Holds a fault of a file with so many publishers and this stream to its rules.
pub(super) fn check_fault(
    fault: &Fault,
    publishers: u64,
    stream: &StreamSettings,
    path: &KeyPath,
) -> Checked {
    if let Some(publisher) = fault.publisher.filter(|&one| u64::from(one) >= publishers) {
        let message = format!(
            "{publisher} is out of range; allowed are 0 to {}, the publishers of this file",
            publishers - 1
        );
        return refuse(path.key("publisher"), message);
    }
    check_keys(fault, path)?;
    match fault.action {
        FaultAction::Drop | FaultAction::Delay | FaultAction::Duplicate => {
            check_frame_fault(fault, path)
        }
        _ => {
            check_span(fault, path)?;
            check_ends_servers(fault, stream, path)?;
            check_slowness(fault, path)?;
            check_limit(fault, path)?;
            if fault.action.is_of_server() {
                check_server_fault(fault, stream, path)?;
            }
            Ok(())
        }
    }
}

/// No key is written that the action does not take.
fn check_keys(fault: &Fault, path: &KeyPath) -> Checked {
    let written = [
        ("place", fault.place != FaultPlace::Output),
        ("frame", fault.frame.is_some()),
        ("publisher", fault.publisher.is_some()),
        ("nth", fault.nth.is_some()),
        ("count", fault.count != 1),
        ("delay", fault.delay.is_some()),
        ("bandwidth", fault.bandwidth.is_some()),
        ("from", fault.from.is_some()),
        ("until", fault.until.is_some()),
        ("down_for", fault.down_for.is_some()),
        ("role", fault.role.is_some()),
        ("server", fault.server.is_some()),
        ("peer", fault.peer.is_some()),
        ("way", fault.way != RouteWay::Both),
    ];
    let taken = keys_of(fault.action);
    let strange = written
        .iter()
        .find(|(name, written)| *written && !taken.contains(name));
    match strange {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!(
                "does not go with action \"{}\", which takes {}",
                fault.action.word(),
                taken.join(", ")
            );
            refuse(path.key(name), message)
        }
    }
}

fn check_span(fault: &Fault, path: &KeyPath) -> Checked {
    let word = fault.action.word();
    match (fault.from, fault.until) {
        (None, _) => {
            let message = format!("is missing; action \"{word}\" needs its time");
            refuse(path.key("from"), message)
        }
        (Some(_), None) if needs_end(fault.action) => {
            let message = format!("is missing; action \"{word}\" needs its end");
            refuse(path.key("until"), message)
        }
        (Some(from), Some(until)) if from >= until => refuse(
            path.key("until"),
            format!("{until} is not after from, {from}; allowed are later times, up to 24h"),
        ),
        (Some(_), Some(_) | None) => Ok(()),
    }
}

/// What a stream in memory loses with its server is not modelled.
fn check_ends_servers(fault: &Fault, stream: &StreamSettings, path: &KeyPath) -> Checked {
    let word = fault.action.word();
    if fault.action.ends_servers() && stream.storage == Storage::Memory {
        let message = format!(
            "\"{word}\" needs storage = \"file\": what a stream in memory loses with its server is not modelled"
        );
        return refuse(path.key("action"), message);
    }
    if fault.action == FaultAction::RollingRestart && fault.down_for.is_none() {
        let message = "is missing; say how long each server is down";
        return refuse(path.key("down_for"), message);
    }
    Ok(())
}

fn check_server_fault(fault: &Fault, stream: &StreamSettings, path: &KeyPath) -> Checked {
    let word = fault.action.word();
    if fault.role.is_some() && fault.server.is_some() {
        return refuse(path.key("server"), "does not go with role: say one of them");
    }
    let alone = stream.replicas == 1;
    if alone && (fault.action.is_of_routes() || fault.action == FaultAction::PowerLoss) {
        let message = format!("\"{word}\" needs a stream with replicas; this one has replicas = 1");
        return refuse(path.key("action"), message);
    }
    if alone && fault.role == Some(super::ServerRole::Follower) {
        return refuse(
            path.key("role"),
            "\"follower\" needs a stream with replicas; this one has replicas = 1",
        );
    }
    let is_of_disk = matches!(fault.action, FaultAction::SlowDisk | FaultAction::HoldDisk);
    if alone && is_of_disk && stream.storage == Storage::Memory {
        let message = format!("\"{word}\" needs a disk; this stream has storage = \"memory\"");
        return refuse(path.key("action"), message);
    }
    for (name, number) in [("server", fault.server), ("peer", fault.peer)] {
        if let Some(number) = number.filter(|&number| number >= stream.replicas) {
            let message = format!(
                "{number} is out of range; allowed are 0 to {}, a server for each replica",
                stream.replicas - 1
            );
            return refuse(path.key(name), message);
        }
    }
    if fault.server.is_some() && fault.server == fault.peer {
        return refuse(
            path.key("peer"),
            "is the server itself: it has no route there",
        );
    }
    Ok(())
}

/// What makes something slow says by how much.
fn check_slowness(fault: &Fault, path: &KeyPath) -> Checked {
    let slows = matches!(
        fault.action,
        FaultAction::Slow | FaultAction::SlowRoutes | FaultAction::SlowDisk
    );
    match fault.delay {
        None if slows => refuse(path.key("delay"), "is missing; say how slow it is"),
        Some(delay) if delay.0 == Time::ZERO => {
            refuse(path.key("delay"), "0 delays nothing; allowed are 1ns to 1h")
        }
        None | Some(_) => Ok(()),
    }
}

/// What limits something says to what.
fn check_limit(fault: &Fault, path: &KeyPath) -> Checked {
    let limits = matches!(fault.action, FaultAction::Limit | FaultAction::LimitRoutes);
    if limits && fault.bandwidth.is_none() {
        let message = "is missing; say how much it carries";
        return refuse(path.key("bandwidth"), message);
    }
    Ok(())
}

fn check_frame_fault(fault: &Fault, path: &KeyPath) -> Checked {
    if fault.frame.is_none() {
        return refuse(
            path.key("frame"),
            "is missing; say which kind of frame is meant",
        );
    }
    match (fault.action, fault.delay) {
        (FaultAction::Delay, None) => {
            refuse(path.key("delay"), "is missing; say how late the frame is")
        }
        (FaultAction::Delay, Some(delay)) if delay.0 == Time::ZERO => {
            refuse(path.key("delay"), "0 delays nothing; allowed are 1ns to 1h")
        }
        _ => Ok(()),
    }
}
