//! Where getid keeps sequences and records: SQLite, MySQL, PostgreSQL, etcd.

pub mod records;
pub mod sql;
