//! Which layout to read IDs with.

use std::path::PathBuf;

use clap::Args;
use getid_core::{Epoch, Layout};

use crate::config::RealFiles;
use crate::config::{Config, Sources};
use crate::text::timestamp;

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

impl LayoutArgs {
    /// The layout that the flags say, or what is wrong with them.
    pub(super) fn layout(&self) -> Result<Layout, String> {
        let sources =
            Sources { file: self.config.clone(), environment: std::env::vars_os().collect(), words: Vec::new() };
        // Warnings are for who starts the server.
        let (config, _) = Config::load(&sources, &RealFiles).map_err(|report| format!("configuration:\n{report}"))?;
        self.layout_over(config.layout)
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
