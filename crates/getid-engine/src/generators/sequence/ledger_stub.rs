//! Stub.
use std::sync::Arc;

use getid_core::server::SequenceRefusal;
use getid_core::server::ledger::{LedgerCounts, LedgerPage, LedgerQuery, NumberAnswer, NumberRefusal, NumberRequest};

use super::{SequenceError, Sequences};

/// Error of a number.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberError {
    /// Refused.
    Refused(NumberRefusal),
    /// As a draw.
    Sequence(SequenceRefusal),
}

impl Sequences {
    /// Stub.
    ///
    /// # Errors
    /// Stub.
    pub async fn number(self: &Arc<Self>, request: NumberRequest) -> Result<NumberAnswer, NumberError> {
        let _ = request;
        Err(NumberError::Refused(NumberRefusal::UnknownRequest))
    }
    /// Stub.
    ///
    /// # Errors
    /// Stub.
    pub async fn ledger(self: &Arc<Self>, query: LedgerQuery) -> Result<LedgerPage, SequenceError> {
        let _ = query;
        Ok(LedgerPage::default())
    }
    /// Stub.
    ///
    /// # Errors
    /// Stub.
    pub async fn ledger_counts(self: &Arc<Self>, name: &str) -> Result<LedgerCounts, SequenceError> {
        let _ = name;
        Ok(LedgerCounts::default())
    }
}
