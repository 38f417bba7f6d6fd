//! What the keys of a fault may say together.
//!
//! Leans on the settings structs.

use super::check::{Checked, refuse};
use super::path::KeyPath;
use super::{Fault, FaultAction, FaultPlace};
use crate::machine::Time;

pub(super) fn check_fault(fault: &Fault, publishers: u64, path: &KeyPath) -> Checked {
    if let Some(publisher) = fault.publisher.filter(|&one| u64::from(one) >= publishers) {
        let message = format!(
            "{publisher} is out of range; allowed are 0 to {}, the publishers of this file",
            publishers - 1
        );
        return refuse(path.key("publisher"), message);
    }
    match fault.action {
        FaultAction::Cut | FaultAction::Hold => check_cut(fault, path),
        FaultAction::StepDown => check_step_down(fault, path),
        FaultAction::Drop | FaultAction::Delay | FaultAction::Duplicate => {
            check_frame_fault(fault, path)
        }
    }
}

fn check_cut(fault: &Fault, path: &KeyPath) -> Checked {
    let frame_keys = [
        ("frame", fault.frame.is_some()),
        ("nth", fault.nth.is_some()),
        ("delay", fault.delay.is_some()),
        ("count", fault.count != 1),
        ("place", fault.place != FaultPlace::Output),
    ];
    if let Some((name, _)) = frame_keys.iter().find(|(_, written)| *written) {
        let message = "does not go with actions \"cut\" and \"hold\", which take from and until";
        return refuse(path.key(name), message);
    }
    match (fault.from, fault.until) {
        (None, _) => refuse(path.key("from"), "is missing; a cut or hold needs its time"),
        (Some(_), None) if fault.action == FaultAction::Hold => refuse(
            path.key("until"),
            "is missing; a hold needs its end (a cut may last for ever)",
        ),
        (Some(from), Some(until)) if from >= until => refuse(
            path.key("until"),
            format!("{until} is not after from, {from}"),
        ),
        (Some(_), Some(_) | None) => Ok(()),
    }
}

fn check_step_down(fault: &Fault, path: &KeyPath) -> Checked {
    let other_keys = [
        ("frame", fault.frame.is_some()),
        ("nth", fault.nth.is_some()),
        ("delay", fault.delay.is_some()),
        ("count", fault.count != 1),
        ("place", fault.place != FaultPlace::Output),
        ("publisher", fault.publisher.is_some()),
        ("until", fault.until.is_some()),
    ];
    if let Some((name, _)) = other_keys.iter().find(|(_, written)| *written) {
        let message = "does not go with action \"step-down\", which takes from alone";
        return refuse(path.key(name), message);
    }
    match fault.from {
        None => refuse(path.key("from"), "is missing; a step-down needs its time"),
        Some(_) => Ok(()),
    }
}

fn check_frame_fault(fault: &Fault, path: &KeyPath) -> Checked {
    for (name, span) in [("from", fault.from), ("until", fault.until)] {
        if span.is_some() {
            let message = "goes with actions \"cut\", \"hold\" and \"step-down\" only; frames are counted by nth \
                 and count";
            return refuse(path.key(name), message);
        }
    }
    if fault.frame.is_none() {
        return refuse(
            path.key("frame"),
            "is missing; say which kind of frame is meant",
        );
    }
    match (fault.action, fault.delay) {
        (FaultAction::Drop, Some(_)) => refuse(
            path.key("delay"),
            "does not go with action = \"drop\": a lost frame is never late",
        ),
        (FaultAction::Delay, None) => {
            refuse(path.key("delay"), "is missing; say how late the frame is")
        }
        (FaultAction::Delay, Some(delay)) if delay.0 == Time::ZERO => {
            refuse(path.key("delay"), "0 delays nothing; allowed are 1ns to 1h")
        }
        (FaultAction::Drop, None)
        | (FaultAction::Delay, Some(_))
        | (
            FaultAction::Duplicate | FaultAction::Cut | FaultAction::Hold | FaultAction::StepDown,
            _,
        ) => Ok(()),
    }
}
