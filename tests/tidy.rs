//! House rules that a machine can check: the ladder of floors, banned crates, heads of files,
//! lengths, leftovers, machine paths, scenario and workload files.
//!
//! Sources are parsed with `syn`, so that full paths count as well as `use` lines. Each rule is
//! shown to object to a planted violation at the end of this file.

mod common;

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use common::tree::{files, read, top};

/// The ladder: floors from the ground up. A module uses floors below its own.
const LADDER: &[&[&str]] = &[
    &["machine", "seed", "tournament", "units"],
    &["nats"],
    &["batch", "stream", "server", "net", "raft"],
    &["event", "client"],
    &[
        "scenario", "fault", "modelled", "judge", "load", "measure", "watch",
    ],
    &["sim", "live", "serve", "conform"],
    &["report"],
    &["cli"],
];

/// Which module may use which neighbour on its own floor.
const NEIGHBOURS: &[(&str, &str)] = &[
    ("units", "machine"),
    ("tournament", "machine"),
    ("server", "stream"),
    ("server", "batch"),
    ("server", "net"),
    ("server", "raft"),
    ("stream", "batch"),
    ("client", "event"),
    ("scenario", "judge"),
    ("fault", "scenario"),
    ("modelled", "scenario"),
    ("load", "scenario"),
    ("measure", "scenario"),
    ("watch", "scenario"),
    ("watch", "judge"),
    ("watch", "measure"),
    ("watch", "modelled"),
    ("conform", "live"),
    ("conform", "serve"),
    ("sim", "serve"),
];

/// Crates that the floors below [`FIRST_FREE_FLOOR`] do without.
const BANNED_CRATES: &[&str] = &[
    "tokio",
    "async_nats",
    "turmoil",
    "plotters",
    "clap",
    "jetstream_extra",
];
const FIRST_FREE_FLOOR: usize = 3;
/// Longest file, in lines of code before its tests; blank lines and comments do not count.
const LONGEST_FILE: usize = 400;
/// Macros that say "not done yet" or "left over".
const LEFTOVERS: &[&str] = &["todo", "unimplemented", "dbg"];
/// Where one machine keeps its files: no path of ours begins like that.
const MACHINE_FOLDERS: &[&str] = &["/work", "/root", "/home", "/tmp", "/Users"];

fn floor_of(module: &str) -> Option<usize> {
    LADDER.iter().position(|floor| floor.contains(&module))
}

fn may_use(module: &str, used: &str) -> bool {
    match (floor_of(module), floor_of(used)) {
        (Some(from), Some(to)) => {
            module == used || to < from || NEIGHBOURS.contains(&(module, used))
        }
        _ => false,
    }
}

/// What is wrong where, one line each.
type Findings = Vec<String>;

// -- one source file -------------------------------------------------------------------------

/// Checks one Rust file. `name` is its path from the top of the project, with `/`.
fn check_source(name: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    if !text.starts_with("//!") {
        findings.push(format!("{name}:1: does not open with `//!`"));
    }
    let file = match syn::parse_file(text) {
        Ok(file) => file,
        Err(error) => {
            findings.push(format!("{name}: does not parse: {error}"));
            return findings;
        }
    };
    let lines = lines_before_tests(&file, text);
    if name.starts_with("src/") && !is_test_file(name) && lines > LONGEST_FILE {
        findings.push(format!(
            "{name}: {lines} lines of code before its tests; allowed are {LONGEST_FILE}"
        ));
    }
    let mut visitor = Source {
        name,
        module: module_path(name),
        findings,
    };
    visitor.visit_file(&file);
    visitor.findings
}

/// Whether the whole file is test code.
fn is_test_file(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/") || !name.starts_with("src/")
}

/// `src/nats/ack.rs` is `["nats", "ack"]`; nothing for `lib.rs`, `main.rs` and files outside `src`.
fn module_path(name: &str) -> Vec<String> {
    let Some(path) = name
        .strip_prefix("src/")
        .and_then(|name| name.strip_suffix(".rs"))
    else {
        return Vec::new();
    };
    let mut modules: Vec<String> = path.split('/').map(str::to_owned).collect();
    if modules.last().is_some_and(|last| last == "mod") {
        modules.pop();
    }
    match modules.as_slice() {
        [only] if only == "lib" || only == "main" => Vec::new(),
        _ => modules,
    }
}

/// Lines that hold code, up to the tests.
fn lines_before_tests(file: &syn::File, text: &str) -> usize {
    let tests = file.items.iter().find_map(|item| match item {
        syn::Item::Mod(module) if is_test_only(&module.attrs) && module.content.is_some() => {
            Some(module.span().start().line - 1)
        }
        _ => None,
    });
    text.lines()
        .take(tests.unwrap_or(usize::MAX))
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

/// Walks one file.
struct Source<'a> {
    name: &'a str,
    /// The module that the code at hand is in, from the top of the crate.
    module: Vec<String>,
    findings: Findings,
}

impl Source<'_> {
    fn find(&mut self, line: usize, what: &str) {
        self.findings.push(format!("{}:{line}: {what}", self.name));
    }

    /// Checks a path, given as its first segments.
    fn check_path(&mut self, segments: &[String], line: usize) {
        let Some(own) = self.module.first().cloned() else {
            return;
        };
        // The ladder is that of the library; the crates beside it have none.
        if !self.name.starts_with("src/") {
            return;
        }
        let floor = floor_of(&own);
        if floor.is_none() {
            self.find(line, &format!("`{own}` stands on no floor of the ladder"));
            return;
        }
        if let Some(first) = segments.first()
            && BANNED_CRATES.contains(&first.as_str())
            && floor < Some(FIRST_FREE_FLOOR)
        {
            self.find(
                line,
                &format!("`{own}` uses `{first}`, which is banned below floor 3"),
            );
        }
        let Some(used) = self.module_named_by(segments) else {
            return;
        };
        if floor_of(&used).is_some() && !may_use(&own, &used) {
            self.find(line, &format!("`{own}` uses `{used}`, against the ladder"));
        }
    }

    /// The top module that a path leads into, with `crate`, `self` and `super` resolved.
    fn module_named_by(&self, segments: &[String]) -> Option<String> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" | "tidegate" => rest.first().cloned(),
            "self" | "super" => {
                let ups = segments
                    .iter()
                    .take_while(|segment| *segment == "super")
                    .count();
                let names = segments
                    .iter()
                    .find(|segment| !matches!(segment.as_str(), "super" | "self"));
                match self.module.len().checked_sub(ups)? {
                    0 => names.cloned(),
                    _ => self.module.first().cloned(),
                }
            }
            _ => None,
        }
    }

    fn check_use(&mut self, tree: &syn::UseTree, path: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.check_use(&step.tree, path);
                path.pop();
            }
            syn::UseTree::Name(name) => self.check_used_name(&name.ident, path),
            syn::UseTree::Rename(name) => self.check_used_name(&name.ident, path),
            syn::UseTree::Glob(glob) => {
                self.check_path(&path.clone(), glob.span().start().line);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.check_use(tree, path);
                }
            }
        }
    }

    fn check_used_name(&mut self, name: &syn::Ident, path: &mut Vec<String>) {
        path.push(name.to_string());
        self.check_path(&path.clone(), name.span().start().line);
        path.pop();
    }

    /// Macro bodies are tokens, not syntax: paths, texts and macros in them count all the same.
    fn check_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut line = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(word) if colons == 2 => path.push(word.to_string()),
                TokenTree::Ident(word) => {
                    self.check_path(&path, line);
                    line = word.span().start().line;
                    path = vec![word.to_string()];
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Punct(mark) => {
                    if mark.as_char() == '!' {
                        self.check_macro_name(path.last().map_or("", String::as_str), line);
                    }
                    self.check_path(&path, line);
                    path.clear();
                }
                TokenTree::Group(group) => {
                    self.check_path(&path, line);
                    path.clear();
                    self.check_tokens(group.stream());
                }
                TokenTree::Literal(literal) => {
                    self.check_path(&path, line);
                    path.clear();
                    self.check_text(&literal.to_string(), literal.span().start().line);
                }
            }
            colons = 0;
        }
        self.check_path(&path, line);
    }

    fn check_macro_name(&mut self, name: &str, line: usize) {
        if LEFTOVERS.contains(&name) {
            self.find(line, &format!("`{name}!` is left over"));
        }
    }

    fn check_text(&mut self, text: &str, line: usize) {
        for folder in machine_folders(text) {
            self.find(line, &format!("`{folder}` is a path of one machine"));
        }
    }
}

/// Machine folders that `text` names as a folder or below it.
fn machine_folders(text: &str) -> Vec<&'static str> {
    let names = |folder: &&&str| {
        text.match_indices(**folder).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + folder.len()..].chars().next();
            let starts = before.is_none_or(|c| !(c.is_alphanumeric() || "._-/}".contains(c)));
            let ends = after.is_none_or(|c| !(c.is_alphanumeric() || "._-".contains(c)));
            starts && ends
        })
    };
    MACHINE_FOLDERS.iter().filter(names).copied().collect()
}

impl<'ast> Visit<'ast> for Source<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        syn::visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.check_use(&item.tree, &mut Vec::new());
        syn::visit::visit_item_use(self, item);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.check_path(&[item.ident.to_string()], item.span().start().line);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if segments.len() > 1 {
            self.check_path(&segments, path.span().start().line);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call
            .path
            .segments
            .last()
            .map(|segment| segment.ident.to_string());
        let name = name.unwrap_or_default();
        let line = call.span().start().line;
        self.check_macro_name(&name, line);
        let first = call
            .tokens
            .clone()
            .into_iter()
            .next()
            .map(|token| token.to_string());
        if name == "select" && first.as_deref() != Some("biased") {
            self.find(line, "`select!` is not `biased`");
        }
        self.check_tokens(call.tokens.clone());
        syn::visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // Docs may speak of folders; other attributes hold paths that the macros turn into code.
        if !attribute.path().is_ident("doc")
            && let syn::Meta::List(list) = &attribute.meta
        {
            self.check_tokens(list.tokens.clone());
        }
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.check_text(&text.value(), text.span().start().line);
    }
}

// -- the whole tree --------------------------------------------------------------------------

fn sources() -> Vec<String> {
    let folders = ["src", "tests", "benches", "examples", "crates"];
    folders
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .collect()
}

#[test]
fn every_source_file_keeps_the_house_rules() {
    let sources = sources();
    assert!(sources.len() > 30, "{}", sources.len());
    let findings: Findings = sources
        .iter()
        .filter(|name| *name != "tests/tidy.rs")
        .flat_map(|name| check_source(name, &read(name)))
        .collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn the_ladder_and_the_crate_name_the_same_modules() {
    let library = syn::parse_file(&read("src/lib.rs")).unwrap();
    let modules = library.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    });
    let modules: BTreeSet<String> = modules.collect();
    let ladder: BTreeSet<String> = LADDER.concat().iter().map(ToString::to_string).collect();
    assert_eq!(modules, ladder);
    for (from, to) in NEIGHBOURS {
        assert_eq!(
            floor_of(from),
            floor_of(to),
            "{from} and {to} are no neighbours"
        );
    }
}

/// Checks a scenario or workload file: it parses, and its first key says what it is about.
fn check_scenario(name: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    let workload = name.starts_with("workloads/");
    match tidegate::scenario::Scenario::parse(name, text) {
        Err(error) => findings.push(error.to_string()),
        Ok(scenario) if workload => {
            findings.extend(
                scenario
                    .check_live(tidegate::scenario::LiveServers::Own(3), true)
                    .err()
                    .map(|error| error.to_string()),
            );
        }
        Ok(_) => {}
    }
    if !text.starts_with("about = ") {
        findings.push(format!("{name}:1: the first line is not `about`"));
    }
    if !text.lines().any(|line| line.starts_with("# clause: ")) && !workload {
        findings.push(format!(
            "{name}: no `# clause: ` comment names what it is about"
        ));
    }
    findings
}

#[test]
fn every_scenario_and_workload_parses_and_says_what_it_is_about() {
    let scenarios = files("sims", "toml");
    assert!(!scenarios.is_empty());
    let workloads = files("workloads", "toml");
    let findings: Findings = scenarios
        .iter()
        .chain(&workloads)
        .flat_map(|name| check_scenario(name, &read(name)))
        .collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn no_document_or_configuration_names_a_path_of_one_machine() {
    let top_files = std::fs::read_dir(top())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let top_files = top_files
        .filter(|path| path.is_file())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| name.ends_with(".md") || name.ends_with(".toml") || name == "Makefile");
    let mut names: Vec<String> = top_files.collect();
    for folder in ["docs", "sims", "workloads", "results", ".ci"] {
        for extension in ["md", "toml", "json"] {
            names.extend(files(folder, extension));
        }
    }
    names.push(".ci/run".to_owned());
    assert!(names.len() > 10, "{names:?}");
    let findings: Vec<String> = names
        .iter()
        .flat_map(|name| {
            let folders = machine_folders(&read(name));
            folders
                .into_iter()
                .map(move |folder| format!("{name}: {folder}"))
        })
        .collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Paths in backticks, or behind a link, that begin with one of our folders or are a top document.
fn paths_named(document: &str) -> BTreeSet<String> {
    const FOLDERS: &[&str] = &[
        "src/",
        "tests/",
        "sims/",
        "workloads/",
        "docs/",
        "assets/",
        "benches/",
    ];
    document
        .split(['`', '(', ')', ' ', '\n', ','])
        .map(|word| word.trim_end_matches([':', ';', '.']))
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| !word.contains('*'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_path_that_a_document_names_is_there() {
    let mut missing = Vec::new();
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "THIRD-PARTY.md",
        "NOTICE",
    ] {
        let gone = paths_named(&read(name))
            .into_iter()
            .filter(|path| !top().join(path).exists());
        missing.extend(gone.map(|path| format!("{name}: {path}")));
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

// -- every rule objects ----------------------------------------------------------------------

/// The findings in `code`, as file `name` with a good head.
fn planted(name: &str, code: &str) -> Findings {
    check_source(name, &format!("//! Planted.\n{code}\n"))
}

#[test]
fn a_step_up_the_ladder_is_found() {
    let against = |module: &str, used: &str| {
        format!(
            "src/{module}:2: `{}` uses `{used}`, against the ladder",
            module.split(['/', '.']).next().unwrap()
        )
    };
    for (name, code, used) in [
        ("nats/ack.rs", "use crate::event::Event;", "event"),
        (
            "nats/ack.rs",
            "use crate::{machine::Time, event::Event};",
            "event",
        ),
        (
            "nats/ack.rs",
            "use super::super::event::Event as E;",
            "event",
        ),
        ("nats/mod.rs", "use super::batch::*;", "batch"),
        ("nats/ack.rs", "fn f() { crate::stream::open(); }", "stream"),
        (
            "nats/ack.rs",
            "type A = Option<crate::server::Node>;",
            "server",
        ),
        (
            "nats/ack.rs",
            "fn f() { println!(\"{}\", crate::sim::NAME); }",
            "sim",
        ),
        (
            "nats/ack.rs",
            "fn f() { vec![1, super::super::live::ONE]; }",
            "live",
        ),
        (
            "nats/ack.rs",
            "mod inner { use super::super::super::cli::main; }",
            "cli",
        ),
        ("nats/ack.rs", "pub use crate::report;", "report"),
        ("batch/fast/window.rs", "use crate::net::link::Link;", "net"),
        ("stream/mod.rs", "use crate::server::Action;", "server"),
        ("net/link.rs", "use crate::batch::Window;", "batch"),
        ("event/mod.rs", "use crate::client::Client;", "client"),
        ("judge/mod.rs", "use crate::scenario::Settings;", "scenario"),
        ("measure/mod.rs", "use crate::judge::NAMES;", "judge"),
        ("sim/mod.rs", "use crate::live::Target;", "live"),
        ("live/mod.rs", "use crate::sim::World;", "sim"),
        ("live/mod.rs", "use crate::conform::Runner;", "conform"),
        ("sim/mod.rs", "use crate::cli::Failure;", "cli"),
        (
            "nats/ack.rs",
            "impl Tell for crate::judge::Judge {}",
            "judge",
        ),
    ] {
        let findings = planted(&format!("src/{name}"), code);
        assert!(
            findings.contains(&against(name, used)),
            "{code}: {findings:?}"
        );
    }
}

#[test]
fn steps_down_and_allowed_neighbours_are_not_found() {
    for (name, code) in [
        (
            "nats/ack.rs",
            "use crate::machine::Time; use super::BatchSequence; use self::inner::A;",
        ),
        (
            "nats/ack.rs",
            "mod inner { use super::super::BatchSequence; }",
        ),
        (
            "server/mod.rs",
            "use crate::stream::Stream; use crate::batch::Batch; use crate::net::disk::Disk;",
        ),
        (
            "client/mod.rs",
            "use crate::event::Event; use tokio::time::Sleep;",
        ),
        ("scenario/check.rs", "use crate::judge::Judges;"),
        ("conform/mod.rs", "use crate::live::Fleet;"),
        (
            "cli/mod.rs",
            "use crate::sim::World; use crate::live::Fleet; use clap::Parser;",
        ),
        ("lib.rs", "pub mod machine; pub mod cli;"),
        ("main.rs", "fn main() { tidegate::cli::main(); }"),
    ] {
        assert_eq!(planted(&format!("src/{name}"), code), [""; 0], "{code}");
    }
}

#[test]
fn a_banned_crate_is_found_below_its_floor_only() {
    for code in [
        "use tokio::net::TcpStream;",
        "use tokio;",
        "extern crate tokio;",
        "fn f() { tokio::spawn(async {}); }",
        "fn f() { assert!(tokio::runtime::Handle::try_current().is_ok()); }",
    ] {
        let expected = "src/batch/mod.rs:2: `batch` uses `tokio`, which is banned below floor 3";
        let findings = planted("src/batch/mod.rs", code);
        assert!(
            findings.iter().any(|found| found == expected),
            "{code}: {findings:?}"
        );
        assert_eq!(planted("src/client/mod.rs", code), [""; 0]);
    }
    for name in BANNED_CRATES {
        assert_eq!(planted("src/units.rs", &format!("use {name}::X;")).len(), 1);
    }
}

#[test]
fn a_module_without_a_floor_is_found() {
    let findings = planted("src/helpers.rs", "use std::fmt;");
    assert_eq!(
        findings,
        ["src/helpers.rs:2: `helpers` stands on no floor of the ladder"]
    );
}

#[test]
fn a_missing_head_and_a_long_file_are_found() {
    assert_eq!(
        check_source("src/units.rs", "// comment\nfn f() {}\n"),
        ["src/units.rs:1: does not open with `//!`"]
    );
    assert_eq!(check_source("tests/x.rs", "fn f() {}\n").len(), 1);
    assert!(check_source("src/units.rs", "//! Head.\nfn f( {}\n")[0].contains("does not parse"));
    let long = "/// Docs.\nfn f() {}\n\n".repeat(LONGEST_FILE);
    assert_eq!(
        check_source("src/units.rs", &format!("//! Head.\n{long}")),
        [""; 0]
    );
    let tests = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n";
    assert_eq!(
        check_source("src/units.rs", &format!("//! Head.\n{long}{tests}")),
        [""; 0]
    );
    assert_eq!(
        check_source(
            "src/units.rs",
            &format!("//! Head.\n{long}fn f() {{}}\n{tests}")
        ),
        ["src/units.rs: 401 lines of code before its tests; allowed are 400"]
    );
}

#[test]
fn leftovers_and_unbiased_selects_are_found() {
    for code in [
        "fn f() { todo!() }",
        "fn f() { unimplemented!(\"later\"); }",
        "fn f() { let x = dbg!(1); }",
        "fn f() { println!(\"{}\", dbg!(1)); }",
        "#[cfg(test)] mod tests { fn f() { std::todo!() } }",
    ] {
        let findings = planted("src/units.rs", code);
        assert_eq!(findings.len(), 1, "{code}: {findings:?}");
        assert!(findings[0].ends_with("is left over"));
    }
    let select = |body: &str| {
        planted(
            "src/live/mod.rs",
            &format!("async fn f() {{ tokio::select! {{ {body} }} }}"),
        )
    };
    assert_eq!(
        select("a = b => {}"),
        ["src/live/mod.rs:2: `select!` is not `biased`"]
    );
    assert_eq!(select("biased; a = b => {}"), [""; 0]);
}

#[test]
fn paths_of_one_machine_are_found() {
    for folder in MACHINE_FOLDERS {
        for code in [
            format!("const P: &str = \"{folder}\";"),
            format!("fn f() {{ open(\"{folder}/file\"); }}"),
            format!("fn f() {{ println!(\"see {folder}/file\"); }}"),
            format!("const P: &str = r\"x={folder}/y\";"),
        ] {
            let findings = planted("src/units.rs", &code);
            assert_eq!(findings.len(), 1, "{code}: {findings:?}");
        }
        for code in [
            format!("const P: &str = \"a{folder}\";"),
            format!("const P: &str = \"{folder}loads/x.toml\";"),
        ] {
            assert_eq!(planted("src/units.rs", &code), [""; 0], "{code}");
        }
    }
}

#[test]
fn a_bad_scenario_file_is_found() {
    let good = "about = \"x\"\n# clause: ADR-50, \"Flow Control\"\nformat = 1\n[[publishers]]\n";
    assert_eq!(check_scenario("sims/x.toml", good), [""; 0]);
    let moved = format!("seed = 1\n{good}");
    assert_eq!(
        check_scenario("sims/x.toml", &moved),
        ["sims/x.toml:1: the first line is not `about`"]
    );
    let wrong = good.replace("format = 1", "format = 9");
    assert!(check_scenario("sims/x.toml", &wrong)[0].starts_with("sims/x.toml:3: format: "));
    let silent = good.replace("# clause", "# note");
    assert_eq!(check_scenario("sims/x.toml", &silent).len(), 1);
    let modelled = format!("{good}[network]\n");
    assert_eq!(check_scenario("sims/x.toml", &modelled), [""; 0]);
    assert!(check_scenario("workloads/x.toml", &modelled)[0].contains("simulator only"));
}

#[test]
fn paths_in_documents_are_found() {
    let named = paths_named("See `src/nats/`, [x](docs/x.md), sims/nats/*.toml and `tests/y.rs`.");
    assert_eq!(
        Vec::from_iter(named),
        ["docs/x.md", "src/nats/", "tests/y.rs"]
    );
}
