//! The configuration of the server: from files, the environment, the command line and `CONFIG SET` to one value.
//!
//! [`directive`] is the table of directives, one row each, from which all readers, `CONFIG GET` and `CONFIG REWRITE`
//! are derived. [`Config::load`] reads all [`Sources`], and returns a [`Config`], or a [`ConfigReport`] of all mistakes
//! with their places. A [`ConfigChange`] is a `CONFIG SET`. Files are reached through the trait [`Files`].
//!
//! Invariant: a [`Config`] is always valid, every value is in its range, and all fit together, so downstream code does
//! not check again. Whether the surroundings fit it (an existing folder, a free port) is for the server to check.

mod announce;
mod builder;
mod change;
mod claim;
mod conf_syntax;
mod conflicts;
pub mod directive;
mod enums;
mod files;
mod generators;
mod http;
pub mod ignored;
mod parse;
mod read;
mod reload;
mod report;
mod rewrite;
mod row;
mod seals;
mod secret_files;
pub mod secrets;
mod server_id;
mod stores;
pub mod suites;
mod toml;
mod value_error;
mod values;
mod workers;

use std::fmt;
use std::path::Path;

use getid_core::Layout;

use self::builder::Builder;
pub use self::change::{ConfigChange, SetError, SettingPair};
pub use self::conf_syntax::quote;
use self::directive::{Directive, Secrecy};
pub use self::enums::{
    BorrowPolicy, LogFormat, LogLevel, SequenceCreate, SequencePolicy, SequenceTable, StateKind, Supervised,
    SyslogFacility, TlsAuthClients, TlsAuthClientsUser,
};
pub use self::files::Files;
pub use self::generators::{GENERATORS_MAX, epoch};
pub use self::read::{FILE_BYTES_MAX, FILES_MAX, INCLUDE_DEPTH_MAX, Sources};
pub use self::reload::ReloadResult;
pub use self::report::{ConfigProblem, ConfigReport, SettingPlace, Warning};
pub use self::rewrite::{RewriteError, RewriteResult};
use self::row::ValueShape;
pub use self::seals::{SealKeysError, read_seal_keys};
pub use self::secret_files::{PasswordFileError, exposed_in_dir, read_password_file, read_store_password};
pub use self::server_id::ordinal;
pub use self::value_error::{counter_help, declaration_help, kind_meant};
use self::values::ConfigValues;
pub use self::values::{
    AnnounceConfig, BindAddr, ClaimConfig, ClientMemory, Config, HttpApi, HttpApis, HttpConfig, HttpOpen,
    INSTANCE_NAME_BYTES_MAX, OutputBufferLimit, OutputBufferLimits, POOLS_MAX, STORES_MAX, SequenceConfig,
    ServerIdSource, UserLine, WorkerPool,
};
use getid_seal::Sealers;
use getid_text::glob::Pattern;

impl Config {
    /// Returns the names of all declared generators: those that go by a clock first, then those over a sequence.
    pub fn generator_names(&self) -> impl Iterator<Item = &str> {
        let clocks = self.generators.iter().map(|declaration| declaration.name());
        clocks.chain(self.counters.iter().map(|counter| counter.name()))
    }

    /// Reads all sources: command line over environment over file over the built-in values.
    ///
    /// # Errors
    ///
    /// Returns a [`ConfigReport`] of all errors in all sources.
    pub fn load(sources: &Sources, files: &dyn Files) -> Result<(Config, Vec<Warning>), ConfigReport> {
        Config::load_and_compare(sources, files).map(|(config, warnings, _)| (config, warnings))
    }

    /// Reads all sources as [`Config::load`] does. Also returns the lines of files that the environment or the command
    /// line override.
    ///
    /// # Errors
    ///
    /// Fails as [`Config::load`] does.
    pub fn load_and_compare(
        sources: &Sources,
        files: &dyn Files,
    ) -> Result<(Config, Vec<Warning>, Vec<Warning>), ConfigReport> {
        let mut builder = Builder::new();
        read::read_all(sources, files, &mut builder);
        secret_files::read_password(sources, files, &mut builder);
        secret_files::read_store_passwords(files, &mut builder);
        seals::read_sealers(files, &Sealers::default(), &mut builder);
        let exposed = secret_files::exposed(&builder, files);
        let overridden = builder.overridden();
        let (config, mut warnings) = builder.finish().map_err(ConfigReport::new)?;
        warnings.extend(exposed);
        Ok((config, warnings, overridden))
    }

    /// Returns the values in force, for `CONFIG GET`: the directives whose name matches one of the patterns, in any
    /// letter case, each once.
    ///
    /// Redis's directives without a meaning here are included, with Redis's defaults: `save` is empty, `appendonly` no.
    pub fn get(&self, patterns: &[Pattern]) -> Vec<(&'static str, String)> {
        let matches = |name: &str| patterns.iter().any(|pattern| pattern.matches(name.as_bytes()));
        let own = Directive::ALL.iter().filter(|row| matches(row.name));
        let values = ConfigValues::of(self);
        let own = own.filter_map(|row| Some((row.name, row.shown(&values)?)));
        let known = ignored::IGNORED_DIRECTIVES.iter().filter(|row| matches(row.name));
        own.chain(known.filter_map(|row| Some((row.name, row.default?.to_owned())))).collect()
    }

    /// Makes paths that begin in `dir` absolute, for a process that does not enter it.
    pub fn resolve_paths(&mut self, dir: &Path) {
        let mut values = ConfigValues::of(self);
        for row in Directive::ALL {
            if let ValueShape::Path { in_dir: true, set, get, .. } = row.shape
                && let Some(path) = get(&values).map(|path| dir.join(path))
            {
                set(&mut values, Some(path));
            }
        }
        let stores = values.config.sequences.stores.iter_mut().chain(&mut values.config.claim.store);
        stores.for_each(|url| url.resolve_paths(dir));
        *self = values.config;
    }
}

impl Default for Config {
    /// Returns the built-in values, which are in the rows of the directives.
    fn default() -> Self {
        let mut values = ConfigValues::of(&Config::unset());
        for row in Directive::ALL.iter().filter(|row| !row.default.is_empty() && row.parts().is_empty()) {
            let line = [row.default.to_owned()];
            let words = row.words_in(&line).and_then(Result::ok).unwrap_or_else(|| line.to_vec());
            row.set(&mut values, &words).expect("a row's default is in its range");
        }
        let ConfigValues { config, id_range, shard_range, random_range, epoch, .. } = values;
        let layout = Layout::new(epoch, id_range, shard_range, random_range).expect("the rows' widths make a layout");
        Config { layout, bind_given: false, server_id_from: ServerIdSource::Default, ..config }
    }
}

/// Shows the directives, except for secrets.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Directive::ALL.iter().filter(|row| row.secrecy == Secrecy::Open);
        let values = ConfigValues::of(self);
        f.debug_map().entries(shown.filter_map(|row| Some((row.name, row.shown(&values)?)))).finish()
    }
}
