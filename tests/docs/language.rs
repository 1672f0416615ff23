//! The language of sources, tests and documents: words of the dialect, doc comments of one word, names of types.
//!
//! The patterns are in `dialect.txt`. Sources are read as text: rustfmt gives items of a module a fixed indentation, so
//! no parser is needed. Types that a macro declares are not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum number of dialect words in the repository. Tests use the Unix user `nobody`, and a licence has such words in
/// its text.
const DIALECT_MAX: usize = 40;

/// The file with the patterns of the dialect.
const DIALECT_FILE: &str = "tests/docs/dialect.txt";

/// Prefixes and endings of files that are not counted: the list itself, fuzzing inputs, recorded failures, lock files,
/// and the licences in each crate.
const NOT_COUNTED: (&[&str], &[&str]) =
    (&[DIALECT_FILE, "fuzz/corpus/", "tests/proptest-regressions/"], &[".lock", "LICENSE-APACHE", "LICENSE-MIT"]);

#[test]
fn the_dialect_is_rare() {
    let patterns = patterns(&fs::read_to_string(root().join(DIALECT_FILE)).expect("the list"));
    let (prefixes, endings) = NOT_COUNTED;
    let mut places = Vec::new();
    let mut by_file = Vec::new();
    for (path, text) in repository() {
        if prefixes.iter().any(|prefix| path.starts_with(prefix)) || endings.iter().any(|end| path.ends_with(end)) {
            continue;
        }
        let found = dialect(&text, &patterns);
        if !found.is_empty() {
            by_file.push(format!("{:>5} {path}", found.len()));
        }
        places.extend(found.iter().map(|(line, pattern)| format!("{path}:{line}: {pattern}")));
    }
    let count = places.len();
    by_file.sort_unstable_by(|a, b| b.cmp(a));
    assert!(
        count <= DIALECT_MAX,
        "{count} words of the dialect, at most {DIALECT_MAX} are allowed; {DIALECT_FILE} has replacements\n{}\n\n{}",
        places.join("\n"),
        by_file.join("\n")
    );
}

#[test]
fn no_doc_comment_is_one_word() {
    let mut places = Vec::new();
    for (path, text) in repository().filter(|(path, _)| is_rust(path)) {
        places.extend(one_word_docs(&text).iter().map(|(line, word)| format!("{path}:{line}: {word}")));
    }
    assert!(places.is_empty(), "{} doc comments of one word:\n{}", places.len(), places.join("\n"));
}

#[test]
fn a_crate_has_each_type_name_once() {
    let files: BTreeMap<String, String> = repository().filter(|(path, _)| is_rust(path)).collect();
    let shared = shared_names(&files, |folder| root().join(folder).join("Cargo.toml").is_file());
    assert!(shared.is_empty(), "{} names of several types:\n{}", shared.len(), shared.join("\n"));
}

#[test]
fn planted_dialect_is_found() {
    let list = fs::read_to_string(root().join(DIALECT_FILE)).expect("the list");
    let patterns = patterns(&list);
    assert!(patterns.len() > 15, "{patterns:?}");
    for pattern in patterns.iter().map(|words| words.join(" ")) {
        let capital = pattern.split(' ').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>();
        let snake = pattern.replace(' ', "_");
        for text in [
            format!("// a server is {pattern}."),
            format!("fn is_{snake}_now()"),
            format!("enum HTTP{capital}Reply"),
            format!("struct {capital};"),
            format!("{}_MAX", snake.to_uppercase()),
            format!("a line ends with {}", pattern.replace(' ', "\n/// ")),
        ] {
            let found = dialect(&text, &patterns);
            assert_eq!(found, [(1, pattern.clone())], "{text}");
        }
        let inside = format!("x{pattern}x");
        assert_eq!(dialect(&inside, &patterns), [], "{inside}");
    }
    assert_eq!(dialect("one\ntwo", &[vec!["two".to_owned()]]), [(2, "two".to_owned())]);
}

#[test]
fn planted_doc_comments_of_one_word_are_found() {
    let text = "//! Module.\n\n/// Which.\nfn a() {}\n/// Two words.\nfn b() {}\n    /// First line\n    /// second.\n";
    assert_eq!(one_word_docs(text), [(1, "Module.".to_owned()), (3, "Which.".to_owned())]);
    assert_eq!(one_word_docs("/// One\n//// bar\n// One\n///\n"), [(1, "One".to_owned())]);
}

#[test]
fn planted_names_of_several_types_are_found() {
    let files = |pairs: &[(&str, &str)]| -> Vec<String> {
        let files = pairs.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
        shared_names(&files, |folder| ["", "crates/a", "crates/b"].contains(&folder))
    };
    let twice = |a: &str, b: &str| !files(&[("crates/b/src/a.rs", a), ("crates/b/src/b.rs", b)]).is_empty();
    for (a, b) in [
        ("struct A;", "pub(crate) enum A {\n}"),
        ("pub trait A: B {\n}", "pub(in crate::x) type A = u8;"),
        ("mod x {\n    pub union A {\n    }\n}", "pub unsafe trait A {}"),
        ("struct A;", "#[cfg(test)]\nmod tests {\n    struct B;\n}\n\nstruct A<T>(T);"),
    ] {
        assert!(twice(a, b), "{a}\n{b}");
    }
    for (a, b) in [
        ("struct A;", "struct B;"),
        ("struct A;", "#[cfg(test)]\nmod tests {\n    struct A;\n}"),
        ("struct A;", "impl T for B {\n    type A = u8;\n}"),
        ("struct A;", "fn f() {\n    struct A;\n}"),
        ("#[cfg(unix)]\nstruct A;\n#[cfg(not(unix))]\nstruct A;", "// struct A;"),
    ] {
        assert!(!twice(a, b), "{a}\n{b}");
    }
    // Crates have names of their own, and so has a file that only tests use.
    assert!(files(&[("crates/b/src/a.rs", "struct A;"), ("crates/a/src/lib.rs", "struct A;")]).is_empty());
    assert!(files(&[("crates/b/src/a.rs", "struct A;"), ("src/b.rs", "struct A;")]).is_empty());
    assert!(files(&[("crates/b/src/a.rs", "struct A;"), ("tests/b.rs", "struct A;")]).is_empty());
    let tests =
        [("crates/b/src/lib.rs", "struct A;\n#[cfg(test)]\nmod tests;"), ("crates/b/src/tests/x.rs", "struct A;")];
    assert!(files(&tests).is_empty());
}

/// Returns the patterns of the list, each as its words.
fn patterns(list: &str) -> Vec<Vec<String>> {
    let patterns = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    patterns
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
        .filter(|p: &Vec<_>| !p.is_empty())
        .collect()
}

/// Returns the words of a text in lower case, each with its line. Identifiers are split into their words.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut chars = line.chars().peekable();
        let mut previous = ' ';
        while let Some(char) = chars.next() {
            let next_is_small = chars.peek().is_some_and(char::is_ascii_lowercase);
            // `isNew` is split at N, and `HTTPNew` as well.
            let begins = char.is_ascii_uppercase() && (!previous.is_ascii_uppercase() || next_is_small);
            if (begins || !char.is_alphabetic()) && !word.is_empty() {
                words.push((index + 1, std::mem::take(&mut word)));
            }
            if char.is_alphabetic() {
                word.extend(char.to_lowercase());
            }
            previous = char;
        }
        if !word.is_empty() {
            words.push((index + 1, word));
        }
    }
    words
}

/// Returns the line and the pattern of each match.
fn dialect(text: &str, patterns: &[Vec<String>]) -> Vec<(usize, String)> {
    let words = words(text);
    let mut found = Vec::new();
    for (at, (line, word)) in words.iter().enumerate() {
        for pattern in patterns.iter().filter(|pattern| pattern[0] == *word) {
            let here = words[at..].iter().map(|(_, word)| word).take(pattern.len());
            if here.eq(pattern) {
                found.push((*line, pattern.join(" ")));
            }
        }
    }
    found
}

/// Returns the doc comments of one word, each with its first line.
fn one_word_docs(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut comment: (&str, usize, Vec<&str>) = ("", 0, Vec::new());
    let end = std::iter::once("");
    for (index, line) in text.lines().chain(end).enumerate() {
        let line = line.trim_start();
        let kind = ["///", "//!"].into_iter().find(|kind| line.starts_with(kind) && !line.starts_with("////"));
        let kind = kind.unwrap_or_default();
        if kind != comment.0 {
            if let (_, first, [word]) = (comment.0, comment.1, comment.2.as_slice()) {
                found.push((first, (*word).to_owned()));
            }
            comment = (kind, index + 1, Vec::new());
        }
        if !kind.is_empty() {
            comment.2.extend(line[3..].split_whitespace());
        }
    }
    found
}

/// Returns each name of several types of one crate, with the files. `is_crate` reports whether a folder has a manifest.
fn shared_names(files: &BTreeMap<String, String>, is_crate: impl Fn(&str) -> bool) -> Vec<String> {
    let of_tests: BTreeSet<String> = files.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let mut modules: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (path, text) in files {
        let is_test = of_tests.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        let Some(name_of_crate) = crate_of(path, &is_crate).filter(|_| !is_test) else { continue };
        for (module, name) in types(text) {
            modules.entry((name_of_crate.clone(), name)).or_default().insert(format!("{path}{module}"));
        }
    }
    let shared = modules.into_iter().filter(|(_, modules)| modules.len() > 1);
    shared
        .map(|((name_of_crate, name), modules)| {
            format!("{name_of_crate}: {name}: {}", modules.into_iter().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// Returns the crate to which a file below `src` of a crate belongs.
fn crate_of(path: &str, is_crate: impl Fn(&str) -> bool) -> Option<String> {
    let folder = Path::new(path).ancestors().skip(1).filter_map(Path::to_str).find(|folder| is_crate(folder))?;
    path[folder.len()..].trim_start_matches('/').strip_prefix("src/")?;
    Some(if folder.is_empty() { "getid" } else { folder }.to_owned())
}

/// Returns the paths, without an ending, of the modules in files of their own that only tests use.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let path = Path::new(path);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new(""));
    let base = if ["mod", "lib", "main"].contains(&stem) { parent.to_owned() } else { parent.join(stem) };
    let mut found = Vec::new();
    let mut is_for_tests = false;
    for line in text.lines() {
        if line.starts_with("#[") {
            is_for_tests |= is_test_attribute(line);
            continue;
        }
        if let Some(name) = after_visibility(line).strip_prefix("mod ").and_then(|name| name.strip_suffix(';'))
            && is_for_tests
        {
            found.push(base.join(name).to_str().expect("text").to_owned());
        }
        is_for_tests = false;
    }
    found
}

/// Returns the types of a file outside functions, impls and tests, each with the path of its module in the file.
fn types(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut modules: Vec<(&str, bool)> = Vec::new();
    let mut is_for_tests = false;
    for line in text.lines() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code.starts_with('}') && modules.len() * 4 == indent + 4 {
            modules.pop();
        }
        if code.starts_with("//") || code.is_empty() || indent != modules.len() * 4 {
            continue;
        }
        if code.starts_with("#[") {
            is_for_tests |= is_test_attribute(code);
            continue;
        }
        let item = after_visibility(code);
        let is_test = std::mem::take(&mut is_for_tests);
        if let Some(name) = item.strip_prefix("mod ").and_then(|name| name.strip_suffix(" {")) {
            modules.push((name, is_test));
        } else if let Some(name) = type_name(item)
            && !is_test
            && !modules.iter().any(|(_, is_test)| *is_test)
        {
            let module = modules.iter().fold(String::new(), |path, (name, _)| path + "::" + name);
            found.push((module, name.to_owned()));
        }
    }
    found
}

/// Returns the name of a type that this item declares.
fn type_name(item: &str) -> Option<&str> {
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let (keyword, rest) = item.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let is_type = ["struct", "enum", "union", "trait", "type"].contains(&keyword) && !name.is_empty();
    is_type.then_some(name)
}

/// Returns an item without `pub` and what follows it in parentheses.
fn after_visibility(item: &str) -> &str {
    match item.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or(item, |(_, item)| item),
        None => item.strip_prefix("pub ").unwrap_or(item),
    }
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|ending| ending == "rs")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all text files of the repository: those that git tracks, and new ones that it does not ignore.
fn repository() -> impl Iterator<Item = (String, String)> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output =
        Command::new("git").arg("-C").arg(root()).args(list).output().expect("git lists the repository's files");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names of files are UTF-8");
    let names: BTreeSet<String> = names.split_terminator('\0').map(str::to_owned).collect();
    assert!(names.len() > 500, "only {} files", names.len());
    names
        .into_iter()
        .filter_map(|name| Some((fs::read_to_string(root().join(&name)).ok()?, name)))
        .map(|(text, name)| (name, text))
}
