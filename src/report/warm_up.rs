//! What a reader has to know of a warm-up that was found.
//!
//! Leans on `text` and the figures of `measure`.

use super::text::duration;
use crate::measure::Window;

/// A sentence on how the window begins, where that was not for the file to say.
pub(super) fn note(window: &Window) -> Option<String> {
    let found = window.warm_up?;
    let over = format!("{} slices of {}", found.slices, duration(found.slice_ns));
    let middle = window.from_ns.midpoint(window.until_ns);
    let changes = found.load_changes_until_ns;
    Some(
        if let Some(changes) = changes.filter(|changes| !found.steady && *changes > middle) {
            format!(
                "No end of the warm-up was found: the file itself changes the rates until {}, so there is no steady \
             load. Figures are about the whole run, and means over loads that differ; write warm_up as a span \
             to leave a part out.",
                duration(changes)
            )
        } else if !found.steady {
            format!(
                "No end of the warm-up was found (MSER-5 over {over}): the run is too short or never becomes \
             steady, and figures are about the whole of it."
            )
        } else if found.until_ns == 0 {
            format!(
                "The run is steady from its start (MSER-5 over {over}): nothing is left out of the figures."
            )
        } else {
            let changes = changes.map_or_else(String::new, |changes| {
                format!(
                    "; the file itself changes the rates until {}",
                    duration(changes)
                )
            });
            format!(
                "The warm-up was found to end at {} (MSER-5 over {over}{changes}); figures leave it out.",
                duration(found.until_ns)
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FoundWarmUp;

    #[test]
    fn a_load_that_the_file_changes_is_never_called_steady() {
        let told = |steady, until_ns, load_changes_until_ns| {
            let found = FoundWarmUp {
                steady,
                load_changes_until_ns,
                until_ns,
                slice_ns: 50_000_000,
                slices: 40,
            };
            let window = Window {
                from_ns: until_ns,
                until_ns: 2_000_000_000,
                warm_up: Some(found),
            };
            note(&window).unwrap()
        };
        let changing = told(false, 0, Some(1_900_000_000));
        assert!(
            changing.contains(
                "the file itself changes the rates until 1.9 s, so there is no steady load"
            ),
            "{changing}"
        );
        let settled = told(true, 600_000_000, Some(550_000_000));
        assert!(
            settled.starts_with("The warm-up was found to end at 600 ms")
                && settled.contains("changes the rates until 550 ms"),
            "{settled}"
        );
        let disturbed = told(false, 0, Some(550_000_000));
        assert!(disturbed.contains("never becomes steady"), "{disturbed}");
    }
}
