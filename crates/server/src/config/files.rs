//! The files that a configuration names, behind a trait so that loading can be tested without
//! files.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Bytes of the largest file that is read: a configuration, a key or a key set.
pub(super) const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Reads files for the configuration.
pub trait Files {
    /// The first `bytes_max` bytes of a file.
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>>;

    /// Whether every user of the machine may read the file; false if that is unknown.
    fn is_world_readable(&self, path: &Path) -> bool;
}

/// The files of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(bytes_max as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn is_world_readable(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
    }
}

/// Reads a whole text file; the error message does not contain the file's name.
pub(super) fn read_text(files: &dyn Files, path: &Path) -> Result<String, String> {
    let bytes = files.read(path, FILE_BYTES_MAX + 1).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "there is no such file; correct the path or create it".to_owned(),
        ErrorKind::PermissionDenied => {
            "this user may not read it; change its owner or its mode".to_owned()
        }
        ErrorKind::IsADirectory => "is a directory; name a file in it".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err("is larger than 1 MiB; is it the right file?".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("is not UTF-8 text (byte {place}); save it as UTF-8")
    })?;
    // Some editors write a byte order mark, which has no meaning in UTF-8.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
