//! Checks whether everything that has a bound fits into the memory that the process may use. The kernel kills a process
//! that exceeds it at any moment, so the start warns beforehand.
//!
//! `docs/limits.md` has the same table for operators, and `tests/attack` fills it.

use getid_config::Config;
use getid_server::connection::KEPT_POOL_BYTES_MAX;
use getid_server::handshakes::handshakes_max;
use getid_server::monitor::MONITORS_BYTES_MAX;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The program without clients, bytes: 3 MiB at the start, measured, and room for logs in memory, users, named
/// generators and sequences.
const PROGRAM_BYTES: u64 = 8 * MIB;

/// An idle client, bytes: 1.1 KiB here and 3.8 KiB in the kernel, measured.
const CLIENT_BYTES: u64 = 5 * KIB;

/// A connection of the HTTP port, bytes, without the buffers that count towards `maxmemory-clients`. It is 4 KiB here
/// and 4 KiB in the kernel, measured, and a response too small to be counted (8 KiB).
#[cfg(feature = "http")]
const HTTP_CLIENT_BYTES: u64 = 16 * KIB;

/// The page's streams, bytes: 32 viewers, each with one event being sent and one queued, 64 KiB each.
#[cfg(feature = "http")]
const VIEWERS_BYTES: u64 = 32 * 2 * 64 * KIB;

/// TLS buffers of a client, bytes: an incomplete record (18 KiB), and unsent replies (rustls's limit of 64 KiB).
const TLS_CLIENT_BYTES: u64 = 82 * KIB;

/// TLS buffers of a handshake, bytes: one of its messages has 64 KiB at most, and comes in records.
const HANDSHAKE_BYTES: u64 = 82 * KIB;

/// Returns each bounded part, with the directive that bounds it and its bytes.
fn bounds(config: &Config, limit_bytes: u64) -> Vec<(String, u64)> {
    let threads = config.io_threads as u64 + u64::from(config.http.port != 0);
    let buffers = config.maxmemory_clients.bytes(Some(limit_bytes)) as u64;
    let (clients, http_clients) = (u64::from(config.maxclients), u64::from(config.http.clients_max));
    let mut all = vec![
        ("the program".to_owned(), PROGRAM_BYTES + threads * KEPT_POOL_BYTES_MAX as u64),
        // A growing request exists twice while it is copied.
        ("maxmemory-clients, and half of it for a moment".to_owned(), buffers.saturating_add(buffers / 2)),
        (format!("maxclients {clients}"), clients * CLIENT_BYTES),
        ("monitors".to_owned(), MONITORS_BYTES_MAX as u64),
    ];
    #[cfg(feature = "http")]
    if config.http.port != 0 {
        all.push((format!("http-max-clients {http_clients}"), http_clients * HTTP_CLIENT_BYTES + VIEWERS_BYTES));
    }
    let tls_clients = if config.tls_port == 0 { 0 } else { clients };
    let tls_http = if config.http.port != 0 && config.http.tls { http_clients } else { 0 };
    if tls_clients + tls_http > 0 {
        let handshakes = [tls_clients, tls_http].into_iter().filter(|clients| *clients > 0);
        let handshakes: u64 =
            handshakes.map(|clients| u64::from(handshakes_max(u32::try_from(clients).unwrap_or(u32::MAX)))).sum();
        let bytes = (tls_clients + tls_http) * TLS_CLIENT_BYTES + handshakes * HANDSHAKE_BYTES;
        all.push(("TLS for as many".to_owned(), bytes));
    }
    all
}

/// Returns a warning if the bounds add up to more than `limit_bytes`, the memory that the process may use. Returns
/// `None` if they fit, or if the limit is unknown.
pub(in crate::cli) fn warning(config: &Config, limit_bytes: Option<u64>) -> Option<String> {
    let limit_bytes = limit_bytes?;
    let bounds = bounds(config, limit_bytes);
    let sum = bounds.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if sum <= limit_bytes {
        return None;
    }
    let limit = limit_bytes / MIB;
    let remedy = "give it more memory, or lower maxclients, http-max-clients or maxmemory-clients";
    let unbounded = config.maxmemory_clients.bytes(Some(limit_bytes)) == usize::MAX;
    if unbounded {
        return Some(format!(
            "maxmemory-clients 0 is no bound: clients can make the kernel kill this server, whose memory limit is {limit} \
             MiB; set maxmemory-clients auto"
        ));
    }
    let parts: Vec<String> = bounds.iter().map(|(what, bytes)| format!("{} for {what}", bytes.div_ceil(MIB))).collect();
    Some(format!(
        "clients can make the kernel kill this server: its bounds add up to {} MiB of memory, and its limit is {limit}: {}; {remedy}",
        sum.div_ceil(MIB),
        parts.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_config::Sources;
    use getid_server::config_files::RealFiles;

    fn warned(words: &str, limit_mib: u64) -> Option<String> {
        let words = words.split_whitespace().map(str::to_owned).collect();
        let (config, _) = Config::load(&Sources { words, ..Sources::default() }, &RealFiles).expect("valid");
        warning(&config, Some(limit_mib * MIB))
    }

    #[test]
    #[cfg(feature = "http")]
    fn limits_that_documents_name_hold() {
        // The limits in docs/install.md and deploy/kubernetes; both have the HTTP port.
        let http = "--http-port 7880";
        assert_eq!(warned(http, 256), None);
        assert_eq!(warned(&format!("{http} --maxclients 2000 --http-max-clients 200"), 128), None);
        assert_eq!(warned("", 512), None);
    }

    #[test]
    fn a_warning_lists_bounds_above_the_limit() {
        let text = warned("--maxclients 20000 --maxmemory-clients 32mb", 128).expect("a warning");
        assert!(text.contains("and its limit is 128: "), "{text}");
        assert!(text.contains("48 for maxmemory-clients") && text.contains("98 for maxclients 20000"), "{text}");
        assert!(text.contains("lower maxclients"), "{text}");
        // `auto` follows the limit; the other memory of clients does not.
        assert!(warned("", 64).is_some());
        assert_eq!(warned("--maxclients 500", 64), None);
        let text = warned("--maxmemory-clients 0", 1 << 20).expect("a warning");
        assert!(text.starts_with("maxmemory-clients 0 is no bound"), "{text}");
        // The limit is unknown.
        assert_eq!(warning(&Config::default(), None), None);
    }

    #[test]
    fn tls_takes_memory_of_its_own() {
        let tls = "--tls-port 7891 --tls-cert-file a --tls-key-file b --tls-ca-cert-file c";
        assert!(warned(tls, 512).expect("a warning").contains("for TLS"), "{tls}");
        assert_eq!(warned(&format!("{tls} --maxclients 1000"), 256), None);
    }
}
