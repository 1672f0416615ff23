//! The directives of addresses that servers announce to clients: `announce-address` and `announce-peers`.
//!
//! A standby gives the holder's address, out of the claim's record, to clients that ask where the holder is. So the
//! address must be one that clients on other machines reach: a wildcard is refused, and loopback is warned about where
//! it is certainly wrong.

use std::net::IpAddr;

use super::parse::listed;
use super::report::DirectiveConflict;
use super::value_error::ValueError;
use super::values::{Config, ConfigValues};
use getid_redis::acl::Origin;
use getid_text::host_port::{HostMaybePort, HostPort};
use getid_text::store_url::StoreKind;

/// Largest number of peers: each is a node of every `CLUSTER SLOTS`, and an entry of every `SENTINEL SENTINELS`.
pub(super) const PEERS_MAX: usize = 16;

/// Stands for the name of the host, which only the system knows. No host has this name.
const HOST_NAME: &str = "?";

pub(super) fn set_address(values: &mut ConfigValues, word: &str) -> Result<(), ValueError> {
    values.config.announce.address = if word.is_empty() { None } else { Some(HostMaybePort::parse(word)?) };
    Ok(())
}

pub(super) fn address_text(values: &ConfigValues) -> String {
    values.config.announce.address.as_ref().map_or_else(String::new, HostMaybePort::to_string)
}

pub(super) fn set_peers(values: &mut ConfigValues, words: &[String]) -> Result<(), ValueError> {
    let mut peers = Vec::new();
    for word in listed(words) {
        let peer = HostMaybePort::parse(word)?;
        if peers.contains(&peer) {
            return Err(ValueError::PeerTwice { found: peer.to_string() });
        }
        peers.push(peer);
    }
    values.config.announce.peers = peers;
    Ok(())
}

pub(super) fn peer_words(values: &ConfigValues) -> Vec<String> {
    values.config.announce.peers.iter().map(HostMaybePort::to_string).collect()
}

impl Config {
    /// Returns the port of an announced address that has none: `port`, or `tls-port` where that is 0.
    fn announced_port(&self) -> Option<u16> {
        let ports = if self.bind.is_empty() { [0; 2] } else { [self.port, self.tls_port] };
        ports.into_iter().find(|port| *port != 0)
    }

    /// Whether the announced addresses have a port for TLS.
    pub fn announces_tls(&self) -> bool {
        let port = self.announced_address(HOST_NAME).map(|address| address.port);
        self.tls_port != 0 && port.is_some_and(|port| port == self.tls_port || self.port == 0)
    }

    /// Returns this server's address for clients: `announce-address`, or the first address of `bind` that another
    /// machine reaches, or the name of the host for a wildcard, or a loopback address. `None` without a TCP port. A
    /// link-local IPv6 address needs a scope, which other machines do not know.
    pub fn announced_address(&self, host_name: &str) -> Option<HostPort> {
        if let Some(address) = &self.announce.address {
            return Some(address.with_default_port(address.port().or_else(|| self.announced_port())?));
        }
        let port = self.announced_port()?;
        let ips = || self.bind.iter().map(|bind| bind.ip);
        let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let host = match ips().find(|ip| !ip.is_unspecified() && !ip.is_loopback() && !is_link_local(ip)) {
            Some(ip) => ip.to_string(),
            None if ips().any(|ip| ip.is_unspecified()) && !host_name.is_empty() => host_name.to_ascii_lowercase(),
            None => ips().find(|ip| !ip.is_unspecified())?.to_string(),
        };
        Some(HostPort { host, port })
    }

    /// Returns the addresses of `announce-peers`, each once.
    pub fn announced_peers(&self) -> Vec<HostPort> {
        let mut peers = Vec::new();
        for peer in &self.announce.peers {
            let Some(port) = peer.port().or_else(|| self.announced_port()) else { continue };
            let peer = peer.with_default_port(port);
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        peers
    }

    /// Whether clients on other machines reach the ports of Redis clients.
    fn serves_other_machines(&self) -> bool {
        self.announced_port().is_some() && self.bind.iter().any(|bind| Origin::of(bind.ip) == Origin::Elsewhere)
    }
}

/// Returns conflicts of the announced addresses with the rest of a configuration.
pub(super) fn conflicts(config: &Config) -> Vec<DirectiveConflict> {
    if config.announced_port().is_some() {
        return Vec::new();
    }
    let without_port = |address: &&HostMaybePort| address.port().is_none();
    let address = config.announce.address.iter().find(without_port).map(|address| ("announce-address", address));
    let peer = config.announce.peers.iter().find(without_port).map(|peer| ("announce-peers", peer));
    let conflict = |(name, address): (&'static str, &HostMaybePort)| {
        DirectiveConflict::new(
            &[name],
            format!("{name} is {address} without a port, and this server has no TCP port for it"),
            format!("write the port that clients connect to, such as {address}:7890, or set port or tls-port"),
        )
    };
    address.into_iter().chain(peer).map(conflict).collect()
}

/// Returns warnings about settings that may not be intended, each with its directive.
pub(super) fn warnings(config: &Config) -> Vec<(&'static str, String)> {
    [loopback_warning(config), port_warning(config), tls_port_warning(config)].into_iter().flatten().collect()
}

/// Warns about a loopback address that other machines get. A store that is a file is for servers of one machine.
fn loopback_warning(config: &Config) -> Option<(&'static str, String)> {
    let store = config.claim.store.as_ref().filter(|store| !matches!(store.kind(), StoreKind::Sqlite { .. }))?;
    let own = config.announced_address(HOST_NAME).filter(HostPort::is_loopback)?;
    let is_announced = config.announce.address.is_some();
    let effect = "so clients on other machines that ask where the holder is connect to themselves; set announce-address \
                  to an address of this machine that they reach";
    match config.announce.peers.iter().find(|peer| !peer.is_loopback()) {
        Some(peer) => Some(("announce-peers", format!("has {peer}, and this server's own address is {own}, {effect}"))),
        None if !is_announced && !store.is_local() && config.announce.peers.is_empty() => {
            let sentence = format!("is on another machine, and this server's own address is {own}, out of bind");
            Some(("claim-store", format!("{sentence}, {effect}, or to {own} if all clients are on this machine")))
        }
        None if is_announced && !store.is_local() && config.serves_other_machines() => {
            Some(("announce-address", format!("is {own}, while bind and claim-store are for other machines, {effect}")))
        }
        None => None,
    }
}

/// Warns about a port that clients of the other port get too.
fn tls_port_warning(config: &Config) -> Option<(&'static str, String)> {
    let needs_address = config.claim.store.is_some() || config.announce.cluster_emulation;
    let has_port = config.announce.address.as_ref().is_some_and(|address| address.port().is_some());
    let Config { port, tls_port, .. } = config;
    (needs_address && !has_port && *port != 0 && *tls_port != 0 && !config.bind.is_empty()).then(|| {
        let sentence = format!(
            "is {tls_port}, and clients that ask where the holder is get port {port}, also over TLS; set \
             announce-address to a host with the port that they use"
        );
        ("tls-port", sentence)
    })
}

/// Warns about a port that is certainly wrong. Behind NAT the announced host is none of `bind`.
fn port_warning(config: &Config) -> Option<(&'static str, String)> {
    let address = config.announce.address.as_ref()?;
    let (ip, port) = (address.ip()?, address.port()?);
    let is_bound = config.bind.iter().any(|bind| bind.ip == ip);
    let ports: Vec<_> = [config.port, config.tls_port].into_iter().filter(|port| *port != 0).collect();
    (is_bound && !ports.contains(&port)).then(|| {
        let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
        let listens =
            if ports.is_empty() { "no TCP port".to_owned() } else { format!("port {} only", ports.join(" and ")) };
        let sentence = format!("is {address}, an address of bind, but this server listens on {listens}");
        ("announce-address", sentence)
    })
}
