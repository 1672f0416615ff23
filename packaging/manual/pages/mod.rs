//! The pages of the manual: pages of commands from clap's definitions, one of directives from their table, and two
//! written by hand.
//!
//! The pages repeat the texts of the program and of its configuration file, so that they cannot differ from `--help`.
//! They add only the places of files and related pages.

mod commands;
mod conf;
mod release;
mod roff;

use self::release::Release;

/// One page, such as `getid-state-show.1`.
pub(crate) struct Page {
    /// Name without the section.
    pub(crate) name: String,
    /// 1 for commands, 5 for files, 7 for everything else.
    pub(crate) section: u8,
    /// Source in roff, with the macros of man(7).
    pub(crate) text: String,
}

impl Page {
    /// Returns the name of the page's file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }
}

/// Returns every page.
///
/// # Errors
///
/// A sentence about the source that is not as expected.
pub(crate) fn all() -> Result<Vec<Page>, String> {
    let release = Release::newest()?;
    let mut pages = commands::pages(&release);
    pages.push(conf::page(&release)?);
    for (name, text) in
        [("getid-sequences", include_str!("../getid-sequences.7")), ("getid-fleet", include_str!("../getid-fleet.7"))]
    {
        pages.push(Page { name: name.to_owned(), section: 7, text: release.put_into(text) });
    }
    Ok(pages)
}
