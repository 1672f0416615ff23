//! Pages of `getid` and its subcommands, from clap's definitions: `getid state show` is `getid-state-show(1)`.
//!
//! The texts before and after the options of `--help` are examples, exit codes and explanations. A manual page has a
//! section for each.

use clap::{Arg, Command};

use super::Page;
use super::release::Release;
use super::roff::{Writer, bold, italic};

/// Exit statuses of commands that do not document their own.
const EXIT_STATUS: [(&str, &str); 3] = [
    ("0", "The command succeeded."),
    ("1", "The answer is negative, or the command failed; standard error has the reason."),
    ("2", "The command line is wrong, or a required server or store did not answer."),
];

const OPTIONS: &str = "OPTIONS";

/// Returns a page for each command.
pub(super) fn pages(release: &Release) -> Vec<Page> {
    let mut command = getid::cli::command();
    command.build();
    let mut pages = vec![of_getid(&command, release)];
    add_subcommands(&command, "getid", release, &mut pages);
    pages
}

fn add_subcommands(parent: &Command, path: &str, release: &Release, pages: &mut Vec<Page>) {
    for command in subcommands(parent) {
        let path = format!("{path} {}", command.get_name());
        pages.push(of_subcommand(command, &path, release));
        add_subcommands(command, &path, release, pages);
    }
}

/// Returns the subcommands with a page: `help` is clap's own and has none.
fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn of_getid(command: &Command, release: &Release) -> Page {
    let mut page = begin(command, "getid", release);
    page.first(
        "getid is a server that gives unique, time-ordered 64-bit IDs to programs that speak the protocol of Redis, and \
         its tools. `getid serve` runs the server. The other commands use a server, or its stored state.",
    );
    add_list_of_subcommands(&mut page, command, "getid");
    let extra = Extra::of(command);
    add_options(&mut page, command);
    add_exit_status(&mut page, &extra);
    page.heading("ENVIRONMENT");
    for (name, text) in [
        (
            "GETID_DIRECTIVE",
            "Sets a directive: GETID_SERVER_ID sets server-id. It overrides the configuration file, and the command line \
             overrides it. The tools read it too, so that they find the server that was started with it.",
        ),
        ("REDISCLI_AUTH", "The password with which tools log in, as redis-cli does."),
        (
            "CREDENTIALS_DIRECTORY",
            "The folder in which systemd puts the credential getid.requirepass: the server's password.",
        ),
        (
            "NOTIFY_SOCKET",
            "The socket on which the server reports to systemd that it is ready, with --supervised systemd.",
        ),
    ] {
        page.tagged(&bold(name), text);
    }
    add_files(&mut page);
    add_examples(&mut page, &extra);
    let mut others: Vec<String> =
        subcommands(command).map(|command| format!("getid-{}(1)", command.get_name())).collect();
    others.extend(["getid.conf(5)", "getid-fleet(7)", "getid-sequences(7)"].map(str::to_owned));
    page.see_also(&others);
    page.finish()
}

fn of_subcommand(command: &Command, path: &str, release: &Release) -> Page {
    let mut page = begin(command, path, release);
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    for (index, text) in paragraphs(&about).into_iter().enumerate() {
        // The first paragraph may be clap's summary, which has no full stop.
        let text = if index == 0 { sentence(&text) } else { text };
        if index == 0 { page.first(&text) } else { page.paragraph(&text) }
    }
    let extra = Extra::of(command);
    for part in &extra.notes {
        match part {
            Part::Paragraph(text) => page.paragraph(text),
            Part::Literal(title, lines) => {
                page.paragraph(title);
                page.literal(&borrowed(lines));
            }
        }
    }
    add_list_of_subcommands(&mut page, command, path);
    add_options(&mut page, command);
    add_exit_status(&mut page, &extra);
    if path == "getid serve" {
        add_files(&mut page);
    }
    add_examples(&mut page, &extra);
    page.see_also(&see_also(command, path));
    page.finish()
}

/// Begins a page: NAME, SYNOPSIS, and the heading of DESCRIPTION.
fn begin(command: &Command, path: &str, release: &Release) -> Writer {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = Writer::new(&path.replace(' ', "-"), 1, &lower_first(about.trim_end_matches('.')), release);
    page.heading("SYNOPSIS");
    let usage = command.clone().render_usage().to_string();
    page.forms(usage.trim_start_matches("Usage: "), path);
    page.heading("DESCRIPTION");
    page
}

fn add_list_of_subcommands(page: &mut Writer, command: &Command, path: &str) {
    if subcommands(command).next().is_none() {
        return;
    }
    page.heading("COMMANDS");
    for command in subcommands(command) {
        let name = format!("{path} {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        page.tagged(&format!("{}(1)", bold(&name.replace(' ', "-"))), &sentence(&about));
    }
}

/// Adds arguments first, then options under the headings of `--help`.
fn add_options(page: &mut Writer, command: &Command) {
    let shown: Vec<&Arg> = command.get_arguments().filter(|argument| !argument.is_hide_set()).collect();
    let positional: Vec<&Arg> = shown.iter().copied().filter(|argument| argument.is_positional()).collect();
    if !positional.is_empty() {
        page.heading("ARGUMENTS");
        for argument in positional {
            page.tagged(&value(argument), &help(argument));
        }
    }
    let mut headings: Vec<&str> = Vec::new();
    for argument in shown.iter().filter(|argument| !argument.is_positional()) {
        let heading = argument.get_help_heading().unwrap_or(OPTIONS);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    // Options without their own heading come first, as in --help.
    headings.sort_by_key(|heading| *heading != OPTIONS);
    for (index, heading) in headings.iter().enumerate() {
        if *heading == OPTIONS {
            page.heading(OPTIONS);
        } else {
            if index == 0 {
                page.heading(OPTIONS);
            }
            page.subheading(heading);
        }
        let is_here =
            |argument: &&&Arg| !argument.is_positional() && argument.get_help_heading().unwrap_or(OPTIONS) == *heading;
        for option in shown.iter().filter(is_here) {
            page.tagged(&flags(option), &help(option));
        }
    }
}

/// Returns an option's flags, such as `-p, --port PORT`.
fn flags(option: &Arg) -> String {
    let mut flags = Vec::new();
    flags.extend(option.get_short().map(|short| bold(&format!("-{short}"))));
    flags.extend(option.get_long().map(|long| bold(&format!("--{long}"))));
    flags.extend(option.get_visible_aliases().unwrap_or_default().iter().map(|alias| bold(&format!("--{alias}"))));
    let flags = flags.join(", ");
    if option.get_action().takes_values() { format!("{flags} {}", value(option)) } else { flags }
}

fn value(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
    let text = if names.is_empty() { argument.get_id().as_str().to_owned() } else { names.join(" ") };
    let several = argument.is_positional() && argument.get_num_args().is_some_and(|range| range.max_values() > 1);
    format!("{}{}", italic(&text), if several { " ..." } else { "" })
}

fn help(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut help = paragraphs(&help).iter().map(|text| sentence(text)).collect::<Vec<_>>().join(" ");
    if !argument.get_action().takes_values() {
        return help;
    }
    let values = argument.get_possible_values();
    let names: Vec<&str> =
        values.iter().filter(|value| !value.is_hide_set()).map(clap::builder::PossibleValue::get_name).collect();
    if !names.iter().all(|name| help.contains(name)) {
        help = format!("{help} One of {}.", names.join(", "));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && !argument.is_hide_default_value_set() {
        help = format!("{} [default: {}]", help.trim_end_matches('.'), defaults.join(" "));
    }
    help
}

fn add_exit_status(page: &mut Writer, extra: &Extra) {
    page.heading("EXIT STATUS");
    match &extra.exit_status {
        Some(text) => page.first(text),
        None => {
            for (code, text) in EXIT_STATUS {
                page.tagged(&bold(code), text);
            }
        }
    }
}

fn add_examples(page: &mut Writer, extra: &Extra) {
    if !extra.examples.is_empty() {
        page.heading("EXAMPLES");
        page.literal(&borrowed(&extra.examples));
    }
}

fn add_files(page: &mut Writer) {
    page.heading("FILES");
    for (path, text) in [
        ("/etc/getid/getid.conf", "The configuration that the service of the package reads: getid.conf(5)."),
        (
            "/var/lib/getid",
            "The state: up to where IDs may have been given (getid-N.state, N being the server-id), the lock on that, \
             and sequences without a database. Without it a server repeats no ID while the clocks are right. Keep it \
             with its server-id, and never copy it to a second server.",
        ),
        ("~/.local/state/getid", "The same, for a server that a user other than root starts without a configuration."),
        ("/usr/share/doc/getid", "The complete documentation."),
    ] {
        page.tagged(&italic(path), text);
    }
}

/// Returns related pages: the parent, the subcommands, and the pages of the subject.
fn see_also(command: &Command, path: &str) -> Vec<String> {
    let parent = path.rsplit_once(' ').map_or(path, |(parent, _)| parent);
    let mut pages = vec![format!("{}(1)", parent.replace(' ', "-"))];
    pages.extend(subcommands(command).map(|command| format!("{}-{}(1)", path.replace(' ', "-"), command.get_name())));
    let about = match path.split(' ').nth(1) {
        Some("sequence" | "import" | "number") => &["getid.conf(5)", "getid-sequences(7)"][..],
        Some("claim" | "cluster" | "state") => &["getid.conf(5)", "getid-fleet(7)"],
        Some("serve" | "check-config") => &["getid.conf(5)", "getid-fleet(7)", "getid-sequences(7)"],
        _ => &[],
    };
    pages.extend(about.iter().map(|&page| page.to_owned()));
    pages
}

/// The parsed text after the options.
struct Extra {
    notes: Vec<Part>,
    exit_status: Option<String>,
    examples: Vec<String>,
}

enum Part {
    Paragraph(String),
    /// A line, and the indented lines below it.
    Literal(String, Vec<String>),
}

impl Extra {
    fn of(command: &Command) -> Extra {
        let texts = [command.get_before_help(), command.get_after_help()];
        let text = texts.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join("\n\n");
        let mut extra = Extra { notes: Vec::new(), exit_status: None, examples: Vec::new() };
        for block in text.split("\n\n") {
            let lines: Vec<&str> = block.lines().collect();
            match lines[..] {
                [] => {}
                ["Example:" | "Examples:", ref examples @ ..] => extra.examples.extend(owned(examples)),
                [title, ref rest @ ..] if rest.first().is_some_and(|line| line.starts_with(' ')) => {
                    extra.notes.push(Part::Literal(title.to_owned(), owned(rest).collect()));
                }
                _ => extra.add_paragraph(&lines.join(" ")),
            }
        }
        extra
    }

    /// Adds a paragraph, whose end may be the exit codes.
    fn add_paragraph(&mut self, text: &str) {
        let (note, status) = text.split_at(text.find("Exit code 0").unwrap_or(text.len()));
        if !note.trim().is_empty() {
            self.notes.push(Part::Paragraph(note.trim().to_owned()));
        }
        if !status.is_empty() {
            self.exit_status = Some(status.to_owned());
        }
    }
}

fn owned(lines: &[&str]) -> impl Iterator<Item = String> {
    lines.iter().map(|&line| line.to_owned())
}

fn borrowed(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

/// Returns the paragraphs of a text, each in one line.
fn paragraphs(text: &str) -> Vec<String> {
    text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns the text with a full stop at its end, unless that could be read as a part of it.
fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with(['.', ':', ']', '-']) { text.to_owned() } else { format!("{text}.") }
}

/// Returns the text without a leading capital, as whatis(1) shows it, unless the word is in capitals.
fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}
