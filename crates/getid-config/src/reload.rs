//! SIGHUP reloads a configuration: directives that change in their files are read from there, others stay.
//!
//! The reload applies all changes or none: sources that no start would accept change nothing, and neither does a value
//! that conflicts with those in force.

use super::builder::Builder;
use super::directive::{ChangeMode, Directive};
use super::files::Files;
use super::read::{Sources, read_all};
use super::report::{ConfigReport, Warning};
use super::seals::read_sealers;
use super::values::{Config, ConfigValues};

/// A reloaded configuration.
#[derive(Clone, Debug)]
pub struct ReloadResult {
    /// The whole configuration, as valid as a loaded one.
    pub config: Config,
    /// Warnings about settings that may not be intended.
    pub warnings: Vec<Warning>,
    /// Directives with other values in the sources, which keep the values in force.
    pub kept: Vec<&'static Directive>,
}

impl Config {
    /// Returns this configuration, which is in force, with the current values of the sources for [`ChangeMode::Reload`]
    /// directives.
    ///
    /// # Errors
    ///
    /// Returns a [`ConfigReport`] of all errors in the sources, and of conflicts with the configuration in force.
    pub fn reloaded(&self, sources: &Sources, files: &dyn Files) -> Result<ReloadResult, ConfigReport> {
        let mut read = Builder::new();
        read_all(sources, files, &mut read);
        let mut next = Builder::of(self);
        next.take_generators(&read);
        read_sealers(files, &self.sealers, &mut next);
        let (read, _) = read.finish().map_err(ConfigReport::new)?;
        let (config, warnings) = next.finish().map_err(ConfigReport::new)?;
        let (in_force, read) = (ConfigValues::of(self), ConfigValues::of(&read));
        let is_kept = |row: &&Directive| {
            // A password from a file of its own is reloaded from there.
            let is_elsewhere = row.change == ChangeMode::Password && self.password_file.is_some();
            row.change != ChangeMode::Reload && !is_elsewhere && row.lines(&in_force) != row.lines(&read)
        };
        Ok(ReloadResult { config, warnings, kept: Directive::ALL.iter().filter(is_kept).collect() })
    }
}
