//! Subjects: interned text, and matching against filters.
//!
//! Leans on `batch::message` for the ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batch::message::SubjectId;

/// All subjects seen by a server, numbered from 0 by first appearance.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Subjects {
    ids: BTreeMap<Arc<str>, SubjectId>,
    texts: Vec<Arc<str>>,
}

impl Subjects {
    /// The id of `text`, new if the text is.
    pub fn intern(&mut self, text: &str) -> SubjectId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        // Four thousand million subjects do not fit into memory.
        let id = SubjectId(self.texts.len() as u32);
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// The id of `text`, if it was interned.
    pub fn find(&self, text: &str) -> Option<SubjectId> {
        self.ids.get(text).copied()
    }

    /// The text behind an id; empty for one that this table never gave out.
    pub fn text(&self, id: SubjectId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// The shared text behind an id; `None` for one that this table never gave out.
    pub fn shared(&self, id: SubjectId) -> Option<Arc<str>> {
        self.texts.get(id.0 as usize).cloned()
    }

    /// How many there are; ids lie below.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

/// Whether `subject` (without wildcards) falls under `filter`: `*` stands for one token, a final
/// `>` for one or more.
pub fn matches(filter: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    let mut wanted = filter.split('.').peekable();
    while let Some(pattern) = wanted.next() {
        let token = tokens.next();
        if pattern == ">" && wanted.peek().is_none() {
            return token.is_some();
        }
        match token {
            Some(token) if pattern == "*" || pattern == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

/// Whether some subject falls under both filters.
pub fn overlap(one: &str, other: &str) -> bool {
    let mut left = one.split('.');
    let mut right = other.split('.');
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_text_has_one_id() {
        let mut subjects = Subjects::default();
        let a = subjects.intern("a.b");
        let b = subjects.intern("a.c");
        assert_eq!(subjects.intern("a.b"), a);
        assert_ne!(a, b);
        assert_eq!(subjects.text(b), "a.c");
        assert_eq!(subjects.text(SubjectId(9)), "");
    }

    #[test]
    fn wildcards_match_tokens() {
        assert!(matches("t.>", "t.a.b"));
        assert!(!matches("t.>", "t"));
        assert!(matches("t.*", "t.a"));
        assert!(!matches("t.*", "t.a.b"));
        assert!(matches("t.*.b", "t.a.b"));
        assert!(!matches("t.a", "t.a.b"));
        assert!(!matches("t.a.b", "t.a"));
        assert!(matches(">", "x"));
    }

    #[test]
    fn filters_overlap_where_a_subject_fits_both() {
        assert!(overlap("t.>", "t.a"));
        assert!(overlap("t.*", "*.a"));
        assert!(overlap(">", "x.y"));
        assert!(!overlap("t.a", "t.b"));
        assert!(!overlap("t.*", "t.a.b"));
        assert!(!overlap("t.>", "t"));
    }
}
