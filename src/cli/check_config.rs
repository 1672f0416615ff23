//! `getid check-config`: the checks and the report of a start, without the start.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use getid_core::server::Key;

use super::exit::{CliError, finish};
use super::output::{print, print_error};
use super::sequence::stores::{OpenStore, Stores, StoresError};
use super::serve::memory;
use super::serve::pid_file::PidFile;
use super::serve::startup::{self, LoadPurpose, Startup};
use getid_config::{Config, ConfigReport, StateKind};
use getid_engine::claim::{Folder, Identity, check_record};
use getid_engine::generators::end_of_life;
use getid_engine::generators::sequence::no_token_table;
use getid_server::listen;
use getid_server::tls;
use getid_store::sql::{ReserveRequest, StoreError, TableKind};
use getid_system::clock::wall_unix_ms;
use getid_system::files;
use getid_system::usage;
use getid_text::plural::counted;
use getid_text::printable::printable;
use getid_text::store_url::StoreUrl;
use getid_tools::paint::{bad_on_stderr, doubt, good};

/// The option that opens the sequence stores.
pub(super) const CONNECT: &str = "--connect";

/// Longest time for opening a store, and for each statement.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the configuration that `getid serve` with the same words would use.
pub(super) fn run(mut words: Vec<String>) -> Result<ExitCode, CliError> {
    let count = words.len();
    words.retain(|word| word != CONNECT);
    let connects = words.len() < count;
    match load(words) {
        Ok(startup) => {
            let mut faults = 0;
            let printed = print(|out| {
                describe(out, &startup)?;
                faults = stores(out, &startup, connects)?;
                Ok(())
            });
            finish(printed, if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(report) => {
            // The report is in Redis's block format: no line is put before it.
            let _ = writeln!(io::stderr(), "{}", bad_on_stderr(report.to_string().trim_end()));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn load(words: Vec<String>) -> Result<Startup, ConfigReport> {
    let mut startup = Startup::load(words, LoadPurpose::Check)?;
    let own_files = listen::files_at_start(&startup.config);
    let fitted = startup::fit_clients(&mut startup.config, own_files);
    startup.warnings.extend(fitted.unwrap_or_else(|too_few| vec![too_few.to_string()]));
    startup.warnings.extend(memory::warning(&startup.config, usage::memory_limit_bytes()));
    let config = &startup.config;
    let soon = startup.makes_dir.then_some(config.state_dir.as_path());
    if let Some(path) = &config.logfile {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        files::check_append(&path, soon).map_err(|error| {
            ConfigReport::from_sentence(format!("can't open the log file {}: {error}", path.display()))
        })?;
    }
    if let Some(settings) = tls::TlsSettings::of(config) {
        let loaded = tls::TlsConfigs::new(settings).map_err(|error| ConfigReport::from_sentence(error.to_string()))?;
        startup.warnings.extend(loaded.warnings(wall_unix_ms().div_euclid(1000)));
    }
    if let Some(path) = &config.pidfile {
        // As at a start, a pid file that cannot be written is only a warning.
        startup.warnings.extend(PidFile::check(path, soon).err().map(|error| format!("pidfile: {error}")));
    }
    listen::check_listening(config, soon).map_err(|error| ConfigReport::from_sentence(error.to_string()))?;
    if config.id_state == StateKind::File && config.claim.store.is_none() && !startup.makes_dir {
        let dir = config.state_dir.clone();
        let identity = Identity { server_id: config.server_id, layout: config.layout };
        check_record(&Folder {
            dir,
            identity,
            max_borrow_ms: config.id_max_borrow_ms,
            generators: config.generators.clone(),
        })
        .map_err(|error| ConfigReport::from_sentence(error.to_string()))?;
    }
    Ok(startup)
}

fn describe(out: &mut dyn Write, startup: &Startup) -> io::Result<()> {
    let config = &startup.config;
    for warning in startup.alarms.iter().chain(&startup.warnings) {
        writeln!(out, "{} {warning}", doubt("warning:"))?;
    }
    for overridden in &startup.overridden {
        writeln!(out, "note: {overridden}")?;
    }
    let layout = config.layout;
    writeln!(out, "{}", good("OK"))?;
    writeln!(out, "listens on {}", listens_on(config))?;
    writeln!(
        out,
        "server-id {}, id-range {} shard-range {} random-range {}",
        config.shown_server_id(),
        layout.server_bits(),
        layout.shard_bits(),
        layout.random_bits()
    )?;
    if let Some(line) = end_of_life::summary(&config.generators, &config.counters, wall_unix_ms()) {
        writeln!(out, "{line}")?;
    }
    let dir = config.state_dir.display();
    if let Some(store) = &config.claim.store {
        let hold_s = seconds(config.claim.timeout_ms / 4 * 3);
        writeln!(
            out,
            "claim of the server-id in {}: without this store, IDs are given for at most {hold_s} s",
            store.shown()
        )?;
        return writeln!(
            out,
            "notes of the claim in {dir}{}",
            if startup.makes_dir { ", which will be made" } else { "" }
        );
    }
    match config.id_state {
        StateKind::File if startup.makes_dir => writeln!(out, "state in {dir}, which will be made"),
        StateKind::File => writeln!(out, "state in {dir}"),
        StateKind::None => writeln!(out, "no state is kept (id-state none)"),
    }
}

/// Formats milliseconds as seconds.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000).trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Prints where sequences are kept, and with `connects` what is found there. Returns the number of unusable stores.
fn stores(out: &mut dyn Write, startup: &Startup, connects: bool) -> io::Result<usize> {
    let config = &startup.config;
    let urls = config.sequence_stores();
    if urls.is_empty() {
        writeln!(out, "no sequences are kept")?;
        return Ok(0);
    }
    if !connects {
        let shown: Vec<_> = urls.iter().map(StoreUrl::shown).collect();
        writeln!(out, "sequences in {} ({CONNECT} checks them)", shown.join(", "))?;
        return Ok(0);
    }
    let stores = match Stores::new(config, &config.state_dir, STORE_TIMEOUT) {
        Ok(stores) => stores,
        Err(error) => {
            out.flush()?;
            print_error(&error.to_string());
            return Ok(1);
        }
    };
    let has_tokens = config.http.port != 0 && config.http.apis.tinyid.is_some();
    let gapless = config.counters.iter().find(|counter| counter.gapless().is_some());
    let mut faults = 0;
    for index in 0..stores.count() {
        let store = &stores.all()[index];
        if startup.makes_dir && !store.is_shared() {
            writeln!(out, "sequences in {}, which will be made", store.shown())?;
            continue;
        }
        let found = stores.connect(index).and_then(|mut opened| {
            let loses = opened.about().warnings.first().filter(|_| store.is_shared()).cloned();
            Ok((describe_store(&mut opened, has_tokens)?, loses))
        });
        match found {
            Ok((lines, loses)) => {
                for line in lines {
                    writeln!(out, "{line}")?;
                }
                if let Some((warning, gapless)) = loses.zip(gapless) {
                    faults += 1;
                    out.flush()?;
                    print_error(&format!(
                        "generator {} is gapless, and {} may lose a number that was handed out: {}",
                        gapless.name(),
                        store.shown(),
                        printable(&warning)
                    ));
                }
            }
            // The store is locked by its only user, a running server or tool: not a fault.
            Err(StoresError::Locked { .. }) => {
                writeln!(out, "sequences in {}: in use by a running server or another tool", store.shown())?;
            }
            Err(error) => {
                faults += 1;
                out.flush()?;
                print_error(&error.to_string());
            }
        }
    }
    Ok(faults)
}

/// Describes an open store, and checks that its user has the rights that a server needs. Nothing is changed: the
/// statements name a sequence that does not exist.
fn describe_store(opened: &mut OpenStore<'_>, has_tokens: bool) -> Result<Vec<String>, StoresError> {
    let shown = opened.store.shown().to_owned();
    let about = opened.about().clone();
    let identity = if about.uuid.is_empty() { "not made yet".to_owned() } else { format!("store {}", about.uuid) };
    let count = loop {
        if let Some(count) = opened.read(|connection| connection.count())? {
            break count;
        }
    };
    if let Some(key) = Key::new(ABSENT_SEQUENCE)
        && opened.read(|connection| connection.row(&key))?.is_none()
    {
        let asks = [ReserveRequest { key, values: 1, floor: 0 }];
        opened.read(|connection| connection.reserve(&asks))?;
    }
    let ahead_s = (about.unix_ms - wall_unix_ms()) / 1000;
    let mut lines = vec![format!(
        "sequences in {shown}: {}, {identity}, {}",
        printable(&about.product),
        counted(count, "sequence")
    )];
    if about.unix_ms != 0 && ahead_s.abs() >= CLOCK_APART_S {
        lines.push(format!("warning: {shown}: its clock and this machine's are {} s apart", ahead_s.abs()));
    }
    if has_tokens {
        lines.push(match opened.read(|connection| connection.tokens())? {
            Some(tokens) => format!("{} of tiny_id_token for http-api tinyid", counted(tokens.len() as u64, "row")),
            None => format!("warning: http-api tinyid: {}", no_token_table(&shown)),
        });
    }
    lines.extend(about.warnings.iter().map(|warning| format!("warning: {shown}: {}", printable(warning))));
    if opened.store.table() != TableKind::Native {
        lines.extend(empty_segments(opened)?.iter().map(|error| format!("warning: {shown}: {}", printable(error))));
    }
    Ok(lines)
}

/// Returns the errors of rows whose step is 0, of which a server gives no value. They are named up to a maximum.
fn empty_segments(opened: &mut OpenStore<'_>) -> Result<Vec<String>, StoresError> {
    let (mut errors, mut after) = (Vec::new(), String::new());
    loop {
        let page = opened.read(|connection| connection.list(&after, PAGE_ROWS, false))?;
        for row in page.rows.iter().filter(|row| row.spec.cache == 0) {
            match opened.read(|connection| connection.row(&row.key)) {
                Err(StoresError::Store { error: StoreError::Refused(error), .. }) => errors.push(error),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if errors.len() == ROWS_NAMED_MAX {
                return Ok(errors);
            }
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(errors),
        }
    }
}

/// Rows of a page.
const PAGE_ROWS: u32 = 1000;

/// Largest number of wrong rows that are named.
const ROWS_NAMED_MAX: usize = 10;

/// A name that no sequence has.
const ABSENT_SEQUENCE: &str = "getid:check-config";

/// Difference of clocks above which a warning is printed, s. A period of serial numbers opens only within an hour.
const CLOCK_APART_S: i64 = 60;

fn listens_on(config: &Config) -> String {
    let mut places = Vec::new();
    let http = if config.http.tls { " (HTTPS)" } else { " (HTTP)" };
    for (port, binds, kind) in [
        (config.port, &config.bind[..], ""),
        (config.tls_port, &config.bind, " (TLS)"),
        (config.http.port, config.http_bind(), http),
    ] {
        if port == 0 {
            continue;
        }
        for bind in binds {
            let address = std::net::SocketAddr::new(bind.ip, port);
            let optional = if bind.optional { " if this address exists" } else { "" };
            places.push(format!("{address}{kind}{optional}"));
        }
    }
    places.extend(config.unixsocket.iter().map(|path| format!("unix socket {}", path.display())));
    if places.is_empty() { "nothing".to_owned() } else { places.join(", ") }
}
