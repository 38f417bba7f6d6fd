//! The dependency tree is what `deny.toml` allows and what `THIRD-PARTY.md` lists.
//!
//! Reads `cargo metadata`, so it needs no further tool and no network.
//! `TIDEGATE_WRITE_THIRD_PARTY=1 cargo test --test third_party` writes the list anew; `make fix`
//! does that.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

use common::tree::{read, top};

/// The platform whose tree is checked and listed.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// The list of crates stands below this line.
const LIST_STARTS: &str = "<!-- generated from here on: make fix -->\n";

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            PLATFORM,
        ])
        .current_dir(top())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    value[name].as_array().into_iter().flatten().collect()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// What is wrong with the tree, by the rules of `deny.toml`.
fn findings(metadata: &Value, rules: &Value) -> Vec<String> {
    let allowed: BTreeSet<&str> = strings(&rules["licenses"]["allow"]);
    let registries: BTreeSet<&str> = strings(&rules["sources"]["allow-registry"]);
    let banned = list(&rules["bans"], "deny");
    let banned: BTreeSet<&str> = banned.iter().map(|entry| text(entry, "crate")).collect();
    let members: BTreeSet<&str> = strings(&metadata["workspace_members"]);
    let mut findings = Vec::new();
    for package in list(metadata, "packages") {
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        let licence = text(package, "license");
        if !satisfied(licence, &allowed) {
            findings.push(format!("{name}: licence `{licence}` is not allowed"));
        }
        if banned.contains(text(package, "name")) {
            findings.push(format!("{name}: is banned"));
        }
        if members.contains(text(package, "id")) {
            let wild = list(package, "dependencies")
                .into_iter()
                .filter(|one| text(one, "req") == "*");
            findings
                .extend(wild.map(|one| format!("{name}: any version of {}", text(one, "name"))));
            continue;
        }
        let source = text(package, "source");
        let registry = source.strip_prefix("registry+").unwrap_or_default();
        if !registries.contains(registry) {
            findings.push(format!("{name}: comes from `{source}`"));
        }
    }
    findings
}

fn strings(value: &Value) -> BTreeSet<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether the SPDX expression can be met with allowed licences. `/` is an old way to write OR.
fn satisfied(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let met = any_of(&mut words, allowed);
    met && words.is_empty()
}

/// `all_of OR all_of …`; words are taken from the end.
fn any_of(words: &mut Vec<&str>, allowed: &BTreeSet<&str>) -> bool {
    let mut met = all_of(words, allowed);
    while words.last() == Some(&"OR") {
        words.pop();
        met |= all_of(words, allowed);
    }
    met
}

/// `licence AND licence …`
fn all_of(words: &mut Vec<&str>, allowed: &BTreeSet<&str>) -> bool {
    let mut met = licence(words, allowed);
    while words.last() == Some(&"AND") {
        words.pop();
        met &= licence(words, allowed);
    }
    met
}

/// A name, perhaps with an exception, or an expression in parentheses.
fn licence(words: &mut Vec<&str>, allowed: &BTreeSet<&str>) -> bool {
    match words.pop() {
        Some("(") => any_of(words, allowed) & (words.pop() == Some(")")),
        Some(name) if words.last() == Some(&"WITH") => {
            words.pop();
            let exception = words.pop().unwrap_or_default();
            allowed.contains(format!("{name} WITH {exception}").as_str())
        }
        Some(name) => allowed.contains(name),
        None => false,
    }
}

/// Ids of the packages of others that go into the binary: without those for tests and builds only.
fn shipped(metadata: &Value) -> BTreeSet<&str> {
    let resolve = &metadata["resolve"];
    let nodes = list(resolve, "nodes");
    let mut shipped = BTreeSet::new();
    let mut to_visit = vec![text(resolve, "root")];
    while let Some(id) = to_visit.pop() {
        if !shipped.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| text(node, "id") == id).unwrap();
        for dependency in list(node, "deps") {
            // A kind of null is a normal dependency.
            let kinds = list(dependency, "dep_kinds");
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                to_visit.push(text(dependency, "pkg"));
            }
        }
    }
    for own in strings(&metadata["workspace_members"]) {
        shipped.remove(own);
    }
    shipped
}

fn crate_list(metadata: &Value) -> String {
    let shipped = shipped(metadata);
    let mut rows: Vec<[&str; 4]> = list(metadata, "packages")
        .into_iter()
        .filter(|package| shipped.contains(text(package, "id")))
        .map(|package| ["name", "version", "license", "repository"].map(|name| text(package, name)))
        .collect();
    rows.sort_unstable();
    let mut table = "\n| Crate | Version | Licence | Source |\n|---|---|---|---|\n".to_owned();
    for [name, version, licence, repository] in rows {
        writeln!(table, "| {name} | {version} | {licence} | {repository} |").unwrap();
    }
    table
}

fn rules() -> Value {
    toml::from_str(&read("deny.toml")).unwrap()
}

#[test]
fn the_tree_is_what_deny_toml_allows() {
    let metadata = metadata();
    let packages = list(&metadata, "packages");
    assert!(packages.len() > 50, "{}", packages.len());
    let findings = findings(&metadata, &rules());
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    let rules = rules();
    let unused = strings(&rules["licenses"]["allow"])
        .into_iter()
        .filter(|allowed| {
            !packages
                .iter()
                .any(|package| text(package, "license").contains(allowed))
        });
    assert_eq!(
        unused.collect::<Vec<_>>(),
        [""; 0],
        "licences that no crate needs"
    );
}

#[test]
fn the_list_of_crates_is_current() {
    let document = read("THIRD-PARTY.md");
    let (head, _) = document
        .split_once(LIST_STARTS)
        .expect("the mark of the list");
    let wanted = format!("{head}{LIST_STARTS}{}", crate_list(&metadata()));
    if std::env::var_os("TIDEGATE_WRITE_THIRD_PARTY").is_some() {
        std::fs::write(top().join("THIRD-PARTY.md"), &wanted).unwrap();
    }
    assert!(
        read("THIRD-PARTY.md") == wanted,
        "THIRD-PARTY.md is not current; run `make fix` and commit what it changes"
    );
}

/// What in `assets/` was written here.
const OWN_ASSETS: [&str; 3] = ["README.md", "how-to-read.html", "report.css"];

#[test]
fn every_file_of_others_in_the_tree_is_named() {
    let document = read("THIRD-PARTY.md");
    for entry in std::fs::read_dir(top().join("assets"))
        .into_iter()
        .flatten()
    {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if OWN_ASSETS.contains(&name.as_str()) {
            continue;
        }
        assert!(
            document.contains(&name),
            "THIRD-PARTY.md does not say where assets/{name} is from"
        );
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0"]);
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND ISC", true),
        ("MIT AND ISC OR GPL-3.0", true),
        ("GPL-3.0 OR MIT AND LGPL-2.1", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("MIT MIT", false),
        ("(MIT", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn each_rule_objects() {
    let planted = serde_json::json!({
        "workspace_members": ["own"],
        "packages": [
            { "id": "own", "name": "own", "version": "1", "license": "MIT",
              "dependencies": [{ "name": "any", "req": "*" }] },
            { "name": "copyleft", "version": "1", "license": "GPL-3.0",
              "source": "registry+https://github.com/rust-lang/crates.io-index" },
            { "name": "elsewhere", "version": "1", "license": "MIT",
              "source": "git+https://example.org/elsewhere" },
            { "name": "openssl-sys", "version": "1", "license": "MIT",
              "source": "registry+https://github.com/rust-lang/crates.io-index" },
        ],
    });
    assert_eq!(
        findings(&planted, &rules()),
        [
            "own 1: any version of any",
            "copyleft 1: licence `GPL-3.0` is not allowed",
            "elsewhere 1: comes from `git+https://example.org/elsewhere`",
            "openssl-sys 1: is banned",
        ]
    );
}
