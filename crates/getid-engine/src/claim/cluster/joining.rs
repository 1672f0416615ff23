//! Compares a server with the fleet's record in the store, and adds its new declarations to that record.

use std::collections::BTreeMap;
use std::sync::Arc;

use getid_core::server::CounterDeclaration;
use getid_core::{Declaration, Layout, Role};

use super::link::StoreLink;
use crate::claim::Declarations;
use crate::claim::envelope::RecordError;
use crate::claim::fleet::{ClaimRecord, ClusterRecord};
use getid_store::records::{CLAIMS, Key, LIST_MAX, RecordStoreError, Stamp, WriteResult};
use getid_text::printable::printable;
use getid_text::shell::shell_word;
use getid_text::store_url::for_command;

/// Tries to write a record that other servers write at the same time.
const TRIES: u32 = 20;

/// Reason why a server has not joined the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JoinError {
    /// The configuration or the store does not permit it: the reason and the remedy.
    Refused(String),
    /// The store does not answer: its error.
    Away(String),
}

/// The declarations that a server joins with.
#[derive(Clone, Debug)]
pub(super) struct JoinRequest<'a> {
    pub(super) layout: Layout,
    pub(super) generators: &'a [Arc<Declaration>],
    pub(super) counters: &'a [Arc<CounterDeclaration>],
    /// Writer id of this server, for the row that it adds.
    pub(super) me: u128,
}

/// The record of the fleet, with its stamp in the store.
#[derive(Clone, Debug)]
pub(super) struct FleetRecord {
    pub(super) stamp: Stamp,
    pub(super) record: ClusterRecord,
}

impl JoinRequest<'_> {
    /// Compares the server with the fleet's record, and adds the declarations that are new.
    pub(super) async fn join(&self, link: &mut StoreLink) -> Result<FleetRecord, JoinError> {
        for _ in 0..TRIES {
            let row = link.read(&Key::of_cluster()).await.map_err(|error| join_error(link, &error))?;
            let shown = link.shown().to_owned();
            let Some(row) = row else { return Err(JoinError::Refused(no_fleet_error(&shown))) };
            let record = ClusterRecord::parse(row.text.as_bytes()).map_err(|error| damaged(&error, &shown))?;
            let joined = record.joined_by(self.layout, self.generators, self.counters);
            let joined = joined.map_err(|error| JoinError::Refused(format!("claim store {shown}: {error}")))?;
            let Some(joined) = joined else { return Ok(FleetRecord { stamp: row.stamp, record }) };
            let stamp = Stamp { writer: self.me, beat: row.stamp.beat.saturating_add(1) };
            let new = joined.to_row(stamp).map_err(|error| JoinError::Refused(error.to_string()))?;
            match link.write(&Key::of_cluster(), Some(row.stamp), &new).await {
                Ok(WriteResult::Done) => return Ok(FleetRecord { stamp, record: joined }),
                // Another server wrote first, or the result is unknown: the next read shows it.
                Ok(WriteResult::Conflict(_)) | Err(RecordStoreError::Unknown(_)) => {}
                Err(error) => return Err(join_error(link, &error)),
            }
        }
        Err(JoinError::Away(format!("claim store {}: other servers keep writing its record 'cluster'", link.shown())))
    }

    /// Fails if another server that holds a claim gives the same IDs, because worker fields given by hand have the same
    /// values. `server_id` is this server's, if known.
    pub(super) async fn check_by_hand(&self, link: &mut StoreLink, server_id: Option<u32>) -> Result<(), JoinError> {
        let by_hand: Vec<_> = self.generators.iter().filter(|generator| !generator.by_hand().is_empty()).collect();
        if by_hand.is_empty() {
            return Ok(());
        }
        let mut after = String::new();
        loop {
            let rows = link.list(CLAIMS, &after, LIST_MAX).await.map_err(|error| join_error(link, &error))?;
            // A row that is not a valid record has no holder that gives IDs.
            let rows = rows.rows;
            let is_last = rows.len() < LIST_MAX;
            for (key, row) in &rows {
                let Some(other_id) = key.server_id().filter(|id| Some(*id) != server_id) else { continue };
                // A record that cannot be read is reported by the server that it belongs to.
                let Ok(claim) = ClaimRecord::of_row(row, other_id) else { continue };
                let Some(holder) = claim.holder() else { continue };
                let known = &claim.record.declarations;
                if let Some(same) = by_hand.iter().find(|mine| can_give_same_ids(mine, server_id, known, other_id)) {
                    let name = same.name();
                    return Err(JoinError::Refused(format!(
                        "generator {name} has the same worker fields, given by hand, as on server-id {other_id} \
                         (instance-name {}): both would give the same IDs; give it other values",
                        holder.name
                    )));
                }
            }
            match rows.last() {
                Some((key, _)) if !is_last => key.as_str().clone_into(&mut after),
                _ => return Ok(()),
            }
        }
    }
}

/// Whether IDs of `mine` may equal those of the same generator on `other_id`: all fields that distinguish servers are
/// equal.
fn can_give_same_ids(mine: &Declaration, server_id: Option<u32>, known: &Declarations, other_id: u32) -> bool {
    let Some(other) = known.find(mine.name()) else { return false };
    let values = |declaration: &Declaration| -> BTreeMap<String, u64> {
        let fields = declaration.layout().fields().iter();
        let given = fields.filter_map(|field| match field.role {
            Role::Constant(value) if declaration.by_hand().contains(&field.name) => Some((field.name.clone(), value)),
            _ => None,
        });
        given.collect()
    };
    let server_bits = mine.layout().bits_of(Role::Server);
    let low = |id: u32| u64::from(id) & ((1_u64 << server_bits.min(32)) - 1);
    // If the layout contains a server-id that is not known yet, the claim decides.
    let is_same_id = server_bits == 0 || server_id.is_some_and(|id| low(id) == low(other_id));
    is_same_id && values(mine) == values(other)
}

/// Converts an error of the store into the reason why the server has not joined.
pub(super) fn join_error(link: &StoreLink, error: &RecordStoreError) -> JoinError {
    match error {
        RecordStoreError::Refused(_) => JoinError::Refused(link.error.clone()),
        RecordStoreError::Damaged(_) => {
            JoinError::Refused(format!("claim store {}: {}", link.shown(), printable(&error.to_string())))
        }
        RecordStoreError::Away(_) | RecordStoreError::Unknown(_) => JoinError::Away(link.error.clone()),
    }
}

fn no_fleet_error(store: &str) -> String {
    format!(
        "the claim store {store} has no record 'cluster': if a fleet has used it, the address or the prefix is wrong, \
         or the store is empty; for a new fleet run `getid cluster init --store {} --new ID` with the configuration of \
         its servers",
        shell_word(&for_command(store))
    )
}

fn damaged(error: &RecordError, store: &str) -> JoinError {
    let remedy = match error {
        RecordError::Version { .. } => "start the getid that wrote it",
        _ => {
            "restore it from a backup of the store; or delete it there, and run `getid cluster init` with the servers' \
             configuration (claims of server-ids are other records, and are kept)"
        }
    };
    JoinError::Refused(format!("cannot use the record 'cluster' of {store}: {error}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use getid_core::no_dates;

    use super::*;

    #[test]
    fn worker_fields_given_by_hand_differ() {
        let declared = |words: &str| {
            Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).expect("a declaration"))
        };
        for (mine, other, ids, is_same) in [
            ("t twitter datacenter 1 worker 2", "t twitter datacenter 1 worker 2", (Some(3), 4), true),
            ("t twitter datacenter 1 worker 2", "t twitter datacenter 1 worker 2", (None, 4), true),
            ("t twitter datacenter 1 worker 2", "t twitter datacenter 1 worker 3", (Some(3), 4), false),
            ("t twitter datacenter 1 worker 2", "u twitter datacenter 1 worker 2", (Some(3), 4), false),
            ("t twitter datacenter 1", "t twitter datacenter 1", (Some(3), 4), false),
            ("t twitter datacenter 1", "t twitter datacenter 1", (Some(3), 35), true),
            ("t twitter datacenter 1", "t twitter datacenter 1", (None, 35), false),
        ] {
            let mut known = Declarations::default();
            known.push(declared(other)).unwrap();
            assert_eq!(can_give_same_ids(&declared(mine), ids.0, &known, ids.1), is_same, "{mine} {other} {ids:?}");
        }
    }
}
