//! `getid check-config`: the report of a start, without the start.

use std::io::{self, Write};
use std::process::ExitCode;

use super::output::{finish, print};
use super::serve::pid_file::PidFile;
use super::serve::startup::{self, Purpose, Startup};
use crate::claim::{Folder, Identity, check_record};
use crate::config::{Config, Report, StateKind};
use crate::generators::end_of_life;
use crate::server::listen;
use crate::server::tls;
use crate::system::clock::wall_unix_ms;
use crate::system::files;

/// Checks the configuration that `getid serve` with the same words would use.
pub(super) fn run(words: Vec<String>) -> ExitCode {
    match load(words) {
        Ok(startup) => finish(print(|out| describe(out, &startup)), ExitCode::SUCCESS),
        Err(report) => {
            // The report is Redis's block, line by line; nothing is put before it.
            let _ = writeln!(io::stderr(), "{}", report.to_string().trim_end());
            ExitCode::FAILURE
        }
    }
}

fn load(words: Vec<String>) -> Result<Startup, Report> {
    let mut startup = Startup::load(words, Purpose::Check)?;
    let own_files = listen::files_of_a_start(startup.config.io_threads);
    let fitted = startup::fit_clients(&mut startup.config, own_files);
    startup.warnings.extend(fitted.unwrap_or_else(|too_few| Some(too_few.to_string())));
    let config = &startup.config;
    let soon = startup.makes_dir.then_some(config.state_dir.as_path());
    if let Some(path) = &config.logfile {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        files::can_append(&path, soon)
            .map_err(|error| Report::from_sentence(format!("can't open the log file {}: {error}", path.display())))?;
    }
    if let Some(settings) = tls::Settings::of(config) {
        let loaded = tls::Loaded::new(settings).map_err(|error| Report::from_sentence(error.to_string()))?;
        startup.warnings.extend(loaded.warnings(wall_unix_ms().div_euclid(1000)));
    }
    if let Some(path) = &config.pidfile {
        // As at a start, no reason not to serve.
        startup.warnings.extend(PidFile::check(path, soon).err().map(|error| format!("pidfile: {error}")));
    }
    listen::check_listening(config, soon).map_err(|error| Report::from_sentence(error.to_string()))?;
    if config.id_state == StateKind::File && !startup.makes_dir {
        let dir = config.state_dir.clone();
        let identity = Identity { server_id: config.server_id, layout: config.layout };
        check_record(&Folder {
            dir,
            identity,
            max_borrow_ms: config.id_max_borrow_ms,
            generators: config.generators.clone(),
        })
        .map_err(|error| Report::from_sentence(error.to_string()))?;
    }
    Ok(startup)
}

fn describe(out: &mut dyn Write, startup: &Startup) -> io::Result<()> {
    let config = &startup.config;
    for warning in &startup.warnings {
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
    )?;
    if let Some(line) = end_of_life::summary(&config.generators, wall_unix_ms()) {
        writeln!(out, "{line}")?;
    }
    let dir = config.state_dir.display();
    match config.id_state {
        StateKind::File if startup.makes_dir => writeln!(out, "state in {dir}, which will be made"),
        StateKind::File => writeln!(out, "state in {dir}"),
        StateKind::None => writeln!(out, "no state is kept (id-state none)"),
    }
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
