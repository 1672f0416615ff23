//! The claim status of a standby, for tests whose process has no claim store.

use getid_engine::claim::status::{ClaimRole, ClaimStatus, HolderStatus};

/// Reason why it issues no IDs.
pub const WHY: &str = "standby for server-id 3: held by host-a (10.1.0.7:7890)";

/// Returns the status of a server that waits for server-id 3.
pub fn standby() -> ClaimStatus {
    ClaimStatus {
        store: "postgres://getid:***@db/ids".to_owned(),
        product: "PostgreSQL 15".to_owned(),
        role: ClaimRole::Standby,
        server_id: Some(3),
        instance_name: "host-b".to_owned(),
        instance: "b".repeat(32),
        holder: Some(HolderStatus {
            instance: "a".repeat(32),
            name: "host-a".to_owned(),
            host: "host-a".to_owned(),
            address: "10.1.0.7:7890".to_owned(),
            since_unix_ms: 1_700_000_000_000,
            until_unix_ms: 1_700_000_001_500,
        }),
        why: WHY.to_owned(),
        timeout_ms: 2000,
        ..ClaimStatus::default()
    }
}
