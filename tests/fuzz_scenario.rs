//! Any text as a scenario file, and any text as `--set`: an error or a scenario, never a panic.
//!
//! As a plain test each runs some random inputs, and the first one its seed corpus in
//! `__fuzz__/scenario_text/corpus` too; `cargo bolero test` goes on for as long as it is let.

use bolero::check;
use tidegate::scenario::{Scenario, config_hash};

/// What holds for every text.
fn parses_or_explains(text: &str) {
    match Scenario::parse("fuzz.toml", text) {
        Ok(scenario) => {
            let again = Scenario::from_settings("fuzz.toml", &scenario.settings);
            let again = again.expect("resolved settings are valid");
            assert_eq!(again.settings, scenario.settings);
            assert_eq!(
                config_hash(&again.settings),
                config_hash(&scenario.settings)
            );
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("fuzz.toml:"), "{message}");
            assert!(!message.contains(char::is_control), "{message:?}");
            let lines = 1 + text.matches('\n').count();
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)));
        }
    }
}

#[test]
fn any_text_parses_or_explains() {
    check!(name = "scenario_text")
        .for_each(|bytes: &[u8]| parses_or_explains(&String::from_utf8_lossy(bytes)));
}

/// Nesting costs stack, and a parser without a limit would overflow it.
#[test]
fn deep_nesting_is_refused() {
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}", "{a = ".repeat(100_000)),
        format!("a{} = 1", ".a".repeat(100_000)),
        format!("[a{}]", ".a".repeat(100_000)),
        "[[a]]\n".repeat(100_000),
    ] {
        parses_or_explains(&text);
    }
}

/// Random bytes are seldom TOML, so this takes a good file and damages it.
#[test]
fn a_damaged_file_parses_or_explains() {
    const GOOD: &str = include_str!("../src/scenario/tests/full.toml");
    check!()
        .with_type::<(u16, u8, String)>()
        .for_each(|(at, length, text)| {
            let start = GOOD.floor_char_boundary(usize::from(*at) % GOOD.len());
            let end = GOOD.floor_char_boundary((start + usize::from(*length)).min(GOOD.len()));
            parses_or_explains(&format!("{}{text}{}", &GOOD[..start], &GOOD[end..]));
        });
}

#[test]
fn any_set_applies_or_explains() {
    const GOOD: &str = include_str!("../src/scenario/tests/full.toml");
    let good = Scenario::parse("fuzz.toml", GOOD).expect("the file is good");
    check!()
        .with_type::<(u8, String)>()
        .for_each(|(key, value)| {
            const KEYS: &[&str] = &[
                "publishers.0.flow",
                "publishers.0.payload.min",
                "publishers.1.payload",
                "publishers.0.pauses",
                "stream.subjects.0",
                "faults.1",
                "server.defects",
                "expect.errors",
                "network",
                "raft.batch_entries",
                "",
            ];
            let key = KEYS[usize::from(*key) % KEYS.len()];
            for change in [
                format!("{key}={value}"),
                format!("{key}.{value}=1"),
                value.clone(),
            ] {
                let mut changed = good.clone();
                if let Err(error) = changed.apply_set(&[change]) {
                    assert!(!error.to_string().contains(char::is_control), "{error:?}");
                    assert_eq!(changed, good);
                }
            }
        });
}
