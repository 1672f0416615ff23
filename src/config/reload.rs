//! What SIGHUP makes of a configuration: directives that change in their files are taken from there, others stay.
//!
//! All or nothing: sources that no start would take change nothing, and neither does a value that does not go together
//! with those in force.

use super::builder::Builder;
use super::directive::{Change, Directive};
use super::files::Files;
use super::read::{Sources, read_all};
use super::report::{Report, Warning};
use super::values::{Config, Values};

/// A configuration that was read again.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// All of it, right as one that was loaded.
    pub config: Config,
    /// What may not be meant in it.
    pub warnings: Vec<Warning>,
    /// Directives that have other values in the sources, and keep those that are in force.
    pub kept: Vec<&'static Directive>,
}

impl Config {
    /// This configuration, in force, with what the sources say by now of directives that are [`Change::Reload`].
    ///
    /// # Errors
    ///
    /// A [`Report`] of all that is wrong with the sources, or between them and what is in force.
    pub fn reloaded(&self, sources: &Sources, files: &dyn Files) -> Result<Reloaded, Report> {
        let mut read = Builder::new();
        read_all(sources, files, &mut read);
        let mut next = Builder::of(self);
        next.take_generators(&read);
        let (read, _) = read.finish().map_err(Report::new)?;
        let (config, warnings) = next.finish().map_err(Report::new)?;
        let (in_force, read) = (Values::of(self), Values::of(&read));
        let is_kept = |row: &&Directive| {
            // A password that has a file of its own is read from there.
            let is_elsewhere = row.change == Change::Password && self.password_file.is_some();
            row.change != Change::Reload && !is_elsewhere && row.lines(&in_force) != row.lines(&read)
        };
        Ok(Reloaded { config, warnings, kept: Directive::ALL.iter().filter(is_kept).collect() })
    }
}
