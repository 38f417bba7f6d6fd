//! What a reader has to know of a warm-up that was found.
//!
//! Leans on `text` and the figures of `measure`.

use super::text::duration;
use crate::measure::Window;

/// A sentence on how the window begins, where that was not for the file to say.
pub(super) fn note(window: &Window) -> Option<String> {
    let found = window.warm_up?;
    let over = format!("{} slices of {}", found.slices, duration(found.slice_ns));
    Some(if !found.steady {
        format!(
            "No end of the warm-up was found (MSER-5 over {over}): the run is too short or never becomes \
             steady, and figures are about the whole of it."
        )
    } else if found.until_ns == 0 {
        format!(
            "The run is steady from its start (MSER-5 over {over}): nothing is left out of the figures."
        )
    } else {
        format!(
            "The warm-up was found to end at {} (MSER-5 over {over}); figures leave it out.",
            duration(found.until_ns)
        )
    })
}
