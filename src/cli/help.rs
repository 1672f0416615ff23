//! Layout of `--help`: first the tool's purpose, usage and examples, then arguments and explanations.
//!
//! Explanations are written behind the options, in lines that fit the source, with a block `Examples:`. Here the lines
//! of a paragraph are joined, so that clap wraps it once, to the terminal. Lines that begin with a blank (examples,
//! tables) stay unchanged.

use clap::Command;
use clap::builder::{Resettable, StyledStr};

/// clap's own template, with `before-help` (the examples) after the usage.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// First lines of a block of examples.
const TITLES: [&str; 2] = ["Example:", "Examples:"];

/// Returns the command and its subcommands with examples first, and each paragraph in one line.
pub(super) fn arrange(command: Command) -> Command {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let (examples, notes): (Vec<&str>, Vec<&str>) =
        blocks.partition(|block| block.lines().next().is_some_and(|line| TITLES.contains(&line)));
    let mut command = command.help_template(TEMPLATE);
    if !examples.is_empty() {
        command = command.before_help(examples.join("\n\n"));
    }
    let notes: Vec<String> = notes.into_iter().map(join_lines).collect();
    // Without explanations the old text is removed, because it had the examples.
    command = command.after_help(match notes[..] {
        [] => Resettable::Reset,
        _ => Resettable::Value(StyledStr::from(notes.join("\n\n"))),
    });
    command.mut_subcommands(arrange)
}

/// Returns a block without the line breaks of its source.
fn join_lines(block: &str) -> String {
    let mut text = String::new();
    for line in block.lines() {
        if !text.is_empty() {
            text.push(if line.starts_with(' ') { '\n' } else { ' ' });
        }
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the help of each command, with the command's words.
    fn all(command: &mut Command, path: &str, found: &mut Vec<(String, String)>) {
        found.push((path.to_owned(), command.render_long_help().to_string()));
        for below in command.get_subcommands_mut() {
            let path = format!("{path} {}", below.get_name());
            all(below, &path, found);
        }
    }

    fn helps(columns: usize) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut command = crate::cli::command().term_width(columns);
        command.build();
        all(&mut command, "getid", &mut found);
        found.retain(|(path, _)| !path.split(' ').any(|word| word == "help"));
        found
    }

    #[test]
    fn examples_come_first_and_are_not_wrapped() {
        for (path, help) in helps(100) {
            let lines: Vec<&str> = help.lines().collect();
            let place = |of: &[&str]| lines.iter().position(|line| of.contains(line));
            let arguments = place(&["Arguments:", "Options:", "Commands:"]);
            let Some(examples) = place(&TITLES) else {
                assert!(help.contains("\nCommands:\n"), "{path} has no examples:\n{help}");
                continue;
            };
            assert!(Some(examples) < arguments, "{path}: examples come behind the arguments:\n{help}");
            assert_eq!(help.matches("\nExample").count(), 1, "{path}:\n{help}");
            for line in lines[examples + 1..].iter().take_while(|line| !line.is_empty()) {
                assert!(line.starts_with("  ") && line.len() < 100, "{path}: {line:?}");
            }
        }
    }

    #[test]
    fn a_paragraph_is_wrapped_once() {
        for columns in [80, 100] {
            for (path, help) in helps(columns) {
                for pair in help.lines().collect::<Vec<_>>().windows(2) {
                    let [line, next] = pair else { continue };
                    let is_text = |line: &str| !line.starts_with(' ') && !line.is_empty() && !line.ends_with(':');
                    if !is_text(line) || !is_text(next) {
                        continue;
                    }
                    // The next word did not fit.
                    let word = next.split(' ').next().unwrap_or_default().len();
                    assert!(line.len() + 1 + word > columns, "{path} at {columns} columns:\n{line}\n{next}");
                }
            }
        }
    }

    /// Wherever there is an option for the count, it is `-n`, and `-n` is no other option.
    #[test]
    fn an_option_has_one_name_everywhere() {
        fn collect(command: &Command, path: &str, found: &mut Vec<(char, String, String)>) {
            for arg in command.get_arguments() {
                if let (Some(short), Some(long)) = (arg.get_short(), arg.get_long()) {
                    found.push((short, long.to_owned(), path.to_owned()));
                }
            }
            for below in command.get_subcommands() {
                collect(below, &format!("{path} {}", below.get_name()), found);
            }
        }
        let mut found = Vec::new();
        collect(&crate::cli::command(), "getid", &mut found);
        for (short, long, path) in &found {
            for (other_short, other_long, other_path) in &found {
                assert_eq!(short == other_short, long == other_long, "-{short} --{long} of {path} and {other_path}");
            }
        }
        for path in ["getid get", "getid bench", "getid verify"] {
            assert!(found.contains(&('n', "count".to_owned(), path.to_owned())), "{path}");
        }
    }

    #[test]
    fn blocks_lose_the_line_breaks_of_their_source() {
        assert_eq!(join_lines("one\ntwo\nthree"), "one two three");
        assert_eq!(join_lines("What is checked:\n  a  b\n  c  d"), "What is checked:\n  a  b\n  c  d");
    }
}
