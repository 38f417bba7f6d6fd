//! Colour on a terminal, where somebody looks.
//!
//! Leans on nothing of ours.

/// Paints texts, or leaves them as they are.
#[derive(Clone, Copy)]
pub(super) struct Painter {
    pub(super) colour: bool,
}

impl Painter {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(super) fn good(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub(super) fn notable(self, text: &str) -> String {
        self.paint("1;33", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
}
