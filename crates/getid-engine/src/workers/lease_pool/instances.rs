//! Machine ids of instances, which have no token: an instance is found by its name.
//!
//! A name has one id, whichever server of the pool is asked. A server answers one request for a new id at a time, after
//! it has listed the pool's leases. Two servers that are asked at once for one name may still lease two ids to it. Then
//! both are renewed and given back together, so neither goes to another instance.

use std::fmt::Write as _;

use getid_core::server::worker::{InstanceRequest, Lease, LeaseRefusal};
use tokio::time::Instant;

use super::{Asked, LeasePool};
use crate::workers::{MachineId, WorkerError, is_holder_name};

/// Number of bytes of a long name that stay readable.
const READABLE_BYTES: usize = 15;

/// Number of bytes of a name's SHA-256 that stand for the rest of it.
const DIGEST_BYTES: usize = 24;

/// Returns the name under which an instance is stored: its own, or if that is no name of a holder, its first bytes and
/// 192 bits of its SHA-256.
pub(in crate::workers) fn stored_name(instance: &[u8]) -> String {
    if let Some(name) = std::str::from_utf8(instance).ok().filter(|name| is_holder_name(name.as_bytes())) {
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
    /// Returns the machine id of an instance: its own, or a new one.
    pub(in crate::workers) async fn distribute(&self, asked: &InstanceRequest<'_>) -> Result<MachineId, WorkerError> {
        let begun = Instant::now();
        let (pool, longest_ms) = (self.name.clone(), self.rules.longest_ms);
        if let Some(guard_ms) = asked.guard_ms.filter(|guard_ms| *guard_ms > longest_ms) {
            return Err(WorkerError::GuardTooLong { pool, guard_ms, longest_ms });
        }
        let _alone = self.distributing.lock().await;
        self.look_since(Some(begun)).await?;
        self.list_since(begun).await?;
        let own = self.ids_of(asked.name).into_iter().find(|id| *id < asked.ids).filter(|_| self.is_open());
        if let Some(id) = own {
            let again = |lease: &Lease, now_ms| lease.begun_again(&self.rules, id, asked, now_ms);
            match self.change(id, false, &again).await {
                Ok(lease) => {
                    self.counts.renewed();
                    return Ok(MachineId { id, from_ms: lease.not_before_ms });
                }
                Err(error) if is_of_another(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let (id, lease) = self.grant(&Asked::Instance(*asked)).await?;
        Ok(MachineId { id, from_ms: lease.not_before_ms })
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
        let mut ids = self.ids_of(name);
        if ids.is_empty() && self.list_again().await? {
            ids = self.ids_of(name);
        }
        let mut is_changed = false;
        for id in ids {
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

    /// Returns true if the pool leases ids. Before it does, another holder may have an id that the store has as the
    /// instance's.
    fn is_open(&self) -> bool {
        let known = self.known();
        let record = known.record.filter(|_| !known.went_back);
        record.is_some_and(|(record, _)| record.pool.opens_ms <= self.host.now_ms())
    }

    /// Lists all leases again, unless a list has begun since.
    async fn list_since(&self, since: Instant) -> Result<(), WorkerError> {
        let _alone = self.looking.lock().await;
        if self.known().listed_at.is_some_and(|at| at >= since) {
            return Ok(());
        }
        self.list().await
    }
}

/// Returns true if a lease that was found by the instance's name is not its own any more.
fn is_of_another(error: &WorkerError) -> bool {
    matches!(error, WorkerError::Lease { why: LeaseRefusal::OtherInstance | LeaseRefusal::PoolSmaller { .. }, .. })
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
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(is_holder_name(name.as_bytes()), "{name}");
            assert!(!names[..at].contains(name), "{name}");
        }
        assert_eq!(names[1], "a_b-c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c203");
    }
}
