//! Machine ids of instances, which have no token: an instance is found by its name.
//!
//! A name has one id at all servers of the pool. A server answers one request for an id at a time, and lists the pool's
//! leases before it chooses one. Two servers with simultaneous requests of one name may still lease two ids to it. Both
//! are renewed and given back together, from a list that is a few seconds old, so neither goes to another instance.

use std::fmt::Write as _;
use std::time::Duration;

use getid_core::server::worker::{InstanceRequest, Lease, LeaseRefusal};
use tokio::time::Instant;

use super::{IdRequest, LeasePool};
use crate::workers::{MachineId, WorkerError, is_holder_name};

/// Longest age of the list of leases by which an instance's leases are renewed. Far below the usual minutes of a lease.
const RENEW_LIST_AGE: Duration = Duration::from_secs(5);

/// Number of attempts to give an instance its id while other servers do so too.
const DISTRIBUTE_ATTEMPTS: usize = 4;

/// Number of bytes of a long name that stay readable.
const READABLE_BYTES: usize = 15;

/// Number of bytes of a name's SHA-256 that stand for the rest of it.
const DIGEST_BYTES: usize = 24;

/// Returns the name under which an instance is stored: its own, or if that is no name of a holder, its first bytes and
/// 192 bits of its SHA-256.
pub(in crate::workers) fn stored_name(instance: &[u8]) -> String {
    // A name of the form that is made below is hashed too, so that no two instances share one.
    let is_made = instance
        .rsplit(|byte| *byte == b'-')
        .next()
        .is_some_and(|digest| digest.len() == 2 * DIGEST_BYTES && digest.iter().all(u8::is_ascii_hexdigit));
    if let Some(name) = std::str::from_utf8(instance).ok().filter(|_| is_holder_name(instance) && !is_made) {
        return name.to_owned();
    }
    let readable = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { '_' };
    let mut name: String = instance.iter().take(READABLE_BYTES).map(readable).collect();
    name.push('-');
    for byte in &ring::digest::digest(&ring::digest::SHA256, instance).as_ref()[..DIGEST_BYTES] {
        // A write to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

impl LeasePool {
    /// Returns the machine id of an instance: its own, or a new one. The caller holds `distributing`.
    pub(in crate::workers) async fn distribute(&self, asked: &InstanceRequest<'_>) -> Result<MachineId, WorkerError> {
        let begun = Instant::now();
        let (pool, longest_ms) = (self.name.clone(), self.rules.longest_ms);
        if let Some(guard_ms) = asked.guard_ms.filter(|guard_ms| *guard_ms > longest_ms) {
            return Err(WorkerError::GuardTooLong { pool, guard_ms, longest_ms });
        }
        self.look_since(Some(begun)).await?;
        self.list_if_old().await?;
        for _ in 0..DISTRIBUTE_ATTEMPTS {
            // An id that this server knows needs no list: its record is compared by the write.
            if let Some(machine) = self.distribute_own(asked).await? {
                return Ok(machine);
            }
            self.list_since(begun).await?;
            if let Some(machine) = self.distribute_own(asked).await? {
                return Ok(machine);
            }
            let (id, lease) = self.grant(&IdRequest::Instance(*asked)).await?;
            // The lease may be one that another server has just given to the instance, for another request.
            let again = lease.begun_again(&self.rules, id, asked, self.host.now_ms());
            if again.is_ok_and(|again| again.has_terms_of(&lease)) {
                return Ok(MachineId { id, from_ms: lease.not_before_ms });
            }
        }
        Err(WorkerError::Busy)
    }

    /// Begins the instance's own lease again, if this server knows one.
    async fn distribute_own(&self, asked: &InstanceRequest<'_>) -> Result<Option<MachineId>, WorkerError> {
        let Some(id) = self.ids_of(asked.name).into_iter().find(|id| *id < asked.ids) else { return Ok(None) };
        let again = |lease: &Lease, now_ms| {
            // Before the pool opens, another holder may have an id that the store has as the instance's.
            if self.is_open() {
                lease.begun_again(&self.rules, id, asked, now_ms)
            } else {
                Err(LeaseRefusal::OtherInstance)
            }
        };
        match self.change(id, false, &again).await {
            Ok(lease) => {
                self.counts.renewed();
                Ok(Some(MachineId { id, from_ms: lease.not_before_ms }))
            }
            Err(error) if is_of_another(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews the leases of an instance. Returns false if it has none.
    pub(in crate::workers) async fn guard(&self, name: &str, last_ms: u64) -> Result<bool, WorkerError> {
        let guarded = |id, lease: &Lease, now_ms| lease.guarded(&self.rules, id, name, last_ms, now_ms);
        let is_changed = self.change_all(name, &guarded).await?;
        if is_changed {
            self.counts.renewed();
        }
        Ok(is_changed)
    }

    /// Ends the leases of an instance. Returns false if it has none.
    pub(in crate::workers) async fn revert(&self, name: &str, last_ms: u64) -> Result<bool, WorkerError> {
        let is_changed = self.change_all(name, &|_, lease, now_ms| lease.reverted(name, last_ms, now_ms)).await?;
        if is_changed {
            self.counts.released();
        }
        Ok(is_changed)
    }

    async fn change_all(
        &self,
        name: &str,
        with: &(dyn Fn(u32, &Lease, u64) -> Result<Lease, LeaseRefusal> + Sync),
    ) -> Result<bool, WorkerError> {
        self.look().await?;
        self.list_if_old().await?;
        let is_changed = self.change_known(name, with).await?;
        // Another server may have given the instance another id.
        if is_changed || !self.list_again().await? {
            return Ok(is_changed);
        }
        self.change_known(name, with).await
    }

    async fn list_if_old(&self) -> Result<(), WorkerError> {
        if self.known().listed_at.is_none_or(|at| at.elapsed() >= RENEW_LIST_AGE) {
            self.list_again().await?;
        }
        Ok(())
    }

    async fn change_known(
        &self,
        name: &str,
        with: &(dyn Fn(u32, &Lease, u64) -> Result<Lease, LeaseRefusal> + Sync),
    ) -> Result<bool, WorkerError> {
        let mut is_changed = false;
        for id in self.ids_of(name) {
            match self.change(id, false, &|lease, now_ms| with(id, lease, now_ms)).await {
                Ok(_) => is_changed = true,
                Err(error) if is_of_another(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(is_changed)
    }

    /// Returns the ids that an instance has, as far as this server has read.
    fn ids_of(&self, name: &str) -> Vec<u32> {
        let known = self.known();
        let is_own = |lease: &Lease| lease.is_of_instance(name);
        let own = known.leases.iter().filter(|(_, entry)| entry.kept.as_ref().is_some_and(|(lease, _)| is_own(lease)));
        own.map(|(id, _)| *id).collect()
    }

    /// Returns true if the pool leases ids.
    fn is_open(&self) -> bool {
        let known = self.known();
        let record = known.record.filter(|_| !known.went_back);
        record.is_some_and(|(record, _)| record.pool.opens_ms <= self.host.now_ms())
    }

    /// Lists all leases again, unless a list has begun since.
    async fn list_since(&self, since: Instant) -> Result<(), WorkerError> {
        let _alone = self.looking.lock().await;
        if self.known().list_begun_at.is_some_and(|at| at >= since) {
            return Ok(());
        }
        self.list().await
    }
}

/// Returns true if a lease that was found by the instance's name is not its own any more.
fn is_of_another(error: &WorkerError) -> bool {
    use LeaseRefusal::{OtherInstance, PoolSmaller, WrongToken};
    // The store has no record of the id: the token of none is right.
    matches!(error, WorkerError::Lease { why: OtherInstance | PoolSmaller { .. } | WrongToken, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_a_name_of_its_own() {
        assert_eq!(stored_name(b"10.0.0.7:4711"), "10.0.0.7:4711");
        let long = "x".repeat(65);
        let names = [
            stored_name(b"-"),
            stored_name(b"a b"),
            stored_name(b"a_b"),
            stored_name(&[0xff, 0]),
            stored_name(&[0xff, 1]),
            stored_name(long.as_bytes()),
            stored_name(format!("{long}y").as_bytes()),
            // The name under which `a b` is stored is another instance's own name.
            stored_name(stored_name(b"a b").as_bytes()),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(is_holder_name(name.as_bytes()), "{name}");
            assert!(!names[..at].contains(name), "{name}");
        }
        assert_eq!(names[1], "a_b-c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c203");
    }
}
