//! The tests of the project by name, as documents name them, read from the sources.

use std::collections::BTreeMap;

use syn::visit::Visit;

/// Tests that run, under the name that documents give them, with their attributes.
pub(crate) type Tests = BTreeMap<String, Vec<syn::Attribute>>;

/// The tests of one file; `name` is its path from the top of the project, with `/`.
pub(crate) fn tests_of(name: &str, file: &syn::File) -> Tests {
    let mut found = Found {
        path: vec![test_path(name)],
        tests: Tests::new(),
    };
    found.visit_file(file);
    found.tests
}

/// How a test in this file is named: by module in `src`, by file elsewhere.
fn test_path(name: &str) -> String {
    let Some(path) = name.strip_prefix("src/") else {
        return name.to_owned();
    };
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.replace('/', "::")
}

struct Found {
    path: Vec<String>,
    tests: Tests,
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.path.push(module.ident.to_string());
        syn::visit::visit_item_mod(self, module);
        self.path.pop();
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let has = |word: &str| {
            let last = |attribute: &syn::Attribute| {
                let segments = &attribute.path().segments;
                segments.last().is_some_and(|segment| segment.ident == word)
            };
            function.attrs.iter().any(last)
        };
        // A test that nobody runs shows nothing.
        if has("test") && !has("ignore") {
            let test = format!("{}::{}", self.path.join("::"), function.sig.ident);
            self.tests.insert(test, function.attrs.clone());
        }
    }
}
