//! The program under test.

use std::path::{Path, PathBuf};

use heartline_runtime::Random;
use tokio::process::Command;

/// The program under test and the directory for the files of its tests. Cargo passes both only to
/// the crate that builds the program, so every test binary has a constant:
///
/// ```ignore
/// const HEARTLINE: Binary = Binary {
///     path: env!("CARGO_BIN_EXE_heartline"),
///     directory: env!("CARGO_TARGET_TMPDIR"),
/// };
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Binary {
    /// The path of the program.
    pub path: &'static str,
    /// The directory in which tests may create directories.
    pub directory: &'static str,
}

impl Binary {
    /// A command that runs the program and kills it when the command is dropped.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.path);
        // Files with a relative path are not written into the source tree.
        command.current_dir(self.directory);
        command.env_remove("HEARTLINE_SECRET").kill_on_drop(true);
        command
    }

    /// A new empty directory.
    pub fn scratch(&self) -> PathBuf {
        let name = format!("heartline-it-{:032x}", Random::system().draw::<u128>());
        let path = Path::new(self.directory).join(name);
        std::fs::create_dir(&path).unwrap();
        path
    }
}
