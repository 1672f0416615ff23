//! Log lines of a start.

use std::io::IsTerminal as _;
use std::net::{SocketAddr, TcpListener};

use getid_core::SavePoint;

use super::fleet::FleetMember;
use getid_config::StateKind;
use getid_engine::generators::end_of_life;
use getid_server::Server;
use getid_server::listen::Listener;
use getid_system::clock::Clock as _;
use getid_text::plural::counted;
use getid_text::timestamp;

/// Returns the last line of a start, which people and scripts wait for, with hints about the next steps.
pub(super) fn ready_line(server: &Server, listeners: &[Listener], http: &[TcpListener]) -> String {
    let config = server.config.get();
    let scheme = if config.http.tls { "https" } else { "http" };
    let http: Vec<SocketAddr> = http.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let addresses = listeners.iter().map(Listener::address);
    let addresses: Vec<String> = addresses.chain(http.iter().map(|address| format!("{scheme}://{address}"))).collect();
    let file = match server.process.config_file.as_str() {
        "" => "no configuration file".to_owned(),
        file => format!("configuration {file}"),
    };
    let line = format!(
        "Ready to accept connections on {} (pid {}, folder {}, {file})",
        addresses.join(", "),
        std::process::id(),
        config.state_dir.display(),
    );
    let is_read_here = config.logfile.is_none() && std::io::stdout().is_terminal();
    if !is_read_here {
        return line;
    }
    let mut next = Vec::new();
    if server.process.tcp_port > 0 && config.port == server.process.tcp_port {
        next.push(format!("in another terminal: getid get -p {}", config.port));
    }
    next.extend(http.first().map(|address| format!("in a browser: {scheme}://{}/", reached_at(*address))));
    if next.is_empty() { line } else { format!("{line}. Next, {}", next.join("; ")) }
}

/// Returns the address by which a program on this machine reaches a listener.
fn reached_at(address: SocketAddr) -> String {
    if address.ip().is_unspecified() { format!("localhost:{}", address.port()) } else { address.to_string() }
}

/// Logs what an operator should know at a start.
pub(super) fn banner(server: &Server, found: Option<SavePoint>) {
    let config = server.config.get();
    let layout = config.layout;
    let now_ms = server.issuer().clock().wall_unix_ms();
    let days_left = end_of_life::days_left(layout.last_unix_ms(), now_ms);
    tracing::info!(
        "server-id {} of {}; layout id-range {} shard-range {} random-range {}: {} ids a second without borrowing, until {} ({} left)",
        config.shown_server_id(),
        1_u64 << layout.server_bits(),
        layout.server_bits(),
        layout.shard_bits(),
        layout.random_bits(),
        layout.capacity_per_s(),
        timestamp::format_rfc3339(layout.last_unix_ms()),
        counted(days_left.max(0).unsigned_abs(), "day"),
    );
    if let Some(line) = end_of_life::summary(&config.generators, &config.counters, now_ms) {
        tracing::info!("{line}");
    }
    for sealer in config.sealers.iter() {
        tracing::info!("{}", sealer.summary());
    }
    if let Some(store) = &config.claim.store {
        FleetMember::banner(server, store, found);
        return;
    }
    let refusing = server.issuer().refusing();
    let status = server.issuer().status().mint;
    let dir = config.state_dir.display();
    let begin = timestamp::format_rfc3339(status.position.unix_ms(layout.epoch()));
    match (config.id_state, found) {
        (StateKind::File, Some(point)) if point.is_nothing() => {
            tracing::info!("state found in {dir}: no ID was given so far; continuing at {begin}");
        }
        (StateKind::File, Some(_)) => tracing::info!("state found in {dir}: continuing at {begin}"),
        (StateKind::File, None) => tracing::warn!(
            "no state found in {dir}, as at a first start: IDs begin {} ms ahead of the clock, past all IDs of a lost run, \
             unless the clock was set back since",
            config.id_max_borrow_ms
        ),
        (StateKind::None, _) => {}
    }
    let ahead_ms = status.position.ms_since(status.reference);
    if ahead_ms > status.max_borrow_ms {
        tracing::warn!(
            "IDs begin {ahead_ms} ms ahead of the clock and id-max-borrow-ms allows {}: no IDs until the clock is near \
             enough",
            status.max_borrow_ms
        );
    }
    if let Some(refusal) = refusing {
        tracing::error!("no IDs for now: {refusal}");
    }
}
