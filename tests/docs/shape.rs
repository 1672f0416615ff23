//! The shape of texts: lines that fit on a screen, and a README that is short enough to be read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum width of a line of prose, in Markdown or in a comment, in columns.
const COLUMNS_MAX: usize = 120;

/// Maximum length of README, in lines: what getid is, how to start and use it, its promises, and where to read on.
const README_LINES_MAX: usize = 200;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Adds the files below `folder` with one of these endings, except build results and hidden files.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("text");
        if path.is_dir() && !name.starts_with('.') && !["target", "corpus", "build", "node_modules"].contains(&name) {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Whether a line must fit: prose of Markdown and comments must; headings, tables and code need not.
fn has_to_fit(path: &Path, line: &str) -> bool {
    let comment = match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => return !line.starts_with(['|', '#']) && !line.starts_with("    "),
        Some("rs") => line.trim_start().strip_prefix("//"),
        _ => line.trim_start().strip_prefix('#'),
    };
    comment.is_some_and(|text| !text.trim_start_matches(['/', '!', ' ']).starts_with('|'))
}

/// Returns the lines that are too wide, of files with these endings.
fn wide_lines(endings: &[&str]) -> Vec<String> {
    let mut paths = Vec::new();
    files(&root(), endings, &mut paths);
    assert!(paths.len() > 10, "{paths:?}");
    let mut wide = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("text");
        let name = path.strip_prefix(root()).expect("below the root").display();
        let mut fenced = false;
        for (index, line) in text.lines().enumerate() {
            fenced ^= line.trim_start_matches([' ', '/', '!']).starts_with("```");
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !fenced && has_to_fit(&path, line) {
                wide.push(format!("{name}:{}: {columns} columns", index + 1));
            }
        }
    }
    wide
}

#[test]
fn no_line_of_prose_is_wider_than_a_screen_has_room_for() {
    let wide = wide_lines(&[".md", "getid.conf", ".toml", ".service", ".yaml", "Dockerfile"]);
    assert!(wide.is_empty(), "{} lines are too wide:\n{}", wide.len(), wide.join("\n"));
}

#[test]
fn no_comment_is_wider_than_a_screen_has_room_for() {
    let wide = wide_lines(&[".rs"]);
    assert!(wide.is_empty(), "{} comments are too wide:\n{}", wide.len(), wide.join("\n"));
}

#[test]
fn readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).expect("README");
    assert!(text.lines().count() <= README_LINES_MAX, "README has {} lines", text.lines().count());
}

/// The map in ARCHITECTURE.md names every crate and every folder of its first modules, and only existing files.
#[test]
fn the_code_map_is_the_tree() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let (_, map) = page.split_once("## The code map\n").expect("the map");
    let map = map.split("```").nth(1).expect("a block");
    let mut folder = PathBuf::new();
    let mut shown = BTreeSet::new();
    for line in map.lines().skip(1) {
        let name = line.split_whitespace().next().expect("a name");
        if line.starts_with(' ') {
            shown.insert(folder.join(name));
        } else {
            folder = PathBuf::from(name);
            shown.insert(folder.clone());
        }
    }
    for path in &shown {
        assert!(root().join(path).exists(), "{} is in the map and not in the tree", path.display());
    }
    let mut rooms = vec![PathBuf::from("src/cli")];
    for entry in fs::read_dir(root().join("crates")).expect("the crates") {
        let room = Path::new("crates").join(entry.expect("an entry").file_name()).join("src");
        assert!(shown.contains(&room), "{} is not in the map", room.display());
        rooms.push(room);
    }
    for room in rooms {
        for entry in fs::read_dir(root().join(&room)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_alone = !path.is_dir() || path.with_extension("rs").is_file();
            let path = path.strip_prefix(root()).expect("below the root");
            assert!(is_alone || shown.contains(path), "{} is not in the map", path.display());
        }
    }
}

/// Returns the names of test functions and of their modules, in every folder with tests.
fn names_of_tests() -> BTreeSet<String> {
    let mut paths = Vec::new();
    for folder in ["tests", "src", "crates"] {
        files(&root().join(folder), &[".rs"], &mut paths);
    }
    let mut names = BTreeSet::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("text");
        let has_tests = text.contains("test]") || text.contains("test(");
        let folders = path.strip_prefix(root()).expect("below the root").with_extension("");
        if has_tests || text.contains("mod ") {
            names.extend(folders.iter().map(|part| part.to_str().expect("text").to_owned()));
        }
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(name) = name.filter(|_| std::mem::take(&mut is_test)) {
                names.insert(name.split('(').next().expect("a part").to_owned());
            }
        }
    }
    names
}

/// Each promise in the table of tests/README.md names tests that exist.
#[test]
fn promises_name_tests_that_exist() {
    let page = fs::read_to_string(root().join("tests/README.md")).expect("the page");
    let (_, table) = page.split_once("## Promises and their tests").expect("the table");
    let rows =
        table.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let names = names_of_tests();
    let (mut checked, mut missing) = (0, Vec::new());
    for row in rows {
        for code in row.split('`').skip(1).step_by(2) {
            let pattern = code.rsplit("::").next().expect("a part");
            // Commands, folders and planted faults are not names of tests.
            let is_name =
                pattern.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_*".contains(&byte));
            if !is_name {
                continue;
            }
            checked += 1;
            let mut parts = pattern.split('*');
            let (start, end) = (parts.next().expect("a part"), parts.next_back().unwrap_or_default());
            let fits = |name: &String| {
                if pattern.contains('*') { name.starts_with(start) && name.ends_with(end) } else { name == pattern }
            };
            if !names.iter().any(fits) {
                missing.push(code);
            }
        }
    }
    assert!(checked > 100, "only {checked} names were found");
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}
