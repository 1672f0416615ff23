//! Effects of commands about numbers without gaps.

use std::sync::Arc;

use getid_core::server::CounterDeclaration;
use getid_core::server::ledger::{LedgerQuery, NumberAct};

/// Effects of `NUMBER`, and of `GETID` with a request of a gapless generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberEffect {
    /// Answer the text of a reserved number, or `+OK`.
    Act(NumberAction),
    /// `LEDGER`: answer a cursor, and a map for each row.
    Ledger(LedgerPageRequest),
}

/// A change of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberAction {
    /// Declaration of the generator.
    pub counter: Arc<CounterDeclaration>,
    /// Key of the series; empty for a generator without keys, and where the number of a request may be of any series.
    pub series: String,
    /// The request; empty if the number is settled by hand.
    pub request: String,
    /// What is done.
    pub act: NumberAct,
    /// Whether the user may act for the requests of others.
    pub is_admin: bool,
}

impl NumberAction {
    /// Returns the request, or the text of the number that is settled by hand.
    pub fn subject(&self) -> &str {
        match &self.act {
            NumberAct::Settle { text, .. } => text,
            _ => &self.request,
        }
    }
}

/// A page of a ledger that a client reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPageRequest {
    /// Rows of the page.
    pub query: LedgerQuery,
    /// Whether the user sees the requests of others.
    pub shows_all: bool,
}
