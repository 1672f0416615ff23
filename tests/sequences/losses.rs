//! A shared store loses writes under running servers: no server gives values that another one had.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use getid_core::server::Key;
use getid_core::server::beat::{Nonce, ServerState};
use getid_engine::generators::sequence::{SequenceNotes, SequenceSettings};
use tokio::time::sleep;

use super::database::Database;
use super::world::{Server, settings};

/// Servers that share a database, each with separate notes.
struct Fleet {
    database: Arc<Database>,
    dir: tempfile::TempDir,
    servers: Vec<Server>,
    given: BTreeSet<i64>,
}

impl Fleet {
    async fn start(servers: usize) -> Fleet {
        let database = Database::new(1);
        database.put("orders", &[]);
        let mut fleet = Fleet { database, dir: crate::support::folder(), servers: Vec::new(), given: BTreeSet::new() };
        for nth in 0..servers {
            let server = fleet.server(nth);
            fleet.servers.push(server);
        }
        sleep(Duration::from_secs(10)).await;
        fleet
    }

    fn server(&self, nth: usize) -> Server {
        let notes = SequenceNotes::in_file(self.dir.path().join(nth.to_string()));
        let settings = SequenceSettings { creates_on_first_use: true, ..settings() };
        Server::start_with(vec![self.database.store(true)], settings, notes)
    }

    /// Draws `values` values from one server, and checks that each is new.
    async fn draw(&mut self, nth: usize, values: usize) {
        let (mut got, mut refused) = (0, 0);
        while got < values {
            match self.servers[nth].incr("orders").await {
                Ok(value) => {
                    assert!(self.given.insert(value), "{value} twice");
                    got += 1;
                }
                Err(refusal) => {
                    refused += 1;
                    assert!(refused < 300, "server {nth} gives nothing: {refusal:?}");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Returns the refusal of one server, as soon as it has nothing in memory any more.
    async fn refusal(&mut self, nth: usize) -> String {
        for _ in 0..100_000 {
            match self.servers[nth].incr("orders").await {
                Ok(value) => assert!(self.given.insert(value), "{value} twice"),
                Err(refusal) if refusal.of("orders").contains("CONFIRM") => return refusal.of("orders"),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
        panic!("server {nth} is not refused");
    }

    /// Makes the database unreachable for a second, after which it is as the replica.
    async fn fail_over(&self, replica: &super::database::Replica) {
        self.database.state().is_down = true;
        sleep(Duration::from_secs(1)).await;
        let mut state = self.database.state();
        state.fail_over(replica);
        state.is_down = false;
    }

    /// Returns the servers that the store has in this state.
    fn nonces(&self, state: ServerState) -> Vec<Nonce> {
        self.database.state().servers().into_iter().filter(|(_, own)| *own == state).map(|(nonce, _)| nonce).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn no_server_gives_what_another_one_had_before_a_failover() {
    let mut fleet = Fleet::start(3).await;
    fleet.draw(0, 100).await;
    let replica = fleet.database.state().replica();
    // The replica does not get these.
    fleet.draw(0, 1_500).await;
    fleet.fail_over(&replica).await;
    for nth in [1, 2, 0] {
        fleet.draw(nth, 500).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failover_that_breaks_no_connection_is_noticed() {
    let mut fleet = Fleet::start(2).await;
    fleet.draw(0, 100).await;
    let replica = fleet.database.state().replica();
    fleet.draw(0, 1_500).await;
    // A pooler is in between: only the instance changes.
    fleet.database.state().fail_over(&replica);
    fleet.draw(1, 500).await;
    fleet.draw(0, 500).await;
}

#[tokio::test(start_paused = true)]
async fn a_dump_that_is_restored_under_running_servers_is_noticed() {
    let mut fleet = Fleet::start(3).await;
    fleet.draw(0, 100).await;
    let dump = fleet.database.state().replica();
    fleet.draw(0, 1_500).await;
    // Each server beats meanwhile.
    sleep(Duration::from_secs(3)).await;
    fleet.database.state().restore(&dump);
    for nth in [1, 2, 0] {
        fleet.draw(nth, 500).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_missing_holds_the_store_until_it_runs_again() {
    let mut fleet = Fleet::start(2).await;
    fleet.draw(0, 100).await;
    let replica = fleet.database.state().replica();
    fleet.draw(0, 1_500).await;
    let dead = fleet.servers.remove(0);
    dead.kill();
    fleet.fail_over(&replica).await;
    fleet.refusal(0).await;
    // The server is stopped for a long time.
    sleep(Duration::from_hours(1)).await;
    fleet.refusal(0).await;
    let again = fleet.server(0);
    fleet.servers.insert(0, again);
    for nth in [1, 0] {
        fleet.draw(nth, 500).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_releases_a_server_that_never_runs_again() {
    let mut fleet = Fleet::start(2).await;
    let replica = fleet.database.state().replica();
    fleet.draw(0, 1_500).await;
    fleet.servers.remove(0).kill();
    fleet.fail_over(&replica).await;
    let reason = fleet.refusal(0).await;
    let nonce = reason.split("SEQUENCE STORES CONFIRM ").nth(1).unwrap().split(' ').next().unwrap();
    let sequences = Arc::clone(&fleet.servers[0].sequences);
    let unknown = sequences.release("0123456789abcdef0123456789abcdef", 0).await.unwrap_err();
    assert!(unknown.of("").contains("no store waits for it"), "{unknown:?}");
    sequences.release(nonce, 2_000).await.unwrap();
    fleet.draw(0, 500).await;
    assert_eq!(fleet.nonces(ServerState::Released).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stopped_cleanly_or_stands_still_for_a_minute_holds_nothing() {
    let mut fleet = Fleet::start(3).await;
    fleet.draw(0, 100).await;
    fleet.servers.remove(0).stop().await;
    fleet.servers.remove(0).kill();
    sleep(Duration::from_secs(70)).await;
    assert_eq!((fleet.nonces(ServerState::Left).len(), fleet.nonces(ServerState::Gone).len()), (1, 1));
    let replica = fleet.database.state().replica();
    fleet.fail_over(&replica).await;
    fleet.draw(0, 500).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_servers_notes_joins_as_another_server() {
    let mut fleet = Fleet::start(1).await;
    fleet.draw(0, 100).await;
    std::fs::copy(fleet.dir.path().join("0"), fleet.dir.path().join("1")).unwrap();
    let copy = fleet.server(1);
    fleet.servers.push(copy);
    for _ in 0..10 {
        fleet.draw(0, 100).await;
        fleet.draw(1, 100).await;
        sleep(Duration::from_secs(1)).await;
    }
    let live = fleet.nonces(ServerState::Live);
    assert_eq!(live.len(), 2, "{live:?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_the_store_lost_is_not_begun_by_another_server() {
    let mut fleet = Fleet::start(2).await;
    let replica = fleet.database.state().replica();
    let key = Key::new("orders").unwrap();
    fleet.database.state().rows.remove(&key);
    let without = fleet.database.state().replica();
    fleet.database.state().restore(&replica);
    fleet.draw(0, 100).await;
    fleet.fail_over(&without).await;
    for _ in 0..30 {
        let given = fleet.servers[1].incr("orders").await;
        assert!(given.is_err(), "{given:?}");
        sleep(Duration::from_secs(1)).await;
    }
    // After the remedy values continue above the notes of the server that had them.
    fleet.servers[0].sequences.raise(&key, 5, true).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    fleet.draw(1, 100).await;
    fleet.draw(0, 100).await;
}
