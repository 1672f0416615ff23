//! What the log says of a start.

use std::io::IsTerminal as _;

use getid_core::SavePoint;

use crate::config::StateKind;
use crate::generators::end_of_life;
use crate::server::Server;
use crate::server::listen::Listener;
use crate::system::clock::Clock as _;
use crate::text::plural::counted;
use crate::text::timestamp;

/// The last line of a start, the one that people and scripts wait for, with what they ask next.
pub(super) fn ready_line(server: &Server, listeners: &[Listener]) -> String {
    let config = server.config.get();
    let addresses: Vec<String> = listeners.iter().map(Listener::address).collect();
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
    match (is_read_here, server.process.tcp_port) {
        (true, port) if port > 0 && config.port == port => {
            format!("{line}. Next, in another terminal: getid get -p {port}")
        }
        _ => line,
    }
}

/// What an operator wants to know at a start.
pub(super) fn banner(server: &Server, found: Option<SavePoint>) {
    let config = server.config.get();
    let layout = config.layout;
    let now_ms = server.issuer().clock().wall_unix_ms();
    let days_left = end_of_life::days_left(layout.last_unix_ms(), now_ms);
    tracing::info!(
        "server-id {} of {}; layout id-range {} shard-range {} random-range {}: {} ids a second without borrowing, until {} ({} left)",
        config.server_id,
        1_u64 << layout.server_bits(),
        layout.server_bits(),
        layout.shard_bits(),
        layout.random_bits(),
        layout.capacity_per_s(),
        timestamp::format_rfc3339(layout.last_unix_ms()),
        counted(days_left.max(0).unsigned_abs(), "day"),
    );
    if let Some(line) = end_of_life::summary(&config.generators, now_ms) {
        tracing::info!("{line}");
    }
    let refusing = server.issuer().refusing();
    let status = server.issuer().status().mint;
    let dir = config.state_dir.display();
    let begin = timestamp::format_rfc3339(status.position.unix_ms(layout.epoch()));
    match (config.id_state, found) {
        (StateKind::File, Some(point)) if point.is_nothing() => {
            tracing::info!("state found in {dir}: no ID was given so far; going on at {begin}");
        }
        (StateKind::File, Some(_)) => tracing::info!("state found in {dir}: going on at {begin}"),
        (StateKind::File, None) => tracing::warn!(
            "no state found in {dir}, as at a first start: IDs begin {} ms ahead of the clock, past any that a lost run gave, \
             unless the clock was set back since",
            config.id_max_borrow_ms
        ),
        (StateKind::None, _) => {}
    }
    let ahead_ms = status.position.ms_since(status.reference);
    if ahead_ms > status.max_borrow_ms {
        tracing::warn!(
            "IDs begin {ahead_ms} ms ahead of the clock and id-max-borrow-ms allows {}: no IDs before time has come that \
             far",
            status.max_borrow_ms
        );
    }
    if let Some(refusal) = refusing {
        tracing::error!("no IDs for now: {refusal}");
    }
}
