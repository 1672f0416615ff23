//! Allows one server for each server-id on a machine, whatever its folder.
//!
//! Two servers with one server-id give the same IDs, and a lock in a folder only keeps them apart in that folder. So a
//! server also takes a name that is unique on a machine: an abstract Unix socket, `getid.claim.SERVER-ID.EPOCH`. It is
//! bound and never listened on. The system releases it with the process, and leaves no file. A second name beside it,
//! which all users can read in `/proc/net/unix`, contains the holder's pid and folder.
//!
//! Names belong to a network namespace: containers with separate networks do not see each other's. Any local user may
//! take a name first, so the error names the directive that turns the claim off.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use getid_core::Epoch;
use socket2::{Domain, SockAddr, Socket, Type};

use getid_text::printable::printable;

/// Tries to take a name, [`PAUSE`] apart. A killed process may still exist for a moment.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Longest name of an abstract socket, in bytes (`unix(7)`: 108, one of them the leading zero).
const NAME_BYTES_MAX: usize = 107;

/// The right to one server-id on this machine, until it is dropped.
#[derive(Debug)]
pub struct MachineClaim {
    _claim: Socket,
    /// Name that shows the holder to servers that are refused; optional.
    _holder: Option<Socket>,
}

/// Reason why there is no claim.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Another process has the claim.
    #[error(
        "server-id {server_id} is in use on this machine: {holder}. Two servers with one server-id give the same IDs. \
         Stop that process, or set another server-id; or, if this is intended, set id-machine-claim no"
    )]
    Held {
        /// Server-id of the claim.
        server_id: u32,
        /// The other process and its folder, as far as known.
        holder: String,
    },
    /// The system has no such names, or denies them to this process.
    #[error(
        "cannot claim server-id {server_id} for this machine: {source}. Another server with it in another folder would \
         not be noticed (id-machine-claim no disables this check)"
    )]
    Io {
        /// Server-id of the claim.
        server_id: u32,
        /// Error of the system.
        source: io::Error,
    },
}

impl MachineClaim {
    /// Claims `server_id` for IDs that count from `epoch`. `dir` is the state folder, shown to servers that are
    /// refused; `None` if there is none. Blocks for at most 200 ms.
    ///
    /// # Errors
    ///
    /// [`MachineError`].
    pub fn bind(server_id: u32, epoch: Epoch, dir: Option<&Path>) -> Result<MachineClaim, MachineError> {
        let name = format!("getid.claim.{server_id}.{}", epoch.unix_ms());
        let mut tries = 1;
        let claim = loop {
            match bind_name(&name) {
                Ok(claim) => break claim,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => {}
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(MachineError::Held { server_id, holder: holder(server_id, epoch) });
                }
                Err(source) => return Err(MachineError::Io { server_id, source }),
            }
            tries += 1;
            thread::sleep(PAUSE);
        };
        let dir = dir.map_or_else(
            || "no state folder".to_owned(),
            |dir| std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).display().to_string(),
        );
        let mut note = format!("{}{} {}", holder_prefix(server_id, epoch), std::process::id(), printable(&dir));
        note.truncate((0..=NAME_BYTES_MAX).rev().find(|&at| note.is_char_boundary(at)).unwrap_or(0));
        Ok(MachineClaim { _claim: claim, _holder: bind_name(&note).ok() })
    }
}

/// Returns a socket with `name` in the abstract namespace, which no client can reach.
fn bind_name(name: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(format!("\0{name}"))?)?;
    Ok(socket)
}

fn holder_prefix(server_id: u32, epoch: Epoch) -> String {
    format!("getid.holder.{server_id}.{}.", epoch.unix_ms())
}

/// Returns the holder of the claim, from the name that it bound.
fn holder(server_id: u32, epoch: Epoch) -> String {
    let prefix = format!("@{}", holder_prefix(server_id, epoch));
    let list = std::fs::read("/proc/net/unix").unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let note = list.lines().find_map(|line| line.find(&prefix).map(|at| &line[at + prefix.len()..]));
    match note.and_then(|note| note.split_once(' ')) {
        Some((pid, dir)) if pid.parse::<u32>().is_ok() => format!("pid {pid} has it, with {}", printable(dir)),
        _ => "another process has it (ss -xa shows the socket @getid.claim)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an epoch that no server on this machine uses.
    fn epoch(n: u64) -> Epoch {
        Epoch::from_unix_ms(1_000_000 + u64::from(std::process::id()) * 100 + n).unwrap()
    }

    #[test]
    fn one_claim_per_machine() {
        let claim = MachineClaim::bind(3, epoch(0), Some(Path::new("/a folder"))).unwrap();
        let refused = MachineClaim::bind(3, epoch(0), Some(Path::new("/another"))).unwrap_err().to_string();
        let expected = format!(
            "server-id 3 is in use on this machine: pid {} has it, with /a folder. Two servers with one server-id give \
             the same IDs. Stop that process, or set another server-id; or, if this is intended, set id-machine-claim \
             no",
            std::process::id()
        );
        assert_eq!(refused, expected);
        let _other_id = MachineClaim::bind(4, epoch(0), None).unwrap();
        let _other_epoch = MachineClaim::bind(3, epoch(1), None).unwrap();
        drop(claim);
        MachineClaim::bind(3, epoch(0), None).unwrap();
    }

    /// A folder that is too long for a name, or contains line breaks, is shown in part.
    #[test]
    fn odd_folders() {
        let _claim = MachineClaim::bind(3, epoch(2), Some(Path::new(&format!("/a\nb/{}", "ü".repeat(100))))).unwrap();
        let refused = MachineClaim::bind(3, epoch(2), None).unwrap_err().to_string();
        assert!(refused.contains("with /a\\nb/üüü") && refused.len() < 400, "{refused}");
    }

    /// Another program took the name.
    #[test]
    fn a_holder_without_its_second_name() {
        let _squatter = bind_name(&format!("getid.claim.3.{}", epoch(3).unix_ms())).unwrap();
        let refused = MachineClaim::bind(3, epoch(3), None).unwrap_err().to_string();
        assert!(refused.contains("another process has it (ss -xa shows the socket @getid.claim)"), "{refused}");
    }
}
