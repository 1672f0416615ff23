//! `SENTINEL`: masters, and the other servers that answer for them, with the fields of Redis 7.0's Sentinel in its
//! order. Some libraries read them by position.

use std::collections::HashSet;

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
    let masters = MasterDirectory::read(server, &client.local, needed(server, effect)).await;
    let reply = match effect {
        SentinelEffect::Address(name) => Ok(masters.address(name)),
        SentinelEffect::Masters => Ok(masters.all_masters()),
        SentinelEffect::Master(name) => masters.master_state(name),
        // A standby gives no IDs, and some libraries read from replicas.
        SentinelEffect::Replicas(name) => masters.master(name).map(|_| Value::Array(Vec::new())),
        SentinelEffect::Sentinels(name) => {
            masters.master(name).map(|_| Value::Array(masters.sentinels(name).iter().map(Sentinel::state).collect()))
        }
        SentinelEffect::CheckQuorum(name) => masters.check_quorum(name),
        SentinelEffect::MyId => {
            Ok(Value::bulk(server.process.announced.as_ref().map_or_else(|| server.process.run_id.clone(), node_id)))
        }
    };
    reply.unwrap_or_else(Value::Error)
}

/// Masters of other server-ids that an answer needs. The claim store is read for them.
#[derive(Clone, Copy)]
enum OtherMasters {
    None,
    One(u32),
    All,
}

/// Returns the masters of other server-ids that the answer needs.
fn needed(server: &Server, effect: SentinelEffect) -> OtherMasters {
    match effect {
        // All but the first list the servers of other server-ids too.
        SentinelEffect::Masters
        | SentinelEffect::Master(MasterName::Of(_))
        | SentinelEffect::Sentinels(MasterName::Of(_))
        | SentinelEffect::CheckQuorum(MasterName::Of(_)) => OtherMasters::All,
        SentinelEffect::Address(name @ MasterName::Of(server_id))
        | SentinelEffect::Replicas(name @ MasterName::Of(server_id))
            if !is_own(server, name) =>
        {
            OtherMasters::One(server_id)
        }
        _ => OtherMasters::None,
    }
}

/// Returns true for the names of this server's own server-id.
fn is_own(server: &Server, name: MasterName) -> bool {
    match name {
        MasterName::Own => true,
        MasterName::Of(server_id) => server.own_server_id() == Some(server_id),
    }
}

/// Masters of the fleet, as the claims that this server has read name them.
struct MasterDirectory<'a> {
    server: &'a Server,
    own: Option<Master>,
    others: Vec<Master>,
    now_ms: u64,
}

impl MasterDirectory<'_> {
    async fn read<'a>(server: &'a Server, reached_at: &ConnectionAddr, needed: OtherMasters) -> MasterDirectory<'a> {
        let own = server.own_master(reached_at);
        let others = match needed {
            OtherMasters::None => Vec::new(),
            OtherMasters::One(server_id) => server.other_master(server_id).await.into_iter().collect(),
            OtherMasters::All => server.other_masters().await,
        };
        let now_ms = server.issuer().clock().wall_unix_ms().max(0).cast_unsigned();
        MasterDirectory { server, own, others, now_ms }
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
        if status.role == ClaimRole::Standby && status.holder.is_some() && !status.error.is_empty() {
            let holder = status.holder.as_ref().map_or("", |holder| &holder.name);
            return format!(
                "{} was silent for the time after which another server takes over, and this server cannot read whether \
                 one did: {}",
                printable(holder),
                printable(&status.error)
            );
        }
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
        Ok(self.state(name, master, self.announced(master)?, self.sentinels(name).len()))
    }

    /// Returns the state of each master with an address, once for each of its names.
    fn all_masters(&self) -> Value {
        // All names but `getid` have the same Sentinels, so they are counted once.
        let [of_own, of_others] = [MasterName::Own, MasterName::Of(0)].map(|name| self.sentinels(name).len());
        let own =
            self.own.iter().flat_map(|own| [MasterName::Own, MasterName::Of(own.server_id)].map(|name| (name, own)));
        let others = self.others.iter().map(|other| (MasterName::Of(other.server_id), other));
        let states = own
            .chain(others)
            .filter_map(|(name, master)| Some((name, master, self.announced(master).ok()?)))
            .map(|(name, master, address)| {
                let sentinels = if name == MasterName::Own { of_own } else { of_others };
                self.state(name, master, address, sentinels)
            });
        Value::Array(states.collect())
    }

    /// Returns the state of a master, which so many other Sentinels know.
    fn state(&self, name: MasterName, master: &Master, address: &HostPort, sentinels: usize) -> Value {
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
            ("num-other-sentinels", number(sentinels as u64)),
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
        let mut seen: HashSet<HostPort> = self.server.process.announced.iter().cloned().collect();
        let sentinels = holders.filter(|master| !master.is_this_server).filter_map(of_holder).chain(peers);
        sentinels.filter(|sentinel| seen.insert(sentinel.address.clone())).collect()
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
