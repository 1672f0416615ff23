//! The contract of records and one takeover on each store that servers share, for the landing gate. The databases do
//! not sync to disk, because these tests cause no failures.

use crate::contract::check_all;
use crate::etcd::Cluster;
use crate::sql::Shared;
use crate::support::backend::SqlBackend;
use crate::support::etcd::EtcdCluster;
use crate::support::mariadb::MariadbServer;
use crate::support::postgres::PostgresServer;
use crate::takeover::killed;

#[test]
#[ignore = "needs mariadb"]
fn claims_in_mariadb() {
    claims_in(&MariadbServer::start(&["--innodb-flush-log-at-trx-commit=2"]));
}

#[test]
#[ignore = "needs postgresql"]
fn claims_in_postgres() {
    claims_in(&PostgresServer::start(&["fsync = off"]));
}

fn claims_in(server: &dyn SqlBackend) {
    check_all(&Shared::new(server));
    server.clear();
    killed(server, 1);
}

#[test]
#[ignore = "needs etcd"]
fn claims_in_etcd() {
    let cluster = Cluster(EtcdCluster::one(&[]));
    check_all(&cluster);
    cluster.0.clear();
    killed(&cluster.0, 1);
}
