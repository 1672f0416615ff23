//! Options that select the IDs a tool works on: by their layout, or by their generator.

use std::path::PathBuf;

use clap::Args;
use getid_core::{DeclarationError, Epoch, Layout};

use getid_config::{Config, Sources, counter_help, declaration_help, epoch, kind_meant};
use getid_server::config_files::RealFiles;
use getid_text::plural::counted;
use getid_text::printable::printable_up_to;
use getid_text::suggest::did_you_mean;
use getid_text::timestamp;
use getid_text::zone::Zone;
use getid_tools::recognition::shaped;
use getid_tools::subject::{Subject, SubjectError};

/// Flags that divide the bits of IDs.
///
/// What they leave open is as for a server that starts here with this file: environment over file over defaults. So in
/// a server's container no flag is needed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Layout (as the servers have it)")]
pub(super) struct LayoutArgs {
    /// The servers' configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Bits of the server-id
    #[arg(long, value_name = "BITS")]
    id_range: Option<u32>,
    /// Bits of the shard
    #[arg(long, value_name = "BITS")]
    shard_range: Option<u32>,
    /// Bits of the random part
    #[arg(long, value_name = "BITS")]
    random_range: Option<u32>,
    /// When IDs start to count: Unix ms, RFC 3339, or a date in UTC
    #[arg(long, value_name = "TIME")]
    epoch: Option<String>,
}

/// Flags that select the IDs that a tool works on.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Layout (as the servers have it)")]
pub(super) struct SubjectArgs {
    /// A kind or the words of a declaration, as in 'twitter epoch 2016-01-01T00:00:00Z'
    ///
    /// `getid layout --list` shows the kinds. Constants need no values, because IDs contain them.
    #[arg(long = "layout", value_name = "WORDS", conflicts_with_all = UNNAMED)]
    #[arg(conflicts_with_all = ["generator", "config"])]
    words: Option<String>,
    /// A generator of the configuration; `-` is the unnamed one
    #[arg(long, value_name = "NAME", conflicts_with_all = UNNAMED, allow_hyphen_values = true)]
    generator: Option<String>,
    #[command(flatten)]
    unnamed: LayoutArgs,
}

/// Name by which `--generator` selects the unnamed generator. No generator may have this name.
const UNNAMED_NAME: &str = "-";

/// Largest number of generators that an error names.
const NAMED_MAX: usize = 10;

/// Names of the flags for the unnamed generator's layout.
const UNNAMED: [&str; 4] = ["id_range", "shard_range", "random_range", "epoch"];

impl SubjectArgs {
    /// Returns the subject that the flags select, or all errors in them.
    pub(super) fn subject(&self) -> Result<Subject, String> {
        match (&self.words, &self.generator) {
            (Some(words), _) => parse_declared("--layout", words),
            (None, Some(name)) if name == UNNAMED_NAME => self.unnamed.layout().map(Subject::Unnamed),
            (None, Some(name)) => generator(&self.unnamed.load()?, name),
            (None, None) => self.unnamed.layout().map(Subject::Unnamed),
        }
    }

    /// Returns the possible subjects. If the flags name one, it is the only one. Otherwise the unnamed generator comes
    /// first, then the configuration's generators, then the kinds that an ID's shape shows.
    pub(super) fn subjects(&self) -> Result<Vec<Subject>, String> {
        if self.words.is_some() || self.generator.is_some() || self.unnamed.has_layout() {
            return Ok(vec![self.subject()?]);
        }
        let config = self.unnamed.load()?;
        let mut subjects = vec![Subject::Unnamed(self.unnamed.layout_over(config.layout)?)];
        subjects.extend(all_generators(&config));
        subjects.extend(shaped());
        Ok(subjects)
    }

    /// Returns the configured generator of this name, or the kind.
    pub(super) fn generator_or_kind(&self, word: &str) -> Result<Subject, String> {
        let config = match self.unnamed.load() {
            Ok(config) => Some(config),
            // A kind needs no configuration, but a configuration that was named must be readable.
            Err(_) if self.unnamed.config.is_none() => None,
            Err(error) => return Err(error),
        };
        let generators: Vec<Subject> = config.iter().flat_map(all_generators).collect();
        if let Some(subject) = generators.iter().find(|subject| subject.name() == Some(word)) {
            return Ok(subject.clone());
        }
        let similar = || did_you_mean(word, generators.iter().filter_map(Subject::name));
        parse_declared("the layout", word).map_err(|error| match similar().filter(|_| kind_meant(word).is_none()) {
            Some(similar) => format!("no kind and no generator has the name '{word}'; did you mean '{similar}'?"),
            None => error,
        })
    }
}

/// Returns all generators of a configuration.
fn all_generators(config: &Config) -> impl Iterator<Item = Subject> {
    let clocks = config.generators.iter().map(|declaration| Subject::Declared(Box::new((**declaration).clone())));
    clocks.chain(config.counters.iter().map(|counter| Subject::Counted(Box::new((**counter).clone()))))
}

/// Returns the generator of this name. Fails with the names that exist.
fn generator(config: &Config, name: &str) -> Result<Subject, String> {
    let subjects: Vec<Subject> = all_generators(config).collect();
    if let Some(subject) = subjects.iter().find(|subject| subject.name() == Some(name)) {
        return Ok(subject.clone());
    }
    let names = || subjects.iter().filter_map(Subject::name);
    let meant = match did_you_mean(name, names()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if subjects.is_empty() => "it has none; --config FILE names the servers' configuration".to_owned(),
        None => {
            let more = if subjects.len() > NAMED_MAX { ", ..." } else { "" };
            format!("it has {}{more}", names().take(NAMED_MAX).collect::<Vec<_>>().join(", "))
        }
    };
    Err(format!("--generator {}: the configuration has no such generator; {meant}", printable_up_to(name, 64)))
}

/// Parses the declaration `words`. Fails with all errors; `place` is where the words come from.
pub(super) fn parse_declared(place: &str, words: &str) -> Result<Subject, String> {
    Subject::parse(words, epoch, Zone::check).map_err(|errors| match errors.as_slice() {
        [error] => format!("{place}: {}", sentence(error)),
        errors => {
            let lines: Vec<_> = errors.iter().map(|error| format!("\n  {}", sentence(error))).collect();
            format!("{place} has {}:{}", counted(errors.len() as u64, "mistake"), lines.concat())
        }
    })
}

impl LayoutArgs {
    /// Returns the layout that the flags set. Fails if they do not fit together.
    pub(super) fn layout(&self) -> Result<Layout, String> {
        self.layout_over(self.load()?.layout)
    }

    /// Whether a flag sets a part of the unnamed generator's layout.
    fn has_layout(&self) -> bool {
        self.id_range.is_some() || self.shard_range.is_some() || self.random_range.is_some() || self.epoch.is_some()
    }

    fn load(&self) -> Result<Config, String> {
        let sources =
            Sources { file: self.config.clone(), environment: std::env::vars_os().collect(), ..Sources::default() };
        // Warnings are for the operator who starts the server.
        let (config, _) = Config::load(&sources, &RealFiles).map_err(|report| format!("configuration:\n{report}"))?;
        Ok(config)
    }

    /// Returns the path of the servers' configuration file, if it was given.
    pub(super) fn config(&self) -> Option<PathBuf> {
        self.config.clone()
    }

    /// Returns `base` with the given flags applied.
    pub(super) fn layout_over(&self, base: Layout) -> Result<Layout, String> {
        let epoch = match &self.epoch {
            None => base.epoch(),
            Some(text) => {
                let unix_ms = timestamp::parse_unix_ms(text).map_err(|error| format!("--epoch: {error}"))?;
                u64::try_from(unix_ms)
                    .ok()
                    .and_then(Epoch::from_unix_ms)
                    .ok_or_else(|| format!("--epoch {text}: must be Unix ms 0 to {}", Epoch::UNIX_MS_MAX))?
            }
        };
        Layout::new(
            epoch,
            self.id_range.unwrap_or(base.server_bits()),
            self.shard_range.unwrap_or(base.shard_bits()),
            self.random_range.unwrap_or(base.random_bits()),
        )
        .map_err(|error| error.to_string())
    }
}

/// Formats an error, with its remedy where the error does not show it.
fn sentence(error: &SubjectError) -> String {
    let help = match error {
        SubjectError::Declaration(DeclarationError::Kind { word }) => {
            Some(kind_meant(word).unwrap_or_else(|| "'getid layout --list' shows the kinds".to_owned()))
        }
        SubjectError::Declaration(error) => declaration_help(error),
        SubjectError::Counter(error) => counter_help(error),
    };
    match help {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}
