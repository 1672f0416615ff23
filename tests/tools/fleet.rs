//! `getid cluster`, `getid claim` and `getid state move` as used in a shell, with a SQLite file as the store.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::folder;

struct Fleet(TempDir);

impl Fleet {
    fn new() -> Fleet {
        Fleet(folder())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `getid` with `words`, in which DIR is replaced by the folder and URL by the store.
    fn output(&self, words: &str) -> Output {
        let dir = self.path().to_str().unwrap();
        let words = words.split_whitespace().map(|word| word.replace("URL", "sqlite:DIR/fleet.db").replace("DIR", dir));
        // The folder is not shared, and no other server of this machine conflicts.
        let environment = [("HOME", dir), ("GETID_ID_MACHINE_CLAIM", "no")];
        Command::new(env!("CARGO_BIN_EXE_getid")).args(words).env_clear().envs(environment).output().unwrap()
    }

    /// Asserts the exit code, and parts of standard output and standard error. An empty part requires empty output.
    #[track_caller]
    fn check(&self, words: &str, code: i32, stdout: &str, stderr: &str) {
        let output = self.output(words);
        let dir = self.path().to_str().unwrap();
        let shown = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).replace(dir, "DIR"));
        for (text, part) in shown.iter().zip([stdout, stderr]) {
            assert!(
                if part.is_empty() { text.is_empty() } else { text.contains(part) },
                "{words}: {part:?} in {shown:?}"
            );
            assert!(!text.contains("panicked") && !text.contains('\x1b'), "{words}: {shown:?}");
        }
        assert_eq!(output.status.code(), Some(code), "{words}: {shown:?}");
    }
}

#[test]
fn a_fleet_from_its_initialisation_to_a_move() {
    let fleet = Fleet::new();
    fleet.check("cluster show --store URL", 1, "", "sqlite:DIR/fleet.db: there is no fleet record here; if address");
    let made = "cluster: sqlite:DIR/fleet.db, created\n  epoch      1420041600000 (2014-12-31T16:00:00.000Z)\n  \
                id-range   2: server-ids 0 to 3\n  auto       3\n  \
                new        server-id 0: a record was created for its first start\n";
    fleet.check("cluster init --store URL --auto 3 --new 0", 0, made, "");
    fleet.check("cluster init --store URL --auto 0", 1, "", "--auto: there is already a record of server-id 0, which");
    fleet.check("cluster show --store URL --json", 0, "\"free\": 1,", "");
    fleet.check("claim show --store URL", 0, "  held by    no server since ", "");
    fleet.check("claim show 7 --store URL", 1, "", "sqlite:DIR/fleet.db: there is no record of server-id 7");
    fleet.check("claim release 0 --store URL", 0, "  free       already: no server ever held it\n", "");
    fleet.check("claim take 0 --store URL", 1, "", "server-id 0 has no holder: any standby takes it at once");

    std::fs::create_dir(fleet.path().join("state")).unwrap();
    fleet.check("state advance DIR/state --server-id 1 --to now", 0, "every new ID will be at least", "");
    let moved = "server-id 1: moved\n  from       file:DIR/state: its record stays there, marked\n  to         \
                 sqlite:DIR/fleet.db\n";
    fleet.check("state move --server-id 1 --from DIR/state --to URL", 0, moved, "");
    fleet.check("state move --server-id 1 --from DIR/state --to URL", 0, "server-id 1: already moved\n", "");
    fleet.check(
        "state show DIR/state",
        1,
        "  mark       it was moved to sqlite:DIR/fleet.db, and no server may start",
        "",
    );
    fleet.check("state show --store URL --server-id 1", 0, "  held by    no server since ", "");
    fleet.check(
        "state advance --store URL --server-id 1 --to now",
        0,
        "  beat       4294967297: servers that have noted",
        "",
    );
    // A server does not start with a moved record, and names its new place.
    let refused = "cannot use the record DIR/state/getid-1.state: it was moved to sqlite:DIR/fleet.db, and no server may \
                   start with it here; to continue, start the server with claim-store sqlite:DIR/fleet.db; or";
    let start = fleet.output("serve --dir DIR/state --server-id 1 --port 0 --unixsocket DIR/s");
    let output = [start.stdout, start.stderr].concat();
    let output = String::from_utf8_lossy(&output).replace(fleet.path().to_str().unwrap(), "DIR");
    assert!(!start.status.success() && output.contains(refused), "{output}");
    fleet.check("state move --server-id 1 --from URL --to DIR/state", 0, "server-id 1: moved\n", "");
    fleet.check("state show DIR/state", 0, "  in use by  no process\n", "");
}

/// The command that a start prints works as printed, in a shell without configuration of the fleet.
#[test]
fn the_command_printed_by_a_start_without_a_record_suffices() {
    let fleet = Fleet::new();
    let wide = "id-range 5\nshard-range 6\nrandom-range 10\nid-epoch 1500000000000\nport 0\nunixsocket ";
    let socket = fleet.path().join("socket");
    std::fs::write(fleet.path().join("wide.conf"), format!("{wide}{}\n", socket.display())).unwrap();
    fleet.check("cluster init --store URL --config DIR/wide.conf --new 20,21", 0, "server-ids 0 to 31", "");
    let sqlite = rusqlite::Connection::open(fleet.path().join("fleet.db.records")).unwrap();
    sqlite.pragma_update(None, "ignore_check_constraints", true).unwrap();
    for lost in ["DELETE FROM getid_record WHERE record_key", "UPDATE getid_record SET beat = 0 WHERE record_key"] {
        for server_id in [20, 21] {
            assert_eq!(sqlite.execute(&format!("{lost} = 'claim/{server_id}'"), []).unwrap(), 1);
            let start = format!("serve --config DIR/wide.conf --dir DIR --claim-store URL --server-id {server_id}");
            let refused = fleet.output(&start);
            let output =
                String::from_utf8_lossy(&refused.stderr).into_owned() + &String::from_utf8_lossy(&refused.stdout);
            assert!(!refused.status.success() && !output.contains("another claim-store"), "{output}");
            let (_, command) = output.split_once("`getid state advance").unwrap_or_else(|| panic!("{output}"));
            let (command, _) = command.split_once('`').unwrap();
            let command = format!("\"$GETID\" state advance{}", command.replace("--past-id ID", "--past-id 1"));
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{command} --force")]).env("GETID", env!("CARGO_BIN_EXE_getid"));
            let output = shell.current_dir(fleet.path()).output().unwrap();
            assert!(output.status.success(), "{command}: {output:?}");
            fleet.check(&format!("claim show {server_id} --store URL"), 0, "id-range 5 shard-range", "");
        }
    }
}

#[test]
fn a_wrong_command_line_is_refused() {
    let fleet = Fleet::new();
    let none = "no claim store is configured: claim-store is file; name one with --store etcd://...";
    fleet.check("claim show", 2, "", none);
    fleet.check("cluster init", 2, "", none);
    fleet.check("claim show --store nowhere", 2, "", "--store: 'nowhere' has no scheme, must be");
    fleet.check("cluster init --store URL --auto 4-", 2, "", "'4-' must be server-ids such as 4-31,40");
    fleet.check("cluster init --store URL --config DIR/none.conf", 2, "", "none.conf");
    fleet.check("state move --server-id 1 --from DIR --to DIR", 1, "", "--from and --to are the same place: file:DIR");
    fleet.check("state move --server-id 1 --from DIR --to x:y", 1, "", "--to: 'x:***' has none of the schemes");
    fleet.check(
        "state move --server-id 1 --from DIR --to URL",
        1,
        "",
        "file:DIR: there is no record of server-id 1, so",
    );
    fleet.check(
        "state move --server-id 1 --from DIR/none --to URL",
        1,
        "",
        "--from DIR/none: No such file or directory",
    );
    fleet.check("state advance DIR --store URL --server-id 1 --to now", 2, "", "cannot be used with");
    // No password is printed. A store that does not answer has its own exit code.
    let away = "postgres://a:***@127.0.0.1:1/ids: PostgreSQL on 127.0.0.1:1 cannot be reached";
    fleet.check("claim show --store postgres://a:secret@127.0.0.1:1/ids", 2, "", away);
    fleet.check(
        "claim schema --store postgres://a:secret@127.0.0.1:1/ids",
        0,
        "CREATE TABLE IF NOT EXISTS getid_record",
        "",
    );
}
