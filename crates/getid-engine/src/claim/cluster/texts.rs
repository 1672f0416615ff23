//! Sentences about a claim, for errors, the log and INFO.

use getid_core::server::claim::{ClaimLoss, StandbyReason, TakeCause};

use crate::claim::fleet::{ClaimHolder, ClaimRecord, FreeClaim, Holding, ReleaseReason};
use crate::claim::{Mark, RecordLocation};
use getid_store::records::{DamagedRow, Key};
use getid_text::printable::printable;
use getid_text::shell::shell_word;
use getid_text::store_url::for_command;

/// Returns the holder as text, such as `host-a (10.1.0.7:7890)`.
pub(super) fn holder_text(holder: &ClaimHolder) -> String {
    let name = if holder.name.is_empty() { &holder.host } else { &holder.name };
    let name = if name.is_empty() { format!("{:032x}", holder.instance) } else { printable(name).into_owned() };
    if holder.address.is_empty() { name } else { format!("{name} ({})", printable(&holder.address)) }
}

/// Formats nanoseconds as seconds with one decimal.
pub(super) fn seconds(ns: u64) -> String {
    let tenths = ns / 100_000_000;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// Formats nanoseconds as whole milliseconds.
pub(super) fn milliseconds(ns: u64) -> String {
    format!("{} ms", ns / 1_000_000)
}

/// Returns the reason why the claim could be taken, from the record that was found.
pub(super) fn cause(cause: TakeCause, found: Option<&ClaimRecord>) -> String {
    let holder = || {
        let holder = found.and_then(ClaimRecord::holder);
        holder.map_or_else(|| "the last holder".to_owned(), holder_text)
    };
    match cause {
        TakeCause::New => "no server ever held it".to_owned(),
        TakeCause::Free => found.map_or_else(|| "no server had it".to_owned(), |found| free(&found.holding)),
        TakeCause::SameFolder => format!("{} ran in this folder and is gone", holder()),
        TakeCause::Silent(ns) => format!("its holder {} was silent for {}", holder(), seconds(ns)),
        TakeCause::Resumed => "this server had it throughout, but its hold had ended".to_owned(),
        TakeCause::Late => "an earlier attempt to take it was done late".to_owned(),
    }
}

fn free(holding: &Holding) -> String {
    let Holding::Free(FreeClaim { why, by, .. }) = holding else { return "no server had it".to_owned() };
    let by = if by.is_empty() { "its last holder".into() } else { printable(by) };
    match why {
        ReleaseReason::New => "no server ever held it".to_owned(),
        ReleaseReason::Stopped => format!("released by {by}"),
        ReleaseReason::Clock => format!("given up by {by}, whose clock was absurd"),
        ReleaseReason::Operator => format!("an operator took it from {by}"),
        ReleaseReason::Advanced => "an operator raised it".to_owned(),
        ReleaseReason::Moved => "it was moved here".to_owned(),
    }
}

/// State of a server that waits for a claim, and whether an operator must act.
pub(super) enum WaitState {
    /// The server is a standby in the normal way.
    Standby(String),
    /// The server must not take the claim, even if it is free.
    NotEligible(String),
    /// The state does not change without an operator.
    NeedsOperator(String),
}

/// Returns the state of a server without the claim. Each sentence follows "server-id 3: ".
pub(super) fn waiting(waiting: StandbyReason, found: Option<&ClaimRecord>, server_id: u32, store: &str) -> WaitState {
    match waiting {
        StandbyReason::Unread => WaitState::Standby("the claim store has not been read yet".to_owned()),
        StandbyReason::Held { silent_ns, timeout_ms, .. } => {
            let holder = found.and_then(ClaimRecord::holder);
            let holder = holder.map_or_else(|| "another server".to_owned(), holder_text);
            let silent = if silent_ns < 1_000_000_000 {
                String::new()
            } else {
                format!(", silent for {} of {}", seconds(silent_ns), seconds(timeout_ms.saturating_mul(1_000_000)))
            };
            WaitState::Standby(format!("held by {holder}{silent}"))
        }
        StandbyReason::Apart { by_ms } => WaitState::NotEligible(apart(by_ms)),
        StandbyReason::SteppedAside => WaitState::Standby("it is free, and other servers may take it first".to_owned()),
        StandbyReason::Moved => WaitState::NeedsOperator(moved(found, server_id, store)),
        StandbyReason::Missing => WaitState::NeedsOperator(missing(server_id, store)),
        StandbyReason::WentBack { noted, found } => WaitState::NeedsOperator(went_back(noted, found, server_id, store)),
        StandbyReason::BeatsUsedUp => WaitState::NeedsOperator(format!(
            "the record in {store} has reached the maximum of its \
                                                                  beat"
        )),
    }
}

/// Returns the reason why a clock this far from the record's time prevents a takeover.
pub(super) fn apart(by_ms: i64) -> String {
    format!(
        "this machine's clock is {} the record's time, more than {}: set the clock; or, if it is right, claim-takeover \
         any",
        clock_gap(by_ms),
        if by_ms < 0 { "id-max-clock-jump-ms" } else { "claim-max-clock-ahead-ms" }
    )
}

/// Formats the distance of a clock from a record's time: "3.0 s ahead of" or "3.0 s behind".
pub(super) fn clock_gap(by_ms: i64) -> String {
    let by = seconds(by_ms.unsigned_abs().saturating_mul(1_000_000));
    if by_ms < 0 { format!("{by} behind") } else { format!("{by} ahead of") }
}

/// Returns how a claim was lost. The text follows "server-id 3 was lost: ".
pub(super) fn loss(loss: ClaimLoss, found: Option<&ClaimRecord>, server_id: u32, store: &str) -> String {
    match loss {
        ClaimLoss::TakenBy(by) => {
            let holder = found.and_then(ClaimRecord::holder).map(holder_text);
            format!("{} has taken it over", holder.unwrap_or_else(|| format!("{by:032x}")))
        }
        ClaimLoss::ReleasedBy(_) => "an operator took it from this server".to_owned(),
        ClaimLoss::Moved => moved(found, server_id, store),
        ClaimLoss::Gone => missing(server_id, store),
        ClaimLoss::WentBack { noted, found } => went_back(noted, found, server_id, store),
    }
}

/// Returns the command that replaces a record that cannot be used.
pub(super) fn advance_command(server_id: u32, store: &str) -> String {
    let url = shell_word(&for_command(store));
    format!(
        "run `getid state advance --store {url} --server-id {server_id} --past-id ID`, ID being the largest in any table"
    )
}

/// Returns the error for a row that is not a valid record, with the remedy.
pub(super) fn bad_row(bad: &DamagedRow, server_id: u32, store: &str) -> String {
    let (key, bad) = (Key::of_claim(server_id), printable(&bad.what));
    format!("cannot use the record {key} of {store}: {bad}; to continue, {}", advance_command(server_id, store))
}

pub(super) fn missing(server_id: u32, store: &str) -> String {
    let url = shell_word(&for_command(store));
    format!(
        "the claim store {store} has no record of server-id {server_id}: if it was ever used, address or prefix are \
         wrong, or the store has lost it (then run `getid state advance --store {url} --server-id {server_id} --past-id \
         ID`, ID being the largest in any table); move a record there (getid state move --server-id {server_id} --from \
         DIR --to {url}), or, for a server-id that never gave an ID, run `getid cluster init --store {url} --new \
         {server_id}`"
    )
}

/// Returns where the record was moved to, with the remedy.
pub(super) fn marked(mark: &Mark, server_id: u32, store: &str) -> String {
    format!("{mark}; {}", mark.remedy(server_id, &RecordLocation::of_store(store)))
}

fn moved(found: Option<&ClaimRecord>, server_id: u32, store: &str) -> String {
    let mark = found.and_then(|found| found.mark.as_ref());
    let marked = mark.map(|mark| marked(mark, server_id, store));
    marked.unwrap_or_else(|| "its record was moved to another store".to_owned())
}

fn went_back(noted: u64, found: u64, server_id: u32, store: &str) -> String {
    let url = shell_word(&for_command(store));
    let found = if found == 0 { "no record".to_owned() } else { format!("beat {found}") };
    format!(
        "claim store went back: {store} has {found} of server-id {server_id}, and this server has seen beat {noted}; it \
         was restored from an older copy, or has lost its last writes. Restore its newest copy; if that is lost, run \
         `getid state advance --store {url} --server-id {server_id} --past-id ID`, ID being the largest in any table"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_run_as_they_are_shown() {
        let store = "mysql://ids:***@db/fleet?tls=verify&ca-file=/etc/ca.pem";
        for message in [missing(3, store), went_back(9, 8, 3, store)] {
            let url = "'mysql://ids@db/fleet?tls=verify&ca-file=/etc/ca.pem&password-file=PASSWORD_FILE'";
            assert!(
                message.contains(&format!("run `getid state advance --store {url} --server-id 3 --past-id ID`")),
                "{message}"
            );
        }
        let message = went_back(9, 8, 3, "etcd://a/p");
        assert!(
            message.contains("run `getid state advance --store etcd://a/p --server-id 3 --past-id ID`"),
            "{message}"
        );
        let message = went_back(9, 0, 3, "etcd://a/p");
        assert!(
            message.contains("has no record of server-id 3") && message.contains("run `getid state advance"),
            "{message}"
        );
    }

    #[test]
    fn names_from_elsewhere_are_safe_to_show() {
        let holder = |name: &str, address: &str| ClaimHolder {
            name: name.to_owned(),
            address: address.to_owned(),
            instance: 7,
            ..ClaimHolder::default()
        };
        assert_eq!(holder_text(&holder("host-a", "10.1.0.7:7890")), "host-a (10.1.0.7:7890)");
        assert_eq!(holder_text(&holder("a\nb", "")), "a\\nb");
        assert_eq!(holder_text(&holder("", "")), "00000000000000000000000000000007");
        assert_eq!(seconds(2_049_999_999), "2.0 s");
    }
}
