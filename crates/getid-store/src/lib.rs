//! Where getid keeps sequences and records: SQLite, MySQL, PostgreSQL, etcd.
//!
//! A statement whose answer is lost may have been done. So [`sql`], the stores of sequences, and [`records`], small
//! texts that servers share, return such an outcome as an error of its own ([`Unknown`](sql::StoreError::Unknown)).
//! Callers see the traits [`Store`](sql::Store) and [`RecordStore`](records::RecordStore); each database is a feature.
//! When to reserve, how much, and what a record's text means, is up to the callers.
//!
//! Invariants: a value belongs to at most one successful reservation, whatever fails. Of two writes of a record that
//! name the same stamp, at most one is done.

pub mod records;
pub mod sql;
