//! Foreign text in messages.
//!
//! Leans on nothing of ours.

/// Text of the user's, safe to print: control characters escaped, and cut at 60 characters.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_is_short_and_harmless() {
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 61);
    }
}
