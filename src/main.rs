//! The binary: hand the arguments to `cli`, and its exit code back.

fn main() -> std::process::ExitCode {
    tidegate::cli::main()
}
