//! JSON Schemas of what tidegate reads and writes, made from the types themselves.
//!
//! Leans on the crate `schemars`.

use schemars::JsonSchema;

/// The schema of `T`, as a file holds it.
pub fn text_of<T: JsonSchema>() -> String {
    let schema = schemars::schema_for!(T);
    let mut text = serde_json::to_string_pretty(&schema)
        .expect("schemas have text keys only, so they can be written");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ResultFile;

    /// With `TIDEGATE_UPDATE_SCHEMA=1` this test writes the file in place of comparing it.
    #[test]
    fn the_schema_of_results_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result.schema.json");
        let current = text_of::<ResultFile>();
        if std::env::var_os("TIDEGATE_UPDATE_SCHEMA").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
            std::fs::write(path, &current).unwrap();
        }
        let held = std::fs::read_to_string(path).unwrap();
        assert!(
            held == current,
            "docs/result.schema.json is out of date: run \
             TIDEGATE_UPDATE_SCHEMA=1 cargo test the_schema_of_results_is_current"
        );
    }
}
