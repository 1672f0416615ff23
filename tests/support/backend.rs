//! Database servers in which getid keeps sequences and claims. Stories and scenarios drive each of them in the same
//! way.

use std::path::{Path, PathBuf};

use super::etcd::EtcdCluster;
use super::eventually;
use super::mariadb::{self, MariadbServer};
use super::postgres::{OWNER_PASSWORD, PostgresServer};
use super::program;
use super::proxy::{Proxy, Target};

/// A database server that a test starts.
pub trait Backend: Send + Sync {
    /// Returns the owner's address.
    fn url(&self) -> String;

    /// Returns a proxy in front of the server, and the owner's address through it.
    fn proxy(&self) -> (Proxy, String);

    /// Returns the folders of its data.
    fn data(&self) -> Vec<PathBuf>;

    /// Removes all stored data.
    fn clear(&self);

    /// Kills all its processes (kill -9).
    fn kill(&mut self);

    fn start_again(&mut self);

    /// Stops all its processes until [`Backend::resume`].
    fn pause(&self);

    fn resume(&self);
}

/// A database server with SQL.
pub trait SqlBackend: Backend {
    /// Runs statements as the owner.
    fn try_sql(&self, sql: &str) -> Result<String, String>;

    /// Runs statements as the owner, without the constraints that refuse wrong rows.
    fn edit(&self, sql: &str) -> Result<(), String> {
        self.try_sql(sql).map(drop)
    }

    /// Returns a statement that takes a minute, and the tail of a query that selects the sessions in it.
    fn sleep(&self) -> [&'static str; 2];

    /// Ends the session with this number.
    fn end_session(&self, id: &str);

    /// Ends all sessions of getid.
    fn end_sessions_of_getid(&self);

    #[track_caller]
    fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

/// Runs `during` while a transaction holds the locks of the statements `locks`.
pub fn while_locked<T>(server: &dyn SqlBackend, locks: &str, during: impl FnOnce() -> T) -> T {
    let [sleep, sessions] = server.sleep();
    let count = || server.sql(&format!("SELECT count(*) {sessions}"));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| server.try_sql(&format!("{locks}; {sleep}")));
        eventually("the lock", || held.is_finished() || count() == "1");
        let result = during();
        server.end_session(&server.sql(&format!("SELECT id {sessions}")));
        eventually("the end of the lock", || count() == "0");
        assert!(held.join().unwrap().is_err(), "its session was ended");
        result
    })
}

/// Copies the data of a server that is stopped.
pub fn save(server: &dyn Backend, to: &Path) {
    for (at, data) in server.data().iter().enumerate() {
        copy(data, &to.join(at.to_string()));
    }
}

/// Restores the data copied by [`save`].
pub fn restore(server: &dyn Backend, from: &Path) {
    for (at, data) in server.data().iter().enumerate() {
        std::fs::remove_dir_all(data).expect("its data");
        copy(&from.join(at.to_string()), data);
    }
}

fn copy(from: &Path, to: &Path) {
    program::run(std::process::Command::new("cp").arg("-a").arg("-T").arg(from).arg(to), "");
}

impl Backend for MariadbServer {
    fn url(&self) -> String {
        MariadbServer::url(self)
    }

    fn proxy(&self) -> (Proxy, String) {
        let proxy = Proxy::to(Target::Socket(self.socket()));
        let url = format!("mysql://getid:{}@127.0.0.1:{}/ids", mariadb::PASSWORD, proxy.port);
        (proxy, url)
    }

    fn data(&self) -> Vec<PathBuf> {
        vec![self.dir().join("data")]
    }

    fn clear(&self) {
        MariadbServer::sql(self, "DROP DATABASE ids; CREATE DATABASE ids");
    }

    fn kill(&mut self) {
        MariadbServer::kill(self);
    }

    fn start_again(&mut self) {
        MariadbServer::start_again(self);
    }

    fn pause(&self) {
        MariadbServer::pause(self);
    }

    fn resume(&self) {
        MariadbServer::resume(self);
    }
}

impl SqlBackend for MariadbServer {
    fn try_sql(&self, sql: &str) -> Result<String, String> {
        MariadbServer::try_sql(self, sql)
    }

    fn sleep(&self) -> [&'static str; 2] {
        ["DO SLEEP(60)", "FROM information_schema.processlist WHERE info = 'DO SLEEP(60)'"]
    }

    fn end_session(&self, id: &str) {
        MariadbServer::sql(self, &format!("KILL CONNECTION {id}"));
    }

    fn end_sessions_of_getid(&self) {
        let ids = MariadbServer::sql(self, "SELECT id FROM information_schema.processlist WHERE user = 'getid'");
        ids.lines().for_each(|id| self.end_session(id));
    }
}

impl Backend for PostgresServer {
    fn url(&self) -> String {
        PostgresServer::url(self)
    }

    fn proxy(&self) -> (Proxy, String) {
        let proxy = Proxy::to(Target::Port(self.port));
        let url = format!("postgres://postgres:{OWNER_PASSWORD}@127.0.0.1:{}/postgres", proxy.port);
        (proxy, url)
    }

    fn data(&self) -> Vec<PathBuf> {
        vec![self.dir().join("data")]
    }

    fn clear(&self) {
        let public = "DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC";
        self.psql(&format!("SET client_min_messages = warning; {public}"));
    }

    fn kill(&mut self) {
        self.stop_immediate();
    }

    fn start_again(&mut self) {
        PostgresServer::start_again(self);
    }

    fn pause(&self) {
        PostgresServer::pause(self);
    }

    fn resume(&self) {
        PostgresServer::resume(self);
    }
}

impl SqlBackend for PostgresServer {
    fn try_sql(&self, sql: &str) -> Result<String, String> {
        self.try_psql("postgres", sql)
    }

    fn edit(&self, sql: &str) -> Result<(), String> {
        let unchecked = "DO $$ DECLARE c text; BEGIN FOR c IN SELECT conname FROM pg_constraint \
                         WHERE conrelid = to_regclass('getid_sequence') AND contype = 'c' LOOP \
                         EXECUTE 'ALTER TABLE getid_sequence DROP CONSTRAINT ' || quote_ident(c); END LOOP; END $$;";
        self.try_sql(&format!("{unchecked}\n{sql}")).map(drop)
    }

    fn sleep(&self) -> [&'static str; 2] {
        [
            "SELECT pg_sleep(60)",
            "FROM (SELECT pid AS id FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%') AS sleeping",
        ]
    }

    fn end_session(&self, id: &str) {
        self.psql(&format!("SELECT pg_terminate_backend({id})"));
    }

    fn end_sessions_of_getid(&self) {
        self.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'getid'");
    }
}

impl Backend for EtcdCluster {
    fn url(&self) -> String {
        EtcdCluster::url(self)
    }

    /// Returns a proxy in front of the first member.
    fn proxy(&self) -> (Proxy, String) {
        let proxy = Proxy::to(Target::Port(self.members[0].port));
        let url = format!("etcd://127.0.0.1:{}/getid", proxy.port);
        (proxy, url)
    }

    fn data(&self) -> Vec<PathBuf> {
        self.members.iter().map(super::etcd::EtcdMember::data).collect()
    }

    fn clear(&self) {
        EtcdCluster::clear(self);
    }

    fn kill(&mut self) {
        EtcdCluster::kill(self);
    }

    fn start_again(&mut self) {
        EtcdCluster::start_again(self);
    }

    fn pause(&self) {
        self.members.iter().for_each(super::etcd::EtcdMember::pause);
    }

    fn resume(&self) {
        self.members.iter().for_each(super::etcd::EtcdMember::resume);
    }
}
