//! Whether the generator of a live run was its limit: the ceiling, where it is worth knowing, and what
//! is said of it.
//!
//! Leans on `live` and `measure`.

use crate::live::{Ceilings, Ended, Interrupts, LiveError, LiveOutcome};
use crate::measure::Generator;
use crate::scenario::Scenario;
use crate::seed::Seed;

/// How closely generators are looked at, and what is known of them.
pub(super) struct Look {
    /// `--ceiling`: measured after each run.
    ceiling: bool,
    /// `--strict`: a generator that was the limit is more than a note.
    strict: bool,
    ceilings: Ceilings,
}

/// The figures of the generator of a run, and what to say of them.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) figures: Option<Generator>,
    pub(super) notes: Vec<String>,
    pub(super) objections: Vec<String>,
    /// The signal that came while the ceiling was measured.
    pub(super) signal: Option<u8>,
}

impl Look {
    /// A look as the command line wants it.
    pub(super) fn new(ceiling: bool, strict: bool) -> Self {
        Self {
            ceiling,
            strict,
            ceilings: Ceilings::default(),
        }
    }

    /// Looks at the generator of a run that is over; measures its ceiling where that is wanted, or
    /// where it was busy enough to have been the limit.
    pub(super) async fn at(
        &mut self,
        outcome: &Result<LiveOutcome, LiveError>,
        run: (&Scenario, Seed),
        interrupts: &mut Interrupts,
    ) -> Looked {
        let mut looked = Looked::default();
        let Ok(outcome) = outcome else { return looked };
        let Some(mut figures) = outcome.generator.clone() else {
            return looked;
        };
        let is_over = !matches!(outcome.ended, Ended::Signal(_));
        if is_over && (self.ceiling || figures.is_busy()) {
            match self.ceilings.measure(run.0, run.1, interrupts).await {
                Ok(Ok(ceiling)) => figures = figures.below(ceiling),
                Ok(Err(signal)) => looked.signal = Some(signal),
                Err(error) => looked.notes.push(format!(
                    "the generator's ceiling could not be measured: {error}"
                )),
            }
        }
        if let Some(objection) = figures.objection() {
            if self.strict {
                looked.objections.push(objection);
            } else {
                looked.notes.push(objection);
            }
        }
        looked.figures = Some(figures);
        looked
    }
}
