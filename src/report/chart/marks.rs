//! What happened when: warm-up, faults, leader changes and stalls, as marks on the time axis.
//!
//! Leans on `result` and the faults of `scenario`.

use super::Mark;
use super::canvas::Paint;
use crate::measure::FaultTimes;
use crate::report::RunResult;
use crate::report::text::{printable, shortened};
use crate::scenario::{Fault, FaultAction, FrameKind};

/// More moments of one kind than this are drawn as spans.
const MOMENTS: usize = 24;

/// The marks of a run.
pub(super) fn of(result: &RunResult) -> Vec<Mark> {
    let mut marks = Vec::new();
    let (warm_up, label) = match (result.config.warm_up.known(), &result.window.warm_up) {
        (Some(known), _) => (known.as_nanos(), "warm-up"),
        (None, Some(found)) => (found.until_ns, "warm-up, found"),
        (None, None) => (0, ""),
    };
    if warm_up > 0 {
        marks.push(Mark {
            from: 0.0,
            until: Some(warm_up.min(result.duration_ns) as f64),
            label: label.to_owned(),
            paint: Paint::Grey,
        });
    }
    for (number, fault) in result.config.faults.iter().enumerate() {
        let times = result
            .faults
            .iter()
            .find(|times| times.fault as usize == number);
        marks.extend(fault_marks(fault, times, result.duration_ns));
    }
    for change in &result.leader_changes {
        let label = match &change.leader {
            Some(leader) => format!("leader {}", shortened(&printable(leader), 16)),
            None => "no leader".to_owned(),
        };
        marks.push(moment(change.at_ns, &label, Paint::Purple));
    }
    let stalls: Vec<u64> = result.stalls.iter().map(|stall| stall.at_ns).collect();
    marks.extend(moments(&stalls, "stall", Paint::Orange, result.duration_ns));
    marks
}

fn fault_marks(fault: &Fault, times: Option<&FaultTimes>, end: u64) -> Vec<Mark> {
    let name = name_of(fault);
    let lasts = !matches!(
        fault.action,
        FaultAction::StepDown | FaultAction::RollingRestart
    );
    if let Some(from) = fault.from.filter(|_| lasts) {
        let from = from.0.as_nanos();
        if from > end {
            return Vec::new();
        }
        let until = fault.until.map_or(end, |until| until.0.as_nanos().min(end));
        return vec![Mark {
            from: from as f64,
            until: Some(until as f64),
            label: name,
            paint: Paint::Red,
        }];
    }
    let Some(times) = times else {
        return Vec::new();
    };
    let mut marks = moments(&times.at_ns, &name, Paint::Red, end);
    // Only the first moments are kept: what came after them is one span.
    if let Some(last) = times.at_ns.last()
        && times.count > times.at_ns.len() as u64
        && times.last_ns > *last
    {
        marks.push(Mark {
            from: *last as f64,
            until: Some(times.last_ns as f64),
            label: name,
            paint: Paint::Red,
        });
    }
    marks
}

/// A mark for each moment, or for each stretch of moments close together if there are many.
fn moments(at: &[u64], label: &str, paint: Paint, end: u64) -> Vec<Mark> {
    if at.len() <= MOMENTS {
        return at.iter().map(|at| moment(*at, label, paint)).collect();
    }
    let near = end / 50;
    let mut sorted = at.to_vec();
    sorted.sort_unstable();
    let stretches = sorted.chunk_by(|one, next| next - one <= near);
    let spans = stretches.map(|stretch| Mark {
        from: stretch[0] as f64,
        until: Some(stretch[stretch.len() - 1] as f64),
        label: label.to_owned(),
        paint,
    });
    spans.collect()
}

fn moment(at: u64, label: &str, paint: Paint) -> Mark {
    Mark {
        from: at as f64,
        until: None,
        label: label.to_owned(),
        paint,
    }
}

/// A fault in two or three words.
pub(in crate::report) fn name_of(fault: &Fault) -> String {
    let action = match fault.action {
        FaultAction::Drop => "drop",
        FaultAction::Delay => "delay",
        FaultAction::Duplicate => "duplicate",
        FaultAction::Cut => "link cut",
        FaultAction::Hold => "link held",
        FaultAction::Slow => "slow link",
        FaultAction::Limit => "limited link",
        FaultAction::Kill => "server killed",
        FaultAction::Restart => "server restarted",
        FaultAction::RollingRestart => "rolling restart",
        FaultAction::PowerLoss => "power loss",
        FaultAction::Freeze => "server frozen",
        FaultAction::CutRoutes => "routes cut",
        FaultAction::HoldRoutes => "routes held",
        FaultAction::SlowRoutes => "slow routes",
        FaultAction::LimitRoutes => "limited routes",
        FaultAction::SlowDisk => "slow disk",
        FaultAction::HoldDisk => "disk held",
        FaultAction::StepDown => "step-down",
    };
    let frame = match fault.frame {
        None => return action.to_owned(),
        Some(FrameKind::Message) => "message",
        Some(FrameKind::Eob) => "end of batch",
        Some(FrameKind::Ping) => "ping",
        Some(FrameKind::FlowAck) => "flow ack",
        Some(FrameKind::Gap) => "gap",
        Some(FrameKind::FlowError) => "flow error",
        Some(FrameKind::PubAck) => "PubAck",
    };
    format!("{action} {frame}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_moments_become_few_spans() {
        let few = moments(&[5, 1], "drop", Paint::Red, 100);
        assert_eq!(few.len(), 2);
        let early: Vec<u64> = (0..40).collect();
        let late: Vec<u64> = (500..540).collect();
        let many = moments(&[early, late].concat(), "drop", Paint::Red, 1_000);
        let spans: Vec<_> = many.iter().map(|mark| (mark.from, mark.until)).collect();
        assert_eq!(spans, [(0.0, Some(39.0)), (500.0, Some(539.0))]);
    }
}
