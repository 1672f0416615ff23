//! `SENTINEL`: masters, and the other servers that answer for them, with the fields of Redis 7.0's Sentinel in its
//! order. Some libraries read them by position.

use crate::Server;
use crate::logging::throttle::throttled;
use crate::master::Master;
use crate::registry::{Client, ConnectionAddr};
use getid_engine::claim::status::ClaimRole;
use getid_redis::command::node_id;
use getid_redis::resp::{ErrorKind, ErrorReply, Value};
use getid_redis::session::{MasterName, NO_SUCH_MASTER, SentinelEffect};
use getid_system::clock::Clock as _;
use getid_text::host_port::HostPort;
use getid_text::printable::printable;

type Reply = Result<Value, ErrorReply>;

pub(super) async fn perform(server: &Server, effect: SentinelEffect, client: &Client) -> Value {
    let found = Found::read(server, &client.local, needs_others(server, effect)).await;
    let reply = match effect {
        SentinelEffect::Address(name) => Ok(found.address(name)),
        SentinelEffect::Masters => Ok(found.all_masters()),
        SentinelEffect::Master(name) => found.master_state(name),
        // A standby gives no IDs, and some libraries read from replicas.
        SentinelEffect::Replicas(name) => found.master(name).map(|_| Value::Array(Vec::new())),
        SentinelEffect::Sentinels(name) => {
            found.master(name).map(|_| Value::Array(found.sentinels(name).iter().map(Sentinel::state).collect()))
        }
        SentinelEffect::CheckQuorum(name) => found.check_quorum(name),
        SentinelEffect::MyId => {
            Ok(Value::bulk(server.process.announced.as_ref().map_or_else(|| server.process.run_id.clone(), node_id)))
        }
    };
    reply.unwrap_or_else(Value::Error)
}

/// Returns true if the answer needs the claims of other server-ids, for which the claim store is read.
fn needs_others(server: &Server, effect: SentinelEffect) -> bool {
    let is_other = |name| !is_own(server, name);
    match effect {
        SentinelEffect::Masters => true,
        // They list the servers of other server-ids too.
        SentinelEffect::Master(name) | SentinelEffect::Sentinels(name) | SentinelEffect::CheckQuorum(name) => {
            name != MasterName::Own
        }
        SentinelEffect::Address(name) | SentinelEffect::Replicas(name) => is_other(name),
        SentinelEffect::MyId => false,
    }
}

/// Returns true for the names of this server's own server-id.
fn is_own(server: &Server, name: MasterName) -> bool {
    match name {
        MasterName::Own => true,
        MasterName::Of(server_id) => server.own_server_id() == Some(server_id),
    }
}

/// The masters that this server knows.
struct Found<'a> {
    server: &'a Server,
    own: Option<Master>,
    others: Vec<Master>,
    now_ms: u64,
}

impl Found<'_> {
    async fn read<'a>(server: &'a Server, reached_at: &ConnectionAddr, with_others: bool) -> Found<'a> {
        let own = server.own_master(reached_at);
        let others = if with_others { server.other_masters().await } else { Vec::new() };
        let now_ms = server.issuer().clock().wall_unix_ms().max(0).cast_unsigned();
        Found { server, own, others, now_ms }
    }

    /// Returns the master of this name, or an error with the reason why there is none.
    fn master(&self, name: MasterName) -> Result<&Master, ErrorReply> {
        let is_own = is_own(self.server, name);
        let master = match name {
            _ if is_own => self.own.as_ref(),
            MasterName::Of(server_id) => self.others.iter().find(|master| master.server_id == server_id),
            MasterName::Own => None,
        };
        master.ok_or_else(|| {
            let why = if is_own { self.why_unknown() } else { "no server holds this server-id now".to_owned() };
            ErrorReply::new(ErrorKind::Unavailable, format!("{NO_SUCH_MASTER}: {why}"))
        })
    }

    /// Returns why this server does not know the master of its own server-id.
    fn why_unknown(&self) -> String {
        let status = self.server.claim().map(|claim| claim.status()).unwrap_or_default();
        if status.role == ClaimRole::Standby {
            return printable(status.reason()).into_owned();
        }
        let error = if status.error.is_empty() { "the hold has ended" } else { &status.error };
        format!(
            "this server held it until the claim store stopped answering, and another may hold it now: {}",
            printable(error)
        )
    }

    /// Returns host and port, or the null array: clients then ask their next Sentinel.
    fn address(&self, name: MasterName) -> Value {
        match self.master(name).map(|master| self.announced(master)) {
            Ok(Ok(address)) => {
                Value::Array(vec![Value::from(address.host.as_str()), Value::bulk(address.port.to_string())])
            }
            Ok(Err(_)) | Err(_) => Value::NullArray,
        }
    }

    /// Returns the address of a master, or an error with the remedy, which is logged too.
    fn announced<'m>(&self, master: &'m Master) -> Result<&'m HostPort, ErrorReply> {
        master.address.as_ref().ok_or_else(|| {
            let text = format!(
                "server-id {} is held by {}, which has not announced an address that clients can connect to; set \
                 announce-address there",
                master.server_id,
                printable(&master.name)
            );
            throttled!(self.server.throttle, NoMasterAddress, "a client asked for the holder's address, but {text}");
            ErrorReply::new(ErrorKind::Unavailable, format!("ERR {text}"))
        })
    }

    fn master_state(&self, name: MasterName) -> Reply {
        let master = self.master(name)?;
        Ok(self.state(name, master, self.announced(master)?))
    }

    /// Returns the state of each master with an address, once for each of its names.
    fn all_masters(&self) -> Value {
        let own =
            self.own.iter().flat_map(|own| [MasterName::Own, MasterName::Of(own.server_id)].map(|name| (name, own)));
        let others = self.others.iter().map(|other| (MasterName::Of(other.server_id), other));
        let states = own
            .chain(others)
            .filter_map(|(name, master)| self.announced(master).ok().map(|address| self.state(name, master, address)));
        Value::Array(states.collect())
    }

    /// Returns the state of a master.
    fn state(&self, name: MasterName, master: &Master, address: &HostPort) -> Value {
        let number = |number: u64| number.to_string();
        let silent = || number(master.silent_ms);
        fields([
            ("name", name.to_string()),
            ("ip", address.host.clone()),
            ("port", address.port.to_string()),
            ("runid", node_id(address)),
            ("flags", "master".to_owned()),
            ("link-pending-commands", number(0)),
            ("link-refcount", number(1)),
            ("last-ping-sent", number(0)),
            ("last-ok-ping-reply", silent()),
            ("last-ping-reply", silent()),
            ("down-after-milliseconds", number(master.timeout_ms)),
            ("info-refresh", silent()),
            ("role-reported", "master".to_owned()),
            ("role-reported-time", number(self.now_ms.saturating_sub(master.since_unix_ms))),
            ("config-epoch", number(0)),
            ("num-slaves", number(0)),
            ("num-other-sentinels", number(self.sentinels(name).len() as u64)),
            ("quorum", number(1)),
            ("failover-timeout", number(master.timeout_ms)),
            ("parallel-syncs", number(1)),
        ])
    }

    /// Returns the other servers that answer for a name, each once. `getid` has another meaning at servers of other
    /// server-ids.
    fn sentinels(&self, name: MasterName) -> Vec<Sentinel> {
        let holders = self.own.iter().chain(if name == MasterName::Own { &[][..] } else { &self.others });
        let of_holder = |master: &Master| {
            let Master { silent_ms, timeout_ms, .. } = *master;
            Some(Sentinel { address: master.address.clone()?, silent_ms, timeout_ms })
        };
        // Nothing is known of their health.
        let peers = if self.server.claim().is_some() { self.server.config.get().announced_peers() } else { Vec::new() };
        let peers = peers.into_iter().map(|address| Sentinel { address, silent_ms: 0, timeout_ms: 0 });
        let mut all: Vec<Sentinel> = Vec::new();
        for sentinel in holders.filter(|master| !master.is_this_server).filter_map(of_holder).chain(peers) {
            let is_this_server = self.server.process.announced.as_ref() == Some(&sentinel.address);
            if !is_this_server && all.iter().all(|other| other.address != sentinel.address) {
                all.push(sentinel);
            }
        }
        all
    }

    /// Returns `OK`, or an error if no standby could take over: the claim store does not answer.
    fn check_quorum(&self, name: MasterName) -> Reply {
        self.master(name)?;
        let error = self.server.claim().map(|claim| claim.status().error.clone()).unwrap_or_default();
        if !error.is_empty() {
            let text =
                format!("NOQUORUM no standby can take over until the claim store answers: {}", printable(&error));
            return Err(ErrorReply::new(ErrorKind::Unavailable, text));
        }
        let usable = 1 + self.sentinels(name).len();
        let text = format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached");
        Ok(Value::Simple(text.into()))
    }
}

/// Another server that answers `SENTINEL`.
struct Sentinel {
    address: HostPort,
    silent_ms: u64,
    timeout_ms: u64,
}

impl Sentinel {
    /// Returns the state of the server.
    fn state(&self) -> Value {
        let silent = || self.silent_ms.to_string();
        fields([
            ("name", node_id(&self.address)),
            ("ip", self.address.host.clone()),
            ("port", self.address.port.to_string()),
            ("runid", node_id(&self.address)),
            ("flags", "sentinel".to_owned()),
            ("link-pending-commands", "0".to_owned()),
            ("link-refcount", "1".to_owned()),
            ("last-ping-sent", "0".to_owned()),
            ("last-ok-ping-reply", silent()),
            ("last-ping-reply", silent()),
            ("down-after-milliseconds", self.timeout_ms.to_string()),
            ("last-hello-message", silent()),
            ("voted-leader", "?".to_owned()),
            ("voted-leader-epoch", "0".to_owned()),
        ])
    }
}

/// Returns a map of bulk strings.
fn fields<const N: usize>(fields: [(&'static str, String); N]) -> Value {
    Value::map(fields.map(|(name, text)| (name, Value::bulk(text))))
}
