//! Circles between modules: modules of one folder that use each other in a circle can only be understood together.
//!
//! Every folder of modules is a graph. Its arrows are the paths that start with `crate`, `self` or `super`, those of
//! `use` lists and macros included. A name that a shared parent re-exports leads to the module that has it. Code for
//! tests (`#[cfg(test)]`) has no arrows, and neither have a module and its own `mod.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn no_modules_form_a_circle() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut sources = vec![("getid".to_owned(), root.join("src"))];
    for entry in fs::read_dir(root.join("crates")).expect("the crates") {
        let path = entry.expect("an entry").path();
        sources.push((path.file_name().expect("a name").to_str().expect("text").replace('-', "_"), path.join("src")));
    }
    let mut found = Vec::new();
    for (name, folder) in &sources {
        let files = rust_files(folder).into_iter().map(|path| {
            let name = path.strip_prefix(folder).expect("a file of the folder").to_str().expect("text").to_owned();
            (name, fs::read_to_string(&path).expect("text"))
        });
        for circle in circles(&files.collect()) {
            let parent = [vec![name.clone()], circle.parent].concat().join("::");
            found.push(format!("{parent}: {:?}\n  {}", circle.modules, circle.arrows.join("\n  ")));
        }
    }
    assert!(found.is_empty(), "{} circles of modules:\n{}", found.len(), found.join("\n"));
}

#[test]
fn planted_circles_are_found() {
    let modules_of = |a: &str, b: &str| -> Vec<Vec<String>> {
        let texts = [("lib.rs", "mod a;\nmod b;\npub use a::{A, x::{self, X as Y}};"), ("a/mod.rs", a), ("b.rs", b)];
        let files = texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        circles(&files).into_iter().map(|circle| circle.modules).collect()
    };
    let (to_b, to_a) = ("use crate::b::B;", "fn f() { crate::a::f::<u8>() }");
    for (a, b) in [
        (to_b, to_a),
        ("use std::{fs, io}; use crate::{c::C, b::{B, D}};", to_a),
        ("use super::b;", "vec![super::a::A]"),
        (to_b, "use crate::A;"),
        (to_b, "use crate::Y;"),
        ("mod x { use super::super::b::B; }", to_a),
        ("#[cfg(not(test))]\nuse crate::b::B;", to_a),
        ("#[cfg(test)]\nmod tests { use super::*; }\nuse crate::b::B;", to_a),
        ("const C: char = '\"'; fn f<'a>() { crate::b::f::<'a>('\\'', r#\"\"\"#) }", to_a),
    ] {
        assert_eq!(modules_of(a, b), [["a", "b"]], "{a}\n{b}");
    }
    for (a, b) in [
        (to_b, "use crate::C;"),
        (to_b, "// crate::a::A\n/* crate::a::A */ const C: &str = \"crate::a::A\";"),
        (to_b, "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
        (to_b, "#[cfg(test)]\n#[inline]\nfn f(a: A, b: B) -> u8 { crate::a::A }"),
        (to_b, "struct S { #[cfg(test)] a: crate::a::A, b: u8 }"),
        (to_b, "#[cfg(test)]\nuse crate::a::{A, B};\nfn f() {}"),
        ("mod x { use super::A; } use self::x::X;", to_a),
    ] {
        assert_eq!(modules_of(a, b), [[""; 0]; 0], "{a}\n{b}");
    }
}

/// Modules of one folder that reach each other.
struct Circle {
    /// Path of their common parent in the crate.
    parent: Module,
    modules: Vec<String>,
    /// Arrows of the shortest way around: from, to, and a line that has it.
    arrows: Vec<String>,
}

/// Path of a module in its crate, empty for the crate's root.
type Module = Vec<String>;

/// Arrows between the modules of each folder, by parent. Each has a line of code as its example.
type Arrows = BTreeMap<Module, BTreeMap<String, BTreeMap<String, String>>>;

/// Returns the circles of a crate, given the text of each file by its path below `src`.
fn circles(files: &BTreeMap<String, String>) -> Vec<Circle> {
    let mut source = CrateSource::default();
    for (name, text) in files {
        let module: Module = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let is_folder = ["mod", "lib", "main"].contains(&module[module.len() - 1].as_str());
        let module = module[..module.len() - usize::from(is_folder)].to_vec();
        source.modules.insert(module.clone());
        source.read_file(name, &tokens(text), module);
    }
    let arrows = source.arrows();
    arrows.iter().flat_map(|(parent, graph)| circles_of_folder(parent, graph)).collect()
}

fn circles_of_folder(parent: &Module, graph: &BTreeMap<String, BTreeMap<String, String>>) -> Vec<Circle> {
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for module in graph.keys() {
        let Some(way) = shortest_circle(graph, module).filter(|_| !done.contains(module)) else { continue };
        let is_member = |other: &&String| reaches(graph, module, other) && reaches(graph, other, module);
        let modules: Vec<String> = graph.keys().filter(is_member).cloned().collect();
        done.extend(modules.iter().cloned());
        let arrow = |pair: &[String]| format!("{} -> {}: {}", pair[0], pair[1], graph[&pair[0]][&pair[1]]);
        circles.push(Circle { parent: parent.clone(), modules, arrows: way.windows(2).map(arrow).collect() });
    }
    circles
}

fn reaches(graph: &BTreeMap<String, BTreeMap<String, String>>, from: &str, to: &str) -> bool {
    way(graph, from, to).is_some()
}

fn shortest_circle(graph: &BTreeMap<String, BTreeMap<String, String>>, module: &str) -> Option<Vec<String>> {
    way(graph, module, module)
}

/// Returns the shortest way along one arrow or more.
fn way(graph: &BTreeMap<String, BTreeMap<String, String>>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![from.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in graph.get(&way[way.len() - 1]).into_iter().flat_map(BTreeMap::keys) {
            let longer = [way.clone(), vec![next.clone()]].concat();
            if next == to {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

/// What a crate's files have: modules, names that a module imports, and paths that its code names.
#[derive(Default)]
struct CrateSource {
    modules: BTreeSet<Module>,
    for_tests: BTreeSet<Module>,
    imports: BTreeMap<(Module, String), Module>,
    /// Module with the code, path from the crate's root, file and line.
    paths: Vec<(Module, Vec<String>, String)>,
}

impl CrateSource {
    fn read_file(&mut self, file: &str, tokens: &[(usize, String)], mut module: Module) {
        let text = |at: usize| tokens.get(at).map_or("", |(_, text)| text.as_str());
        // Depth of braces outside each inline module that is open.
        let (mut depth, mut inline, mut at) = (0, Vec::new(), 0);
        while at < tokens.len() {
            let place = format!("{file}:{}", tokens[at].0);
            match text(at) {
                "#" if is_for_tests(&tokens[at..]) => {
                    if text(at + 1) == "!" {
                        self.for_tests.insert(module);
                        return;
                    }
                    let item = at + closing(&tokens[at..]) + 1;
                    at = item + item_end(&tokens[item..]);
                    if text(at.wrapping_sub(2)) == "mod" && text(at) == ";" {
                        self.for_tests.insert([module.clone(), vec![text(at - 1).to_owned()]].concat());
                    }
                }
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if inline.last() == Some(&depth) {
                        inline.pop();
                        module.pop();
                    }
                }
                "mod" if text(at + 2) == "{" => {
                    module.push(text(at + 1).to_owned());
                    self.modules.insert(module.clone());
                    inline.push(depth);
                    depth += 1;
                    at += 2;
                }
                "use" => {
                    let end = at + tokens[at..].iter().take_while(|(_, text)| text != ";").count();
                    self.read_use(&place, &module, &[], &tokens[at + 1..end]);
                    at = end;
                }
                "crate" | "self" | "super" if text(at + 1) == "::" => {
                    let mut path = vec![text(at).to_owned()];
                    while text(at + 1) == "::" && is_name(text(at + 2)) {
                        path.push(text(at + 2).to_owned());
                        at += 2;
                    }
                    self.paths.push((module.clone(), from_root(&module, &path), place));
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads a tree of `use`, whose paths begin with `prefix`.
    fn read_use(&mut self, place: &str, module: &Module, prefix: &[String], tree: &[(usize, String)]) {
        let mut path = prefix.to_vec();
        let mut alias = None;
        for (at, (_, text)) in tree.iter().enumerate() {
            match text.as_str() {
                "{" => {
                    let list = &tree[at + 1..at + closing(&tree[at..])];
                    let mut rest = list;
                    while !rest.is_empty() {
                        let end = item_end(rest).min(rest.len());
                        self.read_use(place, module, &path, &rest[..end]);
                        rest = &rest[rest.len().min(end + 1)..];
                    }
                    return;
                }
                "as" => {
                    alias = tree.get(at + 1).map(|(_, name)| name.clone());
                    break;
                }
                "self" if !path.is_empty() => {}
                name if is_name(name) => path.push(name.to_owned()),
                _ => {}
            }
        }
        let is_absolute = path.first().is_some_and(|first| ["crate", "self", "super"].contains(&first.as_str()));
        let path = if is_absolute { from_root(module, &path) } else { [module.clone(), path].concat() };
        if let Some(name) = alias.or_else(|| path.last().cloned()) {
            self.imports.insert((module.clone(), name), path.clone());
        }
        self.paths.push((module.clone(), path, place.to_owned()));
    }

    fn arrows(&self) -> Arrows {
        let is_for_tests = |module: &Module| self.for_tests.iter().any(|tests| module.starts_with(tests));
        let mut arrows = Arrows::new();
        for (from, path, place) in self.paths.iter().filter(|(from, ..)| !is_for_tests(from)) {
            let to = self.target(from, path);
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if shared < from.len() && shared < to.len() {
                let graph = arrows.entry(from[..shared].to_vec()).or_default();
                graph.entry(to[shared].clone()).or_default();
                graph.entry(from[shared].clone()).or_default().entry(to[shared].clone()).or_insert(place.clone());
            }
        }
        arrows
    }

    /// Returns the module that a path leads to. A name that a parent of `from` imports leads to where it is from.
    fn target(&self, from: &Module, path: &[String]) -> Module {
        let mut path = path.to_vec();
        // An import may name an import: eight are more than any module has.
        for _ in 0..8 {
            let length = (0..=path.len()).rev().find(|&length| self.modules.contains(&path[..length])).unwrap_or(0);
            let module = path[..length].to_vec();
            let import = path.get(length).and_then(|name| self.imports.get(&(module.clone(), name.clone())));
            match import.filter(|_| from.starts_with(&module)) {
                Some(import) if *import != path => path.clone_from(import),
                _ => return module,
            }
        }
        Module::new()
    }
}

/// Returns a path that begins with `crate`, `self` or `super` from the crate's root.
fn from_root(module: &Module, path: &[String]) -> Vec<String> {
    let mut result = if path[0] == "crate" { Module::new() } else { module.clone() };
    for segment in path {
        match segment.as_str() {
            "super" => _ = result.pop(),
            "crate" | "self" => {}
            name => result.push(name.to_owned()),
        }
    }
    result
}

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// Whether these tokens begin with a `cfg` attribute that only holds in tests.
fn is_for_tests(tokens: &[(usize, String)]) -> bool {
    let words: Vec<&str> = tokens[..tokens.len().min(closing(tokens))].iter().map(|(_, text)| text.as_str()).collect();
    words.contains(&"cfg") && words.contains(&"test") && !words.contains(&"not")
}

/// Returns the index of the bracket that closes the first one.
fn closing(tokens: &[(usize, String)]) -> usize {
    let mut depth = 0;
    for (at, (_, text)) in tokens.iter().enumerate() {
        match text.as_str() {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" if depth == 1 => return at,
            "}" | "]" | ")" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the index of the last token of an item, field, arm or statement: `;`, `,` or the `}` of its block.
fn item_end(tokens: &[(usize, String)]) -> usize {
    const WITH_BLOCK: [&str; 6] = ["fn", "impl", "mod", "struct", "enum", "trait"];
    let mut at = 0;
    let mut has_block = false;
    while at < tokens.len() {
        match tokens[at].1.as_str() {
            "#" | "(" | "[" => at += closing(&tokens[at..]),
            "{" => {
                at += closing(&tokens[at..]);
                if has_block {
                    return at;
                }
            }
            "}" => return at - 1,
            "," if !has_block => return at,
            ";" => return at,
            word => has_block |= WITH_BLOCK.contains(&word),
        }
        at += 1;
    }
    at
}

/// Splits source text into words, `::` and other characters, each with its line. Comments and literals are left out.
fn tokens(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let hashes = rest[word..].bytes().take_while(|&byte| byte == b'#').count();
        let is_raw = ["r", "br", "cr"].contains(&&rest[..word]) && rest[word + hashes..].starts_with('"');
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if is_raw {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = word + hashes + 1;
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        } else if first == '"' || is_character(rest) {
            literal_bytes(rest, first)
        } else if word > 0 || rest.starts_with("::") {
            let bytes = word.max(2 * usize::from(word == 0));
            found.push((line, rest[..bytes].to_owned()));
            bytes
        } else {
            if !first.is_whitespace() {
                found.push((line, first.to_string()));
            }
            first.len_utf8()
        };
        line += rest[..skipped].matches('\n').count();
        rest = &rest[skipped..];
    }
    found
}

/// Whether this is a literal of one character, and not a lifetime.
fn is_character(text: &str) -> bool {
    text.starts_with('\'') && (text.starts_with("'\\") || text.chars().nth(2) == Some('\''))
}

/// Returns the length of a literal that ends with `quote`, both quotes included.
fn literal_bytes(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if letter == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    text.len()
}

/// Returns all Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}
