//! The one place of the configuration that touches the disk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::read::Files;
use super::{Config, Report};
use crate::glob;

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// As glob(3): each part of the path is matched by itself, names that begin with a dot only by a dot.
    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for part in Path::new(pattern).components() {
            let mut next = Vec::new();
            for folder in &found {
                match part {
                    Component::Normal(part) if glob::is_pattern(&part.to_string_lossy()) => {
                        next.extend(matching_in(folder, part.as_encoded_bytes())?);
                    }
                    part => {
                        let path = folder.join(part);
                        if path.symlink_metadata().is_ok() {
                            next.push(path);
                        }
                    }
                }
            }
            found = next;
        }
        found.sort();
        Ok(found)
    }
}

fn matching_in(folder: &Path, pattern: &[u8]) -> io::Result<Vec<PathBuf>> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match fs::read_dir(listed) {
        // conf.d/*/x.conf passes over the files in conf.d.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let bytes = name.as_encoded_bytes();
        if (!bytes.starts_with(b".") || pattern.starts_with(b".")) && glob::matches(pattern, bytes, false) {
            paths.push(folder.join(name));
        }
    }
    Ok(paths)
}

/// Checks that `dir` is a folder, as a start must.
///
/// # Errors
///
/// A report with the folder's name and the operating system's reason.
pub fn check_dir(config: &Config) -> Result<(), Report> {
    let shown = config.dir.display();
    match fs::metadata(&config.dir) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Report::from_sentence(format!("dir: '{shown}' is not a folder"))),
        Err(error) => Err(Report::from_sentence(format!("dir: '{shown}' cannot be used: {error}"))),
    }
}
