//! The shape of what people read: lines that fit beside each other on a screen, and a README that is read to its end.

use std::fs;
use std::path::{Path, PathBuf};

/// Columns of a line of prose, be it in Markdown or in a comment.
const COLUMNS_MAX: usize = 120;

/// Lines of README: what getid is, how to start and use it, what is promised, and where to read on.
const README_LINES_MAX: usize = 200;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` with one of these endings, without what is built and what is hidden.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("text");
        if path.is_dir() && !name.starts_with('.') && !["target", "corpus"].contains(&name) {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// The lines that have to fit, with their numbers: prose of Markdown, without headings, tables and code; comments of
/// all else.
fn lines_to_fit<'a>(path: &Path, text: &'a str) -> Vec<(usize, &'a str)> {
    let is_markdown = path.extension().is_some_and(|extension| extension == "md");
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_fence = is_markdown && line.starts_with("```");
        fenced ^= is_fence;
        let fits = match (is_markdown, is_rust) {
            (true, _) => !fenced && !is_fence && !line.starts_with(['|', '#']) && !line.starts_with("    "),
            (_, true) => line.trim_start().starts_with("//"),
            _ => line.trim_start().starts_with('#'),
        };
        if fits {
            lines.push((index + 1, line));
        }
    }
    lines
}

#[test]
fn no_line_is_wider_than_a_screen_has_room_for() {
    let mut paths = Vec::new();
    files(&root(), &[".md", ".conf", ".toml", ".service", ".yaml", "Dockerfile"], &mut paths);
    paths.retain(|path| !path.starts_with(root().join("tests")));
    assert!(paths.len() > 20, "{}", paths.len());
    let mut wide = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("text");
        let name = path.strip_prefix(root()).expect("below the root").display();
        for (number, line) in lines_to_fit(&path, &text) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                wide.push(format!("{name}:{number}: {columns} columns"));
            }
        }
    }
    assert!(wide.is_empty(), "{} lines are too wide:\n{}", wide.len(), wide.join("\n"));
}

#[test]
fn readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).expect("README");
    assert!(text.lines().count() <= README_LINES_MAX, "README has {} lines", text.lines().count());
}
