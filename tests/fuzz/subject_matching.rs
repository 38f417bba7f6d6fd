//! Target: subjects and filters, against a matcher that tries everything.
//!
//! Leans on `dice` and `nats::subject`.

use tidegate::nats::subject::{check_filter, check_publish, is_literal, matches, overlap};

use crate::dice::Dice;

const TOKENS: &[&str] = &["a", "b", "*", ">", "*", ">", "", "a*", ">b", " "];
/// Enough subjects to tell filters over [`TOKENS`] apart: each token of theirs, and one more.
const WITNESS_TOKENS: &[&str] = &["a", "b", "c", "a*", ">b"];
const TOKENS_MAX: usize = 3;

pub(crate) fn check(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        let (one, other) = text.split_once('\n').unwrap_or((text, text));
        any_pair(one, other);
    }
    let mut dice = Dice::new(input);
    let [one, other] = [subject(&mut dice), subject(&mut dice)];
    any_pair(&one, &other);
    if check_filter(&one).is_ok() && check_filter(&other).is_ok() {
        overlap_has_a_witness(&one, &other);
    }
}

fn subject(dice: &mut Dice<'_>) -> String {
    let tokens: Vec<_> = (0..1 + dice.below(TOKENS_MAX))
        .map(|_| dice.pick(TOKENS))
        .collect();
    tokens.join(".")
}

/// Holds for any two texts.
fn any_pair(filter: &str, subject: &str) {
    let list = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    let valid = |text: &str| {
        list(text)
            .iter()
            .all(|token| !token.is_empty() && !token.contains([' ', '\t', '\r', '\n', '\x0c']))
    };
    let tokens = list(filter);
    let rest_is_last = tokens.iter().rev().skip(1).all(|token| token != ">");
    let wildcards = tokens.iter().any(|token| token == "*" || token == ">");
    assert_eq!(
        check_filter(filter).is_ok(),
        valid(filter) && rest_is_last,
        "{filter:?}"
    );
    assert_eq!(
        check_publish(filter).is_ok(),
        valid(filter) && !wildcards,
        "{filter:?}"
    );
    assert_eq!(is_literal(filter), !wildcards, "{filter:?}");
    let expected = !list(subject).contains(&String::new()) && taken(&tokens, &list(subject));
    assert_eq!(matches(filter, subject), expected, "{filter:?} {subject:?}");
    // Never panics, and asks both alike.
    assert_eq!(overlap(filter, subject), overlap(subject, filter));
}

/// Whether the filter takes the tokens, by the words of the rule.
fn taken(filter: &[String], subject: &[String]) -> bool {
    match (filter, subject) {
        ([], []) => true,
        ([rest], [_, ..]) if rest == ">" => true,
        ([first, filter @ ..], [found, subject @ ..]) => {
            let fits = first == "*" || (first == found && first != ">");
            fits && taken(filter, subject)
        }
        ([], [_, ..]) | ([_, ..], []) => false,
    }
}

/// Filters overlap exactly if one of all subjects is taken by both.
fn overlap_has_a_witness(one: &str, other: &str) {
    let mut subjects: Vec<String> = vec![String::new()];
    let mut witness = None;
    for _ in 0..TOKENS_MAX {
        let longer = subjects.iter().flat_map(|start| {
            WITNESS_TOKENS
                .iter()
                .map(move |token| match start.as_str() {
                    "" => (*token).to_owned(),
                    start => format!("{start}.{token}"),
                })
        });
        subjects = longer.collect();
        let found = subjects
            .iter()
            .find(|subject| matches(one, subject) && matches(other, subject));
        witness = witness.or_else(|| found.cloned());
    }
    assert_eq!(
        overlap(one, other),
        witness.is_some(),
        "{one:?} {other:?} {witness:?}"
    );
}
