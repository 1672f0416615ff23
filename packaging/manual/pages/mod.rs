//! The pages of the manual: of the commands as clap knows them, of the table of directives, and two written by hand.
//!
//! Nothing is told here that the program or its configuration file tells: a page that differs from `--help` would be
//! wrong sooner or later. What is added is where files are, and which page to read next.

mod commands;
mod conf;
mod release;
mod roff;

use self::release::Release;

/// One page: `getid-state-show.1`.
pub(crate) struct Page {
    /// Its name, without the section.
    pub(crate) name: String,
    /// 1 for commands, 5 for files, 7 for all else.
    pub(crate) section: u8,
    /// Its source in roff, with the macros of man(7).
    pub(crate) text: String,
}

impl Page {
    /// The name of its file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }
}

/// Every page.
///
/// # Errors
///
/// The sentence that says which of their sources is not as it has to be.
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
