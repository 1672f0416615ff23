//! Follows changes of masters: publishes them to subscribers, and closes the clients of a server that is a master no
//! longer.
//!
//! Many libraries keep the connection to a server whose role has changed, and would get errors from it for as long as
//! it runs. Redis's Sentinel publishes `+switch-master` and closes the clients of the old master. Here the old master
//! closes its own clients, and each server publishes what it sees in the claim store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::Server;
use crate::master::Master;
use crate::master_events::MasterEvent;
use crate::registry::StopMode;
use getid_engine::claim::status::ClaimRole;
use getid_redis::session::MasterName;
use getid_text::host_port::HostPort;
use getid_text::plural::counted;

/// Interval at which the claims of other server-ids are read, while there are subscribers.
const OTHERS_EVERY: Duration = Duration::from_secs(1);

/// Runs for as long as it is polled. Ends at once without a claim store.
pub(super) async fn run(server: Arc<Server>) {
    let Some(claim) = server.claim() else { return };
    let (mut own, mut others, mut service) = (KnownMasters::default(), KnownMasters::default(), Service::default());
    loop {
        // A notification in between is kept for the next round.
        let _ = timeout(OTHERS_EVERY, server.claim_changed.notified()).await;
        let status = claim.status();
        let mut events = Vec::new();
        // Also one whose hold has ended or has not begun: its successor is a change.
        if let Some(holder) = server.claim_holder() {
            events.extend(own.update(&holder, &[MasterName::Own, MasterName::Of(holder.server_id)]));
        }
        if server.master_events.has_subscribers() {
            for master in server.other_masters().await {
                events.extend(others.update(&master, &[MasterName::Of(master.server_id)]));
            }
        } else {
            others = KnownMasters::default();
        }
        server.publish(events);
        let timeout = Duration::from_millis(status.timeout_ms);
        if let Some(why) = service.end(status.role, server.claim_master().is_some(), timeout, Instant::now()) {
            server.close_clients_of_old_master(why);
        }
    }
}

/// Address of the last known master of each server-id.
#[derive(Debug, Default)]
struct KnownMasters(BTreeMap<u32, HostPort>);

impl KnownMasters {
    /// Returns the messages for `names` if the master has another address than the last one. They are those that
    /// Redis's Sentinel publishes: some libraries only follow the second one, which names the old master as a replica.
    fn update(&mut self, master: &Master, names: &[MasterName]) -> Vec<MasterEvent> {
        let Some(new) = &master.address else { return Vec::new() };
        let Some(old) = self.0.insert(master.server_id, new.clone()).filter(|old| old != new) else {
            return Vec::new();
        };
        let event = |channel, text| MasterEvent { channel, text };
        let (old_host, old_port, new_host, new_port) = (&old.host, old.port, &new.host, new.port);
        let switched = names
            .iter()
            .map(|name| event("+switch-master", format!("{name} {old_host} {old_port} {new_host} {new_port}")));
        let demoted = names.iter().map(|name| {
            let at = format!("{old_host}:{old_port} {old_host} {old_port}");
            event("+slave", format!("slave {at} @ {name} {new_host} {new_port}"))
        });
        switched.chain(demoted).collect()
    }
}

/// Whether this server serves as the master.
#[derive(Debug, Default)]
struct Service {
    is_holder: bool,
    /// Time since which this server is the holder, but its hold has ended.
    without_hold_since: Option<Instant>,
    /// Whether the clients were closed since then.
    is_closed: bool,
    /// Time of the last loss of the claim.
    lost_at: Option<Instant>,
}

impl Service {
    /// Notes the present state. Returns the reason to close the clients: the claim is lost, or the hold ended so long
    /// ago that another server may have taken it over. A client that asked for the master before a loss may connect
    /// after it, so the reason is returned again for a time-out after the loss.
    fn end(&mut self, role: ClaimRole, is_master: bool, timeout: Duration, now: Instant) -> Option<&'static str> {
        let was_holder = std::mem::replace(&mut self.is_holder, role == ClaimRole::Holder);
        if role == ClaimRole::Standby {
            (self.without_hold_since, self.is_closed) = (None, false);
            if was_holder {
                self.lost_at = Some(now);
            }
            let is_new = self.lost_at.is_some_and(|at| now.duration_since(at) <= timeout + OTHERS_EVERY);
            return is_new.then_some("this server is a standby now");
        }
        if is_master {
            (self.without_hold_since, self.is_closed) = (None, false);
            return None;
        }
        let since = *self.without_hold_since.get_or_insert(now);
        let is_over = now.duration_since(since) >= timeout && !self.is_closed;
        self.is_closed |= is_over;
        is_over.then_some("the claim store has not acknowledged a beat for so long that a standby may hold the claim")
    }
}

impl Server {
    /// Publishes messages, and wakes their subscribers.
    fn publish(&self, events: Vec<MasterEvent>) {
        if events.is_empty() {
            return;
        }
        self.master_events.publish(events);
        for client in self.clients.alive() {
            if client.is_subscribed() {
                client.wake();
            }
        }
    }

    /// Closes the clients of the Redis ports, after their replies, so that their libraries look for the new master.
    /// Subscribers and monitors stay.
    fn close_clients_of_old_master(&self, why: &str) {
        let mut closed = 0_u64;
        for client in self.clients.alive() {
            if !client.is_http && !client.is_subscribed() && !client.is_monitor() {
                client.stop(StopMode::Drain);
                closed += 1;
            }
        }
        if closed > 0 {
            tracing::info!("{} closed, so that they look for the holder: {why}", counted(closed, "connection"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_address_is_published_for_each_name_and_a_first_one_is_not() {
        let at = |address: &str| Master {
            server_id: 3,
            name: String::new(),
            address: HostPort::parse(address),
            since_unix_ms: 0,
            silent_ms: 0,
            timeout_ms: 0,
            is_this_server: false,
        };
        let names = [MasterName::Own, MasterName::Of(3)];
        let mut known = KnownMasters::default();
        for address in ["a:1", "a:1", "", "a:1"] {
            assert_eq!(known.update(&at(address), &names), [], "{address}");
        }
        let texts: Vec<_> = known.update(&at("[fd00::7]:2"), &names);
        let texts: Vec<_> = texts.iter().map(|event| (event.channel, event.text.as_str())).collect();
        assert_eq!(
            texts,
            [
                ("+switch-master", "getid a 1 fd00::7 2"),
                ("+switch-master", "getid-3 a 1 fd00::7 2"),
                ("+slave", "slave a:1 a 1 @ getid fd00::7 2"),
                ("+slave", "slave a:1 a 1 @ getid-3 fd00::7 2"),
            ]
        );
    }

    #[test]
    fn clients_are_closed_once_for_a_long_end_of_the_hold_and_for_a_while_after_a_loss() {
        use ClaimRole::{Holder, Standby};
        let (mut service, begun, timeout) = (Service::default(), Instant::now(), Duration::from_secs(2));
        let steps = [
            // A standby has nothing to end, and a holder serves.
            (0, Standby, true, false),
            (1, Holder, true, false),
            // The claim is lost, and clients that connect a little later are closed too.
            (2, Standby, true, true),
            (3, Standby, true, true),
            (5, Standby, true, true),
            (6, Standby, true, false),
            // A short outage of the store, and a long one after which the claim is lost.
            (10, Holder, true, false),
            (11, Holder, false, false),
            (12, Holder, false, false),
            (13, Holder, true, false),
            (14, Holder, false, false),
            (16, Holder, false, true),
            (18, Holder, false, false),
            (20, Standby, false, true),
        ];
        for (at_s, role, is_master, expected) in steps {
            let ends = service.end(role, is_master, timeout, begun + Duration::from_secs(at_s)).is_some();
            assert_eq!(ends, expected, "{at_s} s");
        }
    }
}
