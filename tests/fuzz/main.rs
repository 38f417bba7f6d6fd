//! Fuzzing of everything that reads what others wrote, on stable Rust.
//!
//! Each target takes bytes and panics when something is wrong. Under `cargo test` it gets its
//! committed seeds, `__fuzz__/<target>/corpus/*`, and then a bounded number of random inputs.
//!
//! # Adding a target
//!
//! Write `tests/fuzz/<target>.rs` with `pub(crate) fn check(input: &[u8])`, and add two lines here:
//! `mod <target>;` and its line in [`targets!`] with the number of random inputs. Use the bytes as
//! they come, so that seeds are readable files, and also as [`dice::Dice`], so that random bytes
//! become something that nearly is right. Put seeds into `tests/fuzz/__fuzz__/<target>/corpus/`.
//!
//! # Longer runs
//!
//! | Variable | Meaning |
//! |---|---|
//! | `BOLERO_RANDOM_TEST_TIME_MS` | run each target for this long instead of a number of inputs |
//! | `BOLERO_RANDOM_ITERATIONS` | run each target on so many random inputs; with both, what ends first |
//! | `BOLERO_RANDOM_MAX_LEN` | longest random input in bytes |
//! | `BOLERO_RANDOM_SEED` | run this input first: a failure prints it |
//!
//! As many targets run side by side as there are cores. `BOLERO_RANDOM_TEST_TIME_MS=60000 cargo
//! test --test fuzz` gives each a minute. A failing input that is worth keeping goes into the corpus
//! as a file. Leans on `bolero` and on the library.

mod answer;
mod dice;
mod header_block;
mod monitor;
mod reply_subject;
mod subject_matching;

/// Longest random input in bytes.
const INPUT_BYTES_MAX: usize = 512;

/// Makes a test of each target.
macro_rules! targets {
    ($($target:ident: $iterations:literal;)*) => {
        $(
            #[test]
            fn $target() {
                let target = bolero::check!(name = stringify!($target))
                    .with_max_len(INPUT_BYTES_MAX);
                // A number set here would end a run that is asked to last for a time.
                let timed = std::env::var_os("BOLERO_RANDOM_TEST_TIME_MS").is_some();
                let target = match timed {
                    true => target,
                    false => target.with_iterations($iterations),
                };
                target.for_each(|input: &[u8]| $target::check(input));
            }
        )*

        /// A target without seeds would go unnoticed: bolero takes a missing folder for an empty one.
        #[test]
        fn every_target_has_seeds() {
            $(
                let folder = concat!(
                    env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/__fuzz__/", stringify!($target), "/corpus"
                );
                let seeds = std::fs::read_dir(folder).map_or(0, Iterator::count);
                assert!(seeds > 0, "{folder} has no seeds");
            )*
        }
    };
}

targets! {
    answer: 20_000;
    header_block: 20_000;
    monitor: 20_000;
    reply_subject: 40_000;
    subject_matching: 10_000;
}
