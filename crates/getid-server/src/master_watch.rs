//! Follows changes of masters: publishes them to subscribers, and closes the clients of a server that is a master no
//! longer.
//!
//! Many libraries keep the connection to a server whose role has changed, and would get errors from it for as long as
//! it runs. Redis's Sentinel publishes `+switch-master` and closes the clients of the old master. Here the old master
//! closes its own clients, and each server publishes what it sees in the claim store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Server;
use crate::master::{Master, holder_of, master_of};
use crate::master_events::MasterEvent;
use crate::registry::StopMode;
use getid_engine::claim::listing::{ClaimList, ClaimLister};
use getid_engine::claim::status::ClaimRole;
use getid_redis::resp::Protocol;
use getid_redis::session::{ClientView, MasterName};
use getid_system::clock::Clock as _;
use getid_text::host_port::HostPort;
use getid_text::plural::counted;

/// Interval at which the claims of other server-ids are read, while there are subscribers. It is also the longest time
/// between two checks of this server's own claim.
const OTHERS_EVERY: Duration = Duration::from_secs(1);

/// Commands of a RESP3 client that only listens. Each client may send them in RESP2 while it is subscribed.
const LISTENER_COMMANDS: [&str; 5] = ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ping"];

/// Runs for as long as it is polled. Ends at once without a claim store.
pub(super) async fn run(server: Arc<Server>) {
    let Some(claim) = server.claim() else { return };
    let (mut known, mut tenure) = (KnownMasters::default(), MasterTenure::default());
    loop {
        let status = claim.status();
        let clocks = server.issuer().clock().clocks();
        // Also one whose hold has ended or has not begun: its successor is a change.
        if let Some(holder) = holder_of(&status, clocks.wall_ms.max(0).cast_unsigned()) {
            let names = [MasterName::Own, MasterName::Of(holder.server_id)];
            server.publish(known.update(&holder, &names, Instant::now()));
        }
        // The start and the end of the time in which this server cannot read the store are no changes of the claim.
        server.update_role();
        let is_master = master_of(&status, clocks).is_some();
        let timeout = Duration::from_millis(status.timeout_ms);
        if let Some(why) = tenure.reason_to_close(status.role, is_master, timeout, Instant::now()) {
            server.close_clients_of_old_master(why);
        }
        // The last answer to clients, also before the first of them subscribed.
        if let Some(list) = server.claim_lister().and_then(ClaimLister::latest) {
            server.publish(known.update_others(&server, &list));
        }
        if server.master_events.has_subscribers() {
            let list = server.claims().await;
            server.publish(known.update_others(&server, &list));
        }
        let hold_ends = status.hold.map(|hold| Duration::from_nanos(hold.left_ns(server.issuer().clock().clocks())));
        let next = [hold_ends, tenure.closes_in(timeout, Instant::now())];
        let pause = next.into_iter().flatten().filter(|left| !left.is_zero()).fold(OTHERS_EVERY, Duration::min);
        // A notification in between is kept for the next round.
        let _ = tokio::time::timeout(pause, server.claim_changed.notified()).await;
    }
}

/// Address of the last known master of each name, and the time at which its claim was read.
#[derive(Debug, Default)]
struct KnownMasters(BTreeMap<MasterName, (HostPort, Instant)>);

impl KnownMasters {
    /// Returns the messages for the masters of a list.
    fn update_others(&mut self, server: &Server, list: &ClaimList) -> Vec<MasterEvent> {
        let Some(read_at) = list.read_at else { return Vec::new() };
        let others = server.other_masters_of(list);
        others.flat_map(|master| self.update(&master, &[MasterName::Of(master.server_id)], read_at)).collect()
    }

    /// Returns the messages for `names` if the master has another address than the last one. They are those that
    /// Redis's Sentinel publishes: some libraries only follow the second one, which names the old master as a replica.
    fn update(&mut self, master: &Master, names: &[MasterName], read_at: Instant) -> Vec<MasterEvent> {
        let Some(new) = &master.address else { return Vec::new() };
        let switch = |name: &MasterName| self.switch(*name, new, read_at);
        names.iter().filter_map(switch).flatten().collect()
    }

    /// Notes the master's address. Returns the messages if it was another one. Ignores a claim that was read before the
    /// last one: the list of all claims may be older than this server's own claim.
    fn switch(&mut self, name: MasterName, new: &HostPort, read_at: Instant) -> Option<[MasterEvent; 2]> {
        if self.0.get(&name).is_some_and(|(_, last_at)| *last_at > read_at) {
            return None;
        }
        let (old, _) = self.0.insert(name, (new.clone(), read_at)).filter(|(old, _)| old != new)?;
        let (old_host, old_port, new_host, new_port) = (&old.host, old.port, &new.host, new.port);
        let switched = format!("{name} {old_host} {old_port} {new_host} {new_port}");
        let at = format!("{old_host}:{old_port} {old_host} {old_port}");
        let demoted = format!("slave {at} @ {name} {new_host} {new_port}");
        let event = |channel, text| MasterEvent { channel, text };
        Some([event("+switch-master", switched), event("+slave", demoted)])
    }
}

/// Time in which this server is the master.
#[derive(Debug, Default)]
struct MasterTenure {
    is_holder: bool,
    /// Time since which this server is the holder, but its hold has ended.
    without_hold_since: Option<Instant>,
    /// Whether the clients were closed since then.
    is_closed: bool,
    /// Time of the last loss of the claim.
    lost_at: Option<Instant>,
}

impl MasterTenure {
    /// Notes the present state. Returns the reason to close the clients: the claim is lost, or the hold ended so long
    /// ago that another server may have taken it over. A client that asked for the master before a loss may connect
    /// after it, so the reason is returned again for a time-out after the loss.
    fn reason_to_close(
        &mut self,
        role: ClaimRole,
        is_master: bool,
        timeout: Duration,
        now: Instant,
    ) -> Option<&'static str> {
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
    /// Returns the time after which the clients of a holder without a hold are closed; `None` without such clients.
    fn closes_in(&self, timeout: Duration, now: Instant) -> Option<Duration> {
        let since = self.without_hold_since.filter(|_| !self.is_closed)?;
        Some(timeout.saturating_sub(now.duration_since(since)))
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
    /// Subscribers that only listen and monitors stay.
    fn close_clients_of_old_master(&self, why: &str) {
        let mut closed = 0_u64;
        for client in self.clients.alive() {
            if !client.is_http && !client.is_monitor() && !client.has_view(only_listens) {
                client.stop(StopMode::Drain);
                closed += 1;
            }
        }
        if closed > 0 {
            tracing::info!("{} closed, so that they look for the holder: {why}", counted(closed, "connection"));
        }
    }
}

/// Returns true for a subscriber that sends no other requests on its connection, as far as its last one shows.
fn only_listens(view: &ClientView) -> bool {
    view.is_subscribed() && (view.protocol == Protocol::Resp2 || LISTENER_COMMANDS.contains(&view.last_command))
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
        let begun = Instant::now();
        let s = |s| begun + Duration::from_secs(s);
        let mut known = KnownMasters::default();
        for address in ["a:1", "a:1", "", "a:1"] {
            assert_eq!(known.update(&at(address), &names, s(10)), [], "{address}");
        }
        let texts = |events: Vec<MasterEvent>| -> Vec<String> {
            events.iter().map(|event| format!("{}: {}", event.channel, event.text)).collect()
        };
        assert_eq!(
            texts(known.update(&at("[fd00::7]:2"), &names, s(20))),
            [
                "+switch-master: getid a 1 fd00::7 2",
                "+slave: slave a:1 a 1 @ getid fd00::7 2",
                "+switch-master: getid-3 a 1 fd00::7 2",
                "+slave: slave a:1 a 1 @ getid-3 fd00::7 2",
            ]
        );
        // A list that was read before.
        assert_eq!(known.update(&at("a:1"), &names[1..], s(19)), []);
        // With `server-id auto` the own server-id changes: `getid` has another master, and the events of both
        // server-ids stay apart.
        assert_eq!(known.update(&Master { server_id: 4, ..at("b:1") }, &[MasterName::Of(4)], s(20)), []);
        let own = Master { server_id: 4, ..at("b:1") };
        assert_eq!(
            texts(known.update(&own, &[MasterName::Own, MasterName::Of(4)], s(30))),
            ["+switch-master: getid fd00::7 2 b 1", "+slave: slave fd00::7:2 fd00::7 2 @ getid b 1"]
        );
        assert_eq!(
            texts(known.update(&at("c:1"), &names[1..], s(30))),
            ["+switch-master: getid-3 fd00::7 2 c 1", "+slave: slave fd00::7:2 fd00::7 2 @ getid-3 c 1"]
        );
    }

    #[test]
    fn clients_are_closed_once_for_a_long_end_of_the_hold_and_for_a_while_after_a_loss() {
        use ClaimRole::{Holder, Standby};
        let (mut tenure, begun, timeout) = (MasterTenure::default(), Instant::now(), Duration::from_secs(2));
        let steps = [
            // A standby has no tenure to end, and a holder is the master.
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
            let now = begun + Duration::from_secs(at_s);
            let closes = tenure.reason_to_close(role, is_master, timeout, now).is_some();
            assert_eq!(closes, expected, "{at_s} s");
            let closes_in = tenure.closes_in(timeout, now).map(|left| left.as_secs());
            assert_eq!(closes_in, matches!(at_s, 11 | 14).then_some(2).or((at_s == 12).then_some(1)), "{at_s} s");
        }
    }
}
