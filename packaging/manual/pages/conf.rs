//! `getid.conf(5)`: each row of the table of directives with its explanation in `config/getid.conf`.
//!
//! That file groups directives under banners, explains some of them together, and is compared with the table by a test.
//! So the page follows the file and takes facts (values, default, time of effect) from the table. It fails unless it
//! has every row.

use getid_config::directive::{ChangeMode, Directive};

use super::Page;
use super::release::Release;
use super::roff::{Writer, bold, italic};

const FILE: &str = include_str!("../../../config/getid.conf");

/// Returns the page.
pub(super) fn page(release: &Release) -> Result<Page, String> {
    let mut page = Writer::new("getid.conf", 5, "configuration of the ID server getid", release);
    page.heading("SYNOPSIS");
    page.first("`/etc/getid/getid.conf`");
    page.heading("DESCRIPTION");
    page.first(
        "`getid serve` reads this file if it is named on its command line, as the service of the package does. `getid \
         check-config` reports the mistakes in it. A file in TOML has the same directives: see \
         /usr/share/doc/getid/docs/configuration.md.",
    );
    page.paragraph("The file in the package has every directive with its built-in value. It begins with:");
    let mut missing: Vec<&str> = Directive::ALL.iter().map(|row| row.name).collect();
    let mut banner_seen = false;
    for block in FILE.split("\n\n") {
        if let Some(title) = banner(block) {
            if !banner_seen {
                page.heading("DIRECTIVES");
                banner_seen = true;
            }
            page.subheading(&title);
            continue;
        }
        let mut block = Block::of(block);
        if !banner_seen {
            // The first part is the title.
            block.parts.remove(0);
        }
        let rows = block.rows()?;
        missing.retain(|name| rows.iter().all(|row| row.name != *name));
        add_entries(&mut page, &rows, &block.parts);
    }
    if !missing.is_empty() {
        return Err(format!("config/getid.conf does not have these directives: {}", missing.join(", ")));
    }
    page.heading("ENVIRONMENT");
    page.tagged(
        &bold("GETID_DIRECTIVE"),
        "Sets a directive, its name in capitals and with _ for -: GETID_ID_MGETID_MAX sets id-mgetid-max.",
    );
    page.heading("FILES");
    page.tagged(&italic("/etc/getid/getid.conf"), "The configuration that the service of the package reads.");
    page.tagged(&italic("/usr/share/doc/getid/examples/getid.toml"), "The same in TOML.");
    page.heading("EXAMPLES");
    page.first("The second of four servers, which accepts other machines, and requires a login:");
    page.literal(&["server-id 1", "bind 0.0.0.0", "requirepass-file /etc/getid/password"]);
    let others = ["getid-serve(1)", "getid-check-config(1)", "getid-fleet(7)", "getid-sequences(7)"];
    page.see_also(&others.map(str::to_owned));
    Ok(page.finish())
}

/// Adds directives with their facts from the table, and the file's explanation of all of them.
fn add_entries(page: &mut Writer, rows: &[&'static Directive], parts: &[Part]) {
    match (rows, parts) {
        ([], parts) => add_text(page, parts, false),
        ([row], [Part::Paragraph(first), rest @ ..]) => {
            page.tagged(&tag(row), without_when(first));
            add_text(page, rest, true);
            page.indented(&facts(row));
        }
        (rows, parts) => {
            for row in rows {
                page.tagged(&tag(row), row.doc);
                page.indented(&facts(row));
            }
            add_text(page, parts, true);
        }
    }
}

fn tag(row: &Directive) -> String {
    let range = row.range();
    format!("{} {}", bold(row.name), italic(if range.is_empty() { "VALUE" } else { &range }))
}

fn facts(row: &Directive) -> String {
    let default = if row.default.is_empty() { "none".to_owned() } else { format!("`{}`", row.default) };
    format!("Default: {default}. Takes effect: {}.", when(row.change))
}

fn add_text(page: &mut Writer, parts: &[Part], below_an_entry: bool) {
    for part in parts {
        match part {
            Part::Paragraph(text) if below_an_entry => page.indented(without_when(text)),
            Part::Paragraph(text) => page.paragraph(text),
            Part::Literal(lines) if below_an_entry => page.literal_indented(lines),
            Part::Literal(lines) => page.literal(lines),
        }
    }
}

/// Returns the text without the time of effect, which the table has.
fn without_when(text: &str) -> &str {
    text.strip_suffix(" At the start only.").unwrap_or(text)
}

fn when(change: ChangeMode) -> &'static str {
    match change {
        ChangeMode::AtStart => "at the start only",
        ChangeMode::AtOnce => "at the start, and by CONFIG SET at once",
        ChangeMode::Password => "at the start, and by CONFIG SET unless the password is in a file of its own",
        ChangeMode::Certificates => "at the start, by CONFIG SET, and at SIGHUP, which loads the files again",
        ChangeMode::OpenFiles => "at the start, and by CONFIG SET as far as the limit of open files allows",
        ChangeMode::BorrowLimit => "at the start, and by CONFIG SET up to the limit on which the next start relies",
        ChangeMode::Reload => "at the start, and at SIGHUP, which reads the files again",
    }
}

/// Returns the title in a line of number signs.
fn banner(block: &str) -> Option<String> {
    let title = block.strip_prefix("####")?.trim_matches(['#', ' ']);
    let mut characters = title.chars();
    // TLS, HTTP and IDs keep their capitals.
    match title {
        "TLS" | "HTTP" => Some(title.to_owned()),
        "IDS" => Some("IDs".to_owned()),
        _ => Some(characters.next()?.to_string() + &characters.as_str().to_lowercase()),
    }
}

/// Consecutive lines of the file without an empty line.
struct Block {
    parts: Vec<Part>,
    names: Vec<&'static str>,
}

enum Part {
    Paragraph(String),
    Literal(Vec<&'static str>),
}

impl Block {
    fn of(block: &'static str) -> Block {
        let mut parts: Vec<Part> = Vec::new();
        let mut names: Vec<&'static str> = Vec::new();
        let mut continues = false;
        for line in block.lines() {
            let text = line.strip_prefix("# ");
            match text {
                // A directive, set or commented out, or an empty comment line.
                None => {
                    let name = line.trim_start_matches('#').split(' ').next().unwrap_or_default();
                    if !name.is_empty() && !names.contains(&name) {
                        names.push(name);
                    }
                }
                Some(text) if text.starts_with(' ') => match parts.last_mut() {
                    Some(Part::Literal(lines)) if continues => lines.push(text),
                    _ => parts.push(Part::Literal(vec![text])),
                },
                Some(text) => match parts.last_mut() {
                    Some(Part::Paragraph(paragraph)) if continues => {
                        paragraph.push(' ');
                        paragraph.push_str(text);
                    }
                    _ => parts.push(Part::Paragraph(text.to_owned())),
                },
            }
            continues = text.is_some();
        }
        Block { parts, names }
    }

    fn rows(&self) -> Result<Vec<&'static Directive>, String> {
        let row = |name: &&'static str| {
            Directive::find(name).ok_or_else(|| format!("config/getid.conf has '{name}', which is no directive"))
        };
        self.names.iter().map(row).collect()
    }
}
