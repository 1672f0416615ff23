//! The manual of the built version has a page for each command and an entry for each directive. Its pages refer only to
//! existing pages.

use clap::Command;
use getid_config::directive::Directive;

use crate::manual_pages::{Page, all};

fn page<'a>(pages: &'a [Page], file_name: &str) -> &'a Page {
    pages.iter().find(|page| page.file_name() == file_name).unwrap_or_else(|| panic!("there is no page {file_name}"))
}

/// Returns a text in bold, as roff writes it.
fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", text.replace('-', "\\-"))
}

#[test]
fn every_command_has_a_page_with_its_options() {
    fn check(command: &Command, path: &str, pages: &[Page]) -> usize {
        let page = page(pages, &format!("{path}.1"));
        for long in command.get_arguments().filter_map(|argument| argument.get_long()) {
            assert!(page.text.contains(&bold(&format!("--{long}"))), "{path}(1) has no --{long}");
        }
        let below = command.get_subcommands().filter(|command| command.get_name() != "help");
        1 + below.map(|command| check(command, &format!("{path}-{}", command.get_name()), pages)).sum::<usize>()
    }
    let mut command = getid::cli::command();
    command.build();
    let pages = all().unwrap();
    let checked = check(&command, "getid", &pages);
    let commands = pages.iter().filter(|page| page.section == 1).count();
    assert_eq!(checked, commands, "one page for each command");
    assert!(checked > 30, "{checked}");
}

#[test]
fn every_directive_has_an_entry_with_its_default() {
    let pages = all().unwrap();
    let text = &page(&pages, "getid.conf.5").text;
    for row in Directive::ALL {
        let entry = format!(".TP\n{} ", bold(row.name));
        let entries: Vec<&str> = text.split(&entry).skip(1).collect();
        assert_eq!(entries.len(), 1, "{}: {} entries", row.name, entries.len());
        let entry = entries[0].split(".TP\n").next().unwrap();
        let default = if row.default.is_empty() { "none".to_owned() } else { bold(row.default) };
        assert!(entry.contains(&format!("Default: {default}. Takes effect: at the start")), "{}: {entry}", row.name);
    }
}

#[test]
fn directives_that_pages_name_exist() {
    let pages = all().unwrap();
    let mut named = 0;
    for page in pages.iter().filter(|page| page.section == 7) {
        let text = page.text.replace("\\-", "-");
        let words = text.split(|char: char| !char.is_ascii_lowercase() && char != '-');
        for word in words.filter(|word| ["sequence-", "claim-", "id-"].iter().any(|start| word.starts_with(start))) {
            assert!(Directive::find(word).is_some(), "{} names {word}, which is no directive", page.file_name());
            named += 1;
        }
    }
    assert!(named > 3, "{named}");
}

#[test]
fn pages_are_of_this_version_and_name_pages_that_exist() {
    let pages = all().unwrap();
    let mut names = 0;
    for page in &pages {
        let head = page.text.lines().find(|line| line.starts_with(".TH ")).unwrap();
        let version = format!("\"getid {}\"", env!("CARGO_PKG_VERSION"));
        assert!(head.contains(&version), "packaging/debian/changelog is of another version: {head}");
        for line in page.text.lines().filter(|line| line.starts_with(".BR getid")) {
            let words: Vec<&str> = line.split(' ').collect();
            let name = words[1].replace('\\', "");
            let section = words[2].trim_matches(['(', ')', ',', '.', ':']);
            let file_name = format!("{name}.{section}");
            assert!(pages.iter().any(|page| page.file_name() == file_name), "{}: {line}", page.file_name());
            names += 1;
        }
    }
    assert!(names > 50, "{names}");
}
