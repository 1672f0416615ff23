//! The contract of sequences on each database server, for the landing gate. The database servers do not sync to disk,
//! because these tests cause no failures.

use crate::contract;
use crate::db::Shared;

#[cfg(feature = "mysql")]
#[test]
#[ignore = "needs mariadb"]
fn mysql_keeps_the_contract() {
    contract::check_all(&Shared(&crate::support::mariadb::MariadbServer::start(&[
        "--innodb-flush-log-at-trx-commit=2",
    ])));
}

#[cfg(feature = "postgres")]
#[test]
#[ignore = "needs postgresql"]
fn postgres_keeps_the_contract() {
    contract::check_all(&Shared(&crate::support::postgres::PostgresServer::start(&["fsync = off"])));
}
