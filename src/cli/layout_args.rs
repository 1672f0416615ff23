//! Whose IDs a tool is about: which layout to read them with, or which generator's they are.

use std::path::PathBuf;

use clap::Args;
use getid_core::{COUNTER_KINDS, Declaration, DeclarationError, Epoch, Layout, kind_words};

use crate::config::{Config, RealFiles, Sources, declaration_help, epoch};
use crate::text::plural::counted;
use crate::text::printable::printable_up_to;
use crate::text::suggest::did_you_mean;
use crate::text::timestamp;
use crate::tools::subject::Subject;

/// Flags that say how the bits of IDs are divided.
///
/// What they leave open is as a server has it that starts here with this file: environment over file over defaults. So
/// in a server's container no flag is needed.
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

/// Flags that say whose IDs a tool is about.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Layout (as the servers have it)")]
pub(super) struct SubjectArgs {
    /// A kind or the words of a declaration, as in 'twitter epoch 2016-01-01T00:00:00Z'
    ///
    /// `getid layout --list` shows the kinds. Constants need no values, for IDs say them.
    #[arg(long = "layout", value_name = "WORDS", conflicts_with_all = UNNAMED)]
    #[arg(conflicts_with_all = ["generator", "config"])]
    words: Option<String>,
    /// A generator of the configuration
    #[arg(long, value_name = "NAME", conflicts_with_all = UNNAMED)]
    generator: Option<String>,
    #[command(flatten)]
    unnamed: LayoutArgs,
}

/// Generators that an error names.
const NAMED_MAX: usize = 10;

/// The flags of the unnamed generator's layout.
const UNNAMED: [&str; 4] = ["id_range", "shard_range", "random_range", "epoch"];

impl SubjectArgs {
    /// Whose IDs the flags say, or all that is wrong with them.
    pub(super) fn subject(&self) -> Result<Subject, String> {
        match (&self.words, &self.generator) {
            (Some(words), _) => declared("--layout", words),
            (None, Some(name)) => self.unnamed.generator(name),
            (None, None) => self.unnamed.layout().map(Subject::Unnamed),
        }
    }
}

/// What `words` declare, or all that is wrong with them; `place` is where they are from.
pub(super) fn declared(place: &str, words: &str) -> Result<Subject, String> {
    Subject::parse(words, epoch).map_err(|errors| match errors.as_slice() {
        [error] => format!("{place}: {}", sentence(error)),
        errors => {
            let lines: Vec<_> = errors.iter().map(|error| format!("\n  {}", sentence(error))).collect();
            format!("{place} has {}:{}", counted(errors.len() as u64, "mistake"), lines.concat())
        }
    })
}

impl LayoutArgs {
    /// The layout that the flags say, or what is wrong with them.
    pub(super) fn layout(&self) -> Result<Layout, String> {
        self.layout_over(self.load()?.layout)
    }

    fn load(&self) -> Result<Config, String> {
        let sources =
            Sources { file: self.config.clone(), environment: std::env::vars_os().collect(), ..Sources::default() };
        // Warnings are for who starts the server.
        let (config, _) = Config::load(&sources, &RealFiles).map_err(|report| format!("configuration:\n{report}"))?;
        Ok(config)
    }

    fn generator(&self, name: &str) -> Result<Subject, String> {
        let Config { generators, counters, .. } = self.load()?;
        let counted = counters.iter().map(|counter| counter.name());
        let names: Vec<_> = generators.iter().map(|declaration| declaration.name()).chain(counted).collect();
        if let Some(declaration) = generators.iter().find(|declaration| declaration.name() == name) {
            return Ok(Subject::Declared(Box::new(Declaration::clone(declaration))));
        }
        if let Some(counter) = counters.iter().find(|counter| counter.name() == name) {
            return Err(format!("--generator {name}: {}", no_layout(counter.word())));
        }
        let meant = match did_you_mean(name, names.iter().copied()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None if names.is_empty() => "it has none; --config FILE names the servers' configuration".to_owned(),
            None => {
                let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
                format!("it has {}{more}", names[..names.len().min(NAMED_MAX)].join(", "))
            }
        };
        Err(format!("--generator {}: the configuration has no such generator; {meant}", printable_up_to(name, 64)))
    }

    /// The servers' configuration file, if it was named.
    pub(super) fn config(&self) -> Option<PathBuf> {
        self.config.clone()
    }

    /// As `base`, but for the flags that were given.
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

/// A mistake, and the way out of it where the sentence does not show it.
fn sentence(error: &DeclarationError) -> String {
    let help = match error {
        DeclarationError::Kind { word } => Some(kind_help(word)),
        error => declaration_help(error),
    };
    match help {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}

/// The way out of a word that is no kind with a layout.
fn kind_help(word: &str) -> String {
    let word = word.to_ascii_lowercase();
    if COUNTER_KINDS.contains(&word.as_str()) {
        return no_layout(&word);
    }
    did_you_mean(&word, kind_words())
        .map_or_else(|| "'getid layout --list' shows the kinds".to_owned(), |meant| format!("did you mean '{meant}'?"))
}

/// What is said of a kind that counts, one of [`COUNTER_KINDS`].
fn no_layout(kind: &str) -> String {
    format!("a {kind} counts in a store of sequences and has no layout; DECODEID of a server reads its IDs")
}
