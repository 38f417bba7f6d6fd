//! `docs/adr-50.md` lists the clauses of ADR-50 with what guards each: whatever it names is there,
//! and every clause that a source, a judge or a scenario names is in the list.
//!
//! Sources are parsed with `syn`. Each rule is shown to object at the end of this file.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use syn::visit::Visit;
use tidegate::judge::Judges;

use common::known::tests_of;
use common::tree::{files, read, top};

/// The list.
const LIST: &str = "docs/adr-50.md";
/// How the table of clauses begins, in each section.
const HEADER: &str = "| Id | Who | What it demands | Guarded by | Recordings and differences |";
/// What the ids of all clauses begin with.
const AREAS: &[&str] = &["atomic", "fast", "stream"];
/// Before the ids that a comment names: `ADR-50 [id, id]`.
const MARK: &str = "ADR-50 [";
/// The recordings that are replayed against the model.
const REPLAYED: &str = "tests/vectors/r1-2.15.1.json";

/// What is wrong where, one line each.
type Findings = Vec<String>;
/// Ids that a named thing claims.
type Claims = BTreeMap<String, BTreeSet<String>>;

// -- the list ---------------------------------------------------------------------------------

/// A clause.
struct Clause {
    line: usize,
    id: String,
    /// What stands under "Guarded by".
    guards: Vec<String>,
}

/// Reads the clauses of the list.
fn read_list(text: &str, findings: &mut Findings) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let mut in_table = false;
    for (line, row) in (1..).zip(text.lines()) {
        in_table = row == HEADER || (in_table && row.starts_with('|'));
        if !in_table || row == HEADER || row.starts_with("|---") {
            continue;
        }
        match read_row(line, row) {
            Ok(clause) => clauses.push(clause),
            Err(what) => findings.push(format!("{LIST}:{line}: {what}")),
        }
    }
    clauses
}

fn read_row(line: usize, row: &str) -> Result<Clause, String> {
    let inner = row.strip_prefix("| ").and_then(|row| row.strip_suffix('|'));
    let cells: Vec<&str> = inner.unwrap_or("").split('|').map(str::trim).collect();
    let [id, who, demand, guarded, _] = cells[..] else {
        return Err(format!("{} cells; there are 5", cells.len()));
    };
    let id = id.trim_matches('`');
    if !is_well_formed(id) {
        return Err(format!("`{id}` is no id"));
    }
    if !["server", "client", "both"].contains(&who) {
        return Err(format!("`{who}` is neither server, client nor both"));
    }
    if demand.is_empty() {
        return Err(format!("{id} demands nothing"));
    }
    let guards = match guarded.strip_prefix("none:") {
        Some(reason) if reason.trim().len() < 10 => {
            return Err(format!("{id} has no guard, and no reason for it"));
        }
        Some(_) => Vec::new(),
        None => guarded.split(", ").map(str::to_owned).collect(),
    };
    let unquoted = guards.iter().find(|guard| quoted(guard).len() != 1);
    if let Some(guard) = unquoted {
        return Err(format!(
            "the guard {guard:?} of {id} is not one name in backticks"
        ));
    }
    let guards = guards
        .iter()
        .map(|guard| guard.trim_matches('`').to_owned());
    Ok(Clause {
        line,
        id: id.to_owned(),
        guards: guards.collect(),
    })
}

/// An area and one or more words, each of small letters, digits and single dashes.
fn is_well_formed(id: &str) -> bool {
    let word = |word: &str| {
        let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        word.split('-')
            .all(|part| !part.is_empty() && part.chars().all(small))
    };
    let mut words = id.split('.');
    let area = words.next().is_some_and(|area| AREAS.contains(&area));
    area && id.contains('.') && words.all(word)
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

// -- what there is ----------------------------------------------------------------------------

/// What the list may name, and who names clauses.
#[derive(Clone, Default)]
struct Known {
    /// Tests that run, with the clauses that their documentation names.
    tests: Claims,
    scenarios: Claims,
    judges: Claims,
    /// All recorded exchanges.
    cases: BTreeSet<String>,
    /// Those that are replayed against the model.
    replayed: BTreeSet<String>,
    /// Other places that name a clause: the place, and the id.
    mentions: Vec<(String, String)>,
}

/// The ids of every `ADR-50 [id, id]` in `text`; a list may go on behind the next line's comment
/// sign.
fn marked(text: &str) -> BTreeSet<String> {
    let lists = text.split(MARK).skip(1).map(|rest| {
        let end = rest.find(']').unwrap_or(rest.len());
        &rest[..end]
    });
    let ids = lists.flat_map(|list| list.split(','));
    ids.map(|id| id.trim_matches(|c: char| c.is_whitespace() || "/!#".contains(c)))
        .map(str::to_owned)
        .collect()
}

/// The ids that a `clause` of results begins with: `id, id: words`.
fn leading(clause: &str) -> BTreeSet<String> {
    let ids = clause.split(':').next().unwrap_or_default();
    ids.split(',').map(|id| id.trim().to_owned()).collect()
}

/// Takes in one Rust file. `name` is its path from the top of the project, with `/`.
fn learn_source(known: &mut Known, name: &str, text: &str) {
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let tests = tests_of(name, &file).into_iter();
    let claims = tests.map(|(test, attributes)| (test, marked(&documentation(&attributes))));
    known.tests.extend(claims);
    Source { known, name }.visit_file(&file);
    let ids = marked(text).into_iter();
    known.mentions.extend(ids.map(|id| (name.to_owned(), id)));
}

/// Walks one file.
struct Source<'a> {
    known: &'a mut Known,
    name: &'a str,
}

impl<'ast> Visit<'ast> for Source<'_> {
    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let of_judge = block.trait_.as_ref().is_some_and(|(_, path, _)| {
            let last = path.segments.last();
            last.is_some_and(|segment| segment.ident == "Judge")
        });
        if of_judge {
            let text = |wanted: &str| {
                block.items.iter().find_map(|item| match item {
                    syn::ImplItem::Const(item) if item.ident == wanted => text_of(&item.expr),
                    _ => None,
                })
            };
            let (judge, clause) = (text("NAME").unwrap(), text("CLAUSE").unwrap());
            self.known.judges.insert(judge, leading(&clause));
        }
        syn::visit::visit_item_impl(self, block);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if let Some(clause) = text_of(&item.expr)
            && self.name.starts_with("src/")
            && item.ident.to_string().ends_with("CLAUSE")
        {
            let ids = leading(&clause).into_iter();
            let named = ids.map(|id| (self.name.to_owned(), id));
            self.known.mentions.extend(named);
        }
    }
}

fn text_of(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

fn documentation(attributes: &[syn::Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(line) if line.path.is_ident("doc") => text_of(&line.value),
            _ => None,
        });
    lines.collect()
}

/// Takes in a scenario: the clauses in its `# clause:` comments.
fn learn_scenario(known: &mut Known, name: &str, text: &str) {
    let lines = text.lines().filter(|line| line.starts_with("# clause: "));
    let ids = lines.flat_map(marked).collect();
    known.scenarios.insert(name.to_owned(), ids);
}

/// Takes in a file of recorded exchanges.
fn learn_recordings(known: &mut Known, name: &str, text: &str) {
    let file: Value = serde_json::from_str(text).unwrap();
    for case in file["cases"].as_array().unwrap() {
        let case = case["name"].as_str().unwrap().to_owned();
        // The rest is about direct gets.
        if name == REPLAYED && !case.starts_with("dg-") {
            known.replayed.insert(case.clone());
        }
        known.cases.insert(case);
    }
}

// -- the rules --------------------------------------------------------------------------------

/// Holds the list to what there is, and what there is to the list.
fn check(list: &str, known: &Known) -> Findings {
    let mut findings = Findings::new();
    let clauses = read_list(list, &mut findings);
    let mut by_id: BTreeMap<&str, &Clause> = BTreeMap::new();
    for clause in &clauses {
        if let Some(first) = by_id.insert(&clause.id, clause) {
            let (line, id) = (clause.line, &clause.id);
            findings.push(format!(
                "{LIST}:{line}: {id} is there twice, see line {}",
                first.line
            ));
        }
        for guard in &clause.guards {
            if !is_guard(guard, known) {
                let (line, id) = (clause.line, &clause.id);
                findings.push(format!(
                    "{LIST}:{line}: {id} is guarded by `{guard}`, which is not there"
                ));
            }
        }
    }
    let has = |id: &str| by_id.contains_key(id);
    for (line, row) in (1..)
        .zip(list.lines())
        .filter(|(_, row)| row.starts_with('|'))
    {
        for name in quoted(row)
            .into_iter()
            .filter(|name| !is_there(name, known, has))
        {
            findings.push(format!("{LIST}:{line}: `{name}` is not there"));
        }
    }
    for (place, id) in known.mentions.iter().filter(|(_, id)| !has(id)) {
        findings.push(format!(
            "{place}: names the clause {id:?}, which is not in {LIST}"
        ));
    }
    let lists = |id: &str, guard: &str| {
        let guards = by_id.get(id).map(|clause| &clause.guards);
        guards.is_some_and(|guards| guards.iter().any(|listed| listed == guard))
    };
    for (guard, ids) in claims(known) {
        for id in ids.iter().filter(|id| !lists(id, &guard)) {
            findings.push(format!(
                "{guard}: names the clause {id:?}, whose row does not list it"
            ));
        }
    }
    findings.extend(unanswered(&clauses, known));
    findings
}

/// Everything that claims clauses, under the name that the list gives it.
fn claims(known: &Known) -> Vec<(String, &BTreeSet<String>)> {
    let judges = known
        .judges
        .iter()
        .map(|(judge, ids)| (format!("judge/{judge}"), ids));
    let others = known.tests.iter().chain(&known.scenarios);
    judges
        .chain(others.map(|(name, ids)| (name.clone(), ids)))
        .collect()
}

/// Scenarios and judges that a row lists and that do not name its clause, or name none at all.
fn unanswered(clauses: &[Clause], known: &Known) -> Findings {
    let mut findings = Findings::new();
    let judges = known
        .judges
        .iter()
        .map(|(judge, ids)| (format!("judge/{judge}"), ids));
    let scenarios = known
        .scenarios
        .iter()
        .map(|(name, ids)| (name.clone(), ids));
    for (name, ids) in judges.chain(scenarios) {
        if ids.is_empty() {
            findings.push(format!("{name}: names no clause"));
        }
        let listing = clauses
            .iter()
            .filter(|clause| clause.guards.contains(&name));
        for clause in listing.filter(|clause| !ids.contains(&clause.id)) {
            let (line, id) = (clause.line, &clause.id);
            findings.push(format!(
                "{LIST}:{line}: {id} lists {name}, which does not name it"
            ));
        }
    }
    findings
}

fn is_guard(name: &str, known: &Known) -> bool {
    match name.strip_prefix("judge/") {
        Some(judge) => known.judges.contains_key(judge),
        None => {
            known.tests.contains_key(name)
                || known.scenarios.contains_key(name)
                || known.replayed.contains(name)
        }
    }
}

/// Whether a name in a row, if it is one that can be looked up, is that of something.
fn is_there(name: &str, known: &Known, has: impl Fn(&str) -> bool) -> bool {
    let is_case = ["fi-", "at-", "dg-"]
        .iter()
        .any(|kind| name.starts_with(kind));
    let area = name.split_once('.').map(|(area, _)| area);
    if is_case {
        known.cases.contains(name)
    } else if name.contains("::") {
        known.tests.contains_key(name)
    } else if name.starts_with("sims/") {
        known.scenarios.contains_key(name)
    } else if ["src/", "tests/", "docs/"]
        .iter()
        .any(|folder| name.starts_with(folder))
    {
        top().join(name).exists()
    } else if area.is_some_and(|area| AREAS.contains(&area)) {
        has(name)
    } else {
        true
    }
}

// -- the whole tree ---------------------------------------------------------------------------

fn tree() -> Known {
    let mut known = Known::default();
    for folder in ["src", "tests", "benches"] {
        // This file plants wrong ids.
        for name in files(folder, "rs")
            .iter()
            .filter(|name| *name != "tests/clauses.rs")
        {
            learn_source(&mut known, name, &read(name));
        }
    }
    for name in files("sims", "toml") {
        learn_scenario(&mut known, &name, &read(&name));
    }
    for name in files("tests/vectors", "json") {
        learn_recordings(&mut known, &name, &read(&name));
    }
    for name in [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "README.md",
        "docs/scenarios.md",
    ] {
        let ids = marked(&read(name)).into_iter();
        known.mentions.extend(ids.map(|id| (name.to_owned(), id)));
    }
    known
}

#[test]
fn every_clause_is_guarded_or_says_why_not() {
    let known = tree();
    let findings = check(&read(LIST), &known);
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// The tree is read as it is meant: nothing of it is overlooked.
#[test]
fn the_tree_is_read_whole() {
    let known = tree();
    let judges: Vec<&str> = known.judges.keys().map(String::as_str).collect();
    let mut names = Judges::OF_EVENTS;
    names.sort_unstable();
    assert_eq!(judges, names);
    assert!(known.tests.len() > 300, "{}", known.tests.len());
    assert!(known.scenarios.len() > 12, "{}", known.scenarios.len());
    assert_eq!(known.replayed.len(), 172);
    let clauses = read_list(&read(LIST), &mut Findings::new());
    assert!(clauses.len() > 100, "{}", clauses.len());
    let rows = read(LIST)
        .lines()
        .filter(|line| line.starts_with("| `"))
        .count();
    assert_eq!(clauses.len(), rows, "a table with another header");
}

// -- every rule objects -----------------------------------------------------------------------

const GOOD: &str = "\
# Clauses

| Id | Who | What it demands | Guarded by | Recordings and differences |
|---|---|---|---|---|
| `fast.gap.fail` | server | A gap ends the batch. | `batch::tests::a_gap_ends`, `judge/order`, `sims/gap.toml`, `fi-gap` | `dg-gap` |
| `atomic.gap` | both | The same. | none: not modelled yet | See `fast.gap.fail`. |
";

fn small() -> Known {
    let mut known = Known::default();
    let source = "
        const OTHER_CLAUSE: &str = \"atomic.gap: words\";
        impl Judge for Order {
            const NAME: &'static str = \"order\";
            const CLAUSE: &'static str = \"fast.gap.fail: words\";
        }
        mod tests {
            /// ADR-50 [fast.gap.fail]
            #[test]
            fn a_gap_ends() {}
            #[test]
            #[ignore]
            fn nobody_runs_this() {}
            fn no_test() {}
        }";
    learn_source(&mut known, "src/batch/mod.rs", source);
    learn_scenario(
        &mut known,
        "sims/gap.toml",
        "# clause: ADR-50 [fast.gap.fail]: x\n",
    );
    let cases = |names: &[&str]| {
        let cases: Vec<Value> = names
            .iter()
            .map(|name| serde_json::json!({ "name": name }))
            .collect();
        serde_json::json!({ "cases": cases }).to_string()
    };
    learn_recordings(&mut known, REPLAYED, &cases(&["fi-gap", "dg-gap"]));
    learn_recordings(&mut known, "tests/vectors/r3.json", &cases(&["fi-leader"]));
    known
}

#[test]
fn a_good_list_is_not_objected_to() {
    assert_eq!(check(GOOD, &small()), [""; 0]);
    let named: Vec<String> = small().tests.into_keys().collect();
    assert_eq!(named, ["batch::tests::a_gap_ends"]);
}

#[test]
fn wrong_rows_are_found() {
    for (right, wrong, expected) in [
        (
            "`atomic.gap`",
            "`fast.gap.fail`",
            "fast.gap.fail is there twice, see line 5",
        ),
        ("`atomic.gap`", "`Atomic.gap`", "`Atomic.gap` is no id"),
        ("`atomic.gap`", "`slow.gap`", "`slow.gap` is no id"),
        ("`atomic.gap`", "`atomic`", "`atomic` is no id"),
        (
            "`atomic.gap`",
            "`atomic.gap--x`",
            "`atomic.gap--x` is no id",
        ),
        (
            "| both |",
            "| nobody |",
            "`nobody` is neither server, client nor both",
        ),
        ("| The same. |", "|  |", "atomic.gap demands nothing"),
        (
            "none: not modelled yet",
            "none:",
            "atomic.gap has no guard, and no reason for it",
        ),
        ("none: not modelled yet", "", "is not one name in backticks"),
        (
            "none: not modelled yet",
            "later",
            "is not one name in backticks",
        ),
        ("| both |", "| both | x |", "6 cells; there are 5"),
        (
            "a_gap_ends",
            "a_gap_stays",
            "guarded by `batch::tests::a_gap_stays`, which is not there",
        ),
        (
            "a_gap_ends",
            "no_test",
            "guarded by `batch::tests::no_test`, which is not there",
        ),
        (
            "a_gap_ends",
            "nobody_runs_this",
            "guarded by `batch::tests::nobody_runs_this`",
        ),
        (
            "judge/order",
            "judge/peace",
            "guarded by `judge/peace`, which is not there",
        ),
        (
            "sims/gap.toml",
            "sims/gone.toml",
            "guarded by `sims/gone.toml`, which is not there",
        ),
        (
            "`fi-gap`",
            "`fi-gone`",
            "guarded by `fi-gone`, which is not there",
        ),
        // Recorded, and not replayed against the model.
        (
            "`fi-gap`",
            "`fi-leader`",
            "guarded by `fi-leader`, which is not there",
        ),
        (
            "`fi-gap`",
            "`dg-gap`",
            "guarded by `dg-gap`, which is not there",
        ),
        ("| `dg-gap` |", "| `dg-gone` |", "`dg-gone` is not there"),
        (
            "See `fast.gap.fail`",
            "See `fast.gap.gone`",
            "`fast.gap.gone` is not there",
        ),
        (
            "See `fast.gap.fail`",
            "See `src/gone.rs`",
            "`src/gone.rs` is not there",
        ),
        (
            "See `fast.gap.fail`",
            "See `a::tests::b`",
            "`a::tests::b` is not there",
        ),
    ] {
        let list = GOOD.replacen(right, wrong, 1);
        assert_ne!(list, GOOD, "{right}");
        let findings = check(&list, &small());
        assert!(
            findings.iter().any(|found| found.contains(expected)),
            "{wrong}: {findings:?}"
        );
    }
}

#[test]
fn ids_that_are_not_in_the_list_are_found() {
    let expect = |known: &Known, expected: &str| {
        let findings = check(GOOD, known);
        assert!(
            findings.iter().any(|found| found.contains(expected)),
            "{expected}: {findings:?}"
        );
    };
    let mut known = small();
    let comment = "// As ADR-50 [fast.gap.fail,\n// fast.gap.typo] demands.\n";
    learn_source(&mut known, "src/x.rs", comment);
    expect(
        &known,
        "src/x.rs: names the clause \"fast.gap.typo\", which is not in",
    );
    let mut known = small();
    learn_source(
        &mut known,
        "src/x.rs",
        "const A_CLAUSE: &str = \"some words\";",
    );
    expect(&known, "src/x.rs: names the clause \"some words\"");
    let mut known = small();
    learn_scenario(
        &mut known,
        "sims/x.toml",
        "# clause: ADR-50 [fast.typo]: x\n",
    );
    expect(&known, "sims/x.toml: names the clause \"fast.typo\"");
}

#[test]
fn what_names_a_clause_and_is_not_in_its_row_is_found() {
    for (gone, who) in [
        ("`batch::tests::a_gap_ends`, ", "batch::tests::a_gap_ends"),
        ("`judge/order`, ", "judge/order"),
        ("`sims/gap.toml`, ", "sims/gap.toml"),
    ] {
        let findings = check(&GOOD.replace(gone, ""), &small());
        let expected =
            format!("{who}: names the clause \"fast.gap.fail\", whose row does not list it");
        assert_eq!(findings, [expected]);
    }
}

#[test]
fn what_is_in_a_row_and_does_not_name_its_clause_is_found() {
    for guard in ["judge/order", "sims/gap.toml"] {
        let list = GOOD.replace("none: not modelled yet", &format!("`{guard}`"));
        let expected = format!("{LIST}:6: atomic.gap lists {guard}, which does not name it");
        assert_eq!(check(&list, &small()), [expected]);
    }
    let mut known = small();
    learn_scenario(
        &mut known,
        "sims/silent.toml",
        "# clause: ADR-50, somewhere\n",
    );
    assert_eq!(check(GOOD, &known), ["sims/silent.toml: names no clause"]);
}
