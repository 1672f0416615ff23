//! `getid check-config`: the report of a start, without the start.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use super::access;
use super::output::{finish, print};
use super::sources::sources;
use crate::config::load::{RealFiles, check_dir};
use crate::config::{Config, Report, Warning};
use crate::{server, tls};

/// Checks the configuration that `getid serve` with the same words would use.
pub(super) fn run(words: Vec<String>) -> ExitCode {
    match load(words) {
        Ok((config, warnings)) => finish(print(|out| describe(out, &config, &warnings)), ExitCode::SUCCESS),
        Err(report) => {
            // The report is Redis's block, line by line; nothing is put before it.
            let _ = writeln!(io::stderr(), "{}", report.to_string().trim_end());
            ExitCode::FAILURE
        }
    }
}

fn load(words: Vec<String>) -> Result<(Config, Vec<Warning>), Report> {
    let (config, warnings) = Config::load(&sources(words), &RealFiles)?;
    server::rules(&config)?;
    check_dir(&config)?;
    // As in a start: paths are relative to `dir`.
    env::set_current_dir(&config.dir).map_err(|error| {
        Report::from_sentence(format!("dir: '{}' cannot be entered: {error}", config.dir.display()))
    })?;
    access::load_file(&config)?;
    if let Some(settings) = tls::Settings::of(&config) {
        tls::Acceptor::load(settings).map_err(|error| Report::from_sentence(error.to_string()))?;
    }
    Ok((config, warnings))
}

fn describe(out: &mut dyn Write, config: &Config, warnings: &[Warning]) -> io::Result<()> {
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let layout = config.layout;
    writeln!(out, "OK")?;
    writeln!(out, "listens on {}", listens_on(config))?;
    writeln!(
        out,
        "server-id {}, id-range {} shard-range {} random-range {}",
        config.server_id,
        layout.server_bits(),
        layout.shard_bits(),
        layout.random_bits()
    )
}

fn listens_on(config: &Config) -> String {
    let mut places = Vec::new();
    for (port, kind) in [(config.port, ""), (config.tls_port, " (TLS)")] {
        if port == 0 {
            continue;
        }
        for bind in &config.bind {
            let address = std::net::SocketAddr::new(bind.ip, port);
            let optional = if bind.optional { " if there is that address" } else { "" };
            places.push(format!("{address}{kind}{optional}"));
        }
    }
    places.extend(config.unixsocket.iter().map(|path| format!("unix socket {}", path.display())));
    if places.is_empty() { "nothing".to_owned() } else { places.join(", ") }
}
