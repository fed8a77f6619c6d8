//! The `sightline` program: parses the command line, runs it, maps its outcome to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    sightline::cli::main()
}
