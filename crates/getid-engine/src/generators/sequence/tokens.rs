//! Tinyid's tokens, which authorize requests for sequences: the table `tiny_id_token`, read once a minute.
//!
//! Of each token, memory has only a code that this process alone can compute (an HMAC with its own key), and lookups
//! compare codes. So neither the time of a lookup nor a copy of the memory reveals a token. No request calls the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ring::hmac;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Sequences;
use super::pool::StorePool;
use getid_store::sql::{StoreError, TOKENS_MAX, Token};
use getid_system::noise;
use getid_text::plural::{counted, thousands};
use std::sync::{Mutex, PoisonError};

/// Interval of the reads, as in Tinyid.
const READ_EVERY: Duration = Duration::from_mins(1);
/// Pause after a failed read.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// Code of a token with one of its bizTypes.
type TokenCode = [u8; 32];

/// Result of the check of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenVerdict {
    /// The token is valid for this sequence.
    Allowed,
    /// The token is not valid for it.
    Denied,
    /// No store's tokens have been read yet.
    Unknown,
}

/// The known tokens.
pub(super) struct TinyidTokens {
    is_wanted: AtomicBool,
    key: hmac::Key,
    /// Codes by store; `None` if its tokens have not been read.
    by_store: Mutex<Vec<Option<Arc<HashSet<TokenCode>>>>>,
    /// Notified whenever a store's tokens were read.
    reads: watch::Sender<()>,
}

impl TinyidTokens {
    pub(super) fn new(stores: usize) -> TinyidTokens {
        let secret = [noise::bits(), noise::bits()].map(u128::to_ne_bytes).concat();
        TinyidTokens {
            is_wanted: AtomicBool::new(false),
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            by_store: Mutex::new(vec![None; stores]),
            reads: watch::Sender::new(()),
        }
    }

    fn code(&self, token: &str, biz_type: &str) -> TokenCode {
        let mut context = hmac::Context::with_key(&self.key);
        // The length separates the token from the bizType.
        context.update(&(token.len() as u64).to_le_bytes());
        context.update(token.as_bytes());
        context.update(biz_type.as_bytes());
        context.sign().as_ref().try_into().unwrap_or_default()
    }

    fn set(&self, store: u8, tokens: &[Token]) {
        let codes = tokens.iter().map(|token| self.code(&token.token, &token.biz_type)).collect();
        let mut by_store = self.by_store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = by_store.get_mut(usize::from(store)) {
            *own = Some(Arc::new(codes));
        }
        drop(by_store);
        self.reads.send_replace(());
    }

    fn find(&self, token: &str, biz_type: &str) -> TokenVerdict {
        // As in Tinyid, no token is empty.
        if token.is_empty() || biz_type.is_empty() {
            return TokenVerdict::Denied;
        }
        let code = self.code(token, biz_type);
        let by_store = self.by_store.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = by_store.iter().flatten();
        if known.any(|codes| codes.contains(&code)) {
            TokenVerdict::Allowed
        } else if by_store.iter().all(Option::is_none) {
            TokenVerdict::Unknown
        } else {
            TokenVerdict::Denied
        }
    }
}

/// Result of the last read from a store, which was logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum TokensRead {
    #[default]
    Nothing,
    NoTable,
    Failed,
    TooMany,
    Rows,
}

impl Sequences {
    /// Starts reading the tokens of Tinyid's clients.
    pub fn watch_tokens(&self) {
        self.tokens.is_wanted.store(true, Relaxed);
        for pool in &self.pools {
            pool.probe.notify_one();
        }
    }

    /// Returns whether this token is valid for this sequence. Waits for the first store whose tokens are read, up to
    /// the maximum wait of a request.
    pub async fn may_visit(&self, token: &str, biz_type: &str) -> TokenVerdict {
        let until = Instant::now() + Duration::from_millis(self.wait_ms());
        let mut reads = self.tokens.reads.subscribe();
        loop {
            let visit = self.tokens.find(token, biz_type);
            if visit != TokenVerdict::Unknown || !matches!(timeout_at(until, reads.changed()).await, Ok(Ok(()))) {
                return visit;
            }
        }
    }

    /// Reads a store's tokens if they are due. Returns when they are due next.
    pub(super) async fn read_tokens(&self, pool: &Arc<StorePool>, due: Instant, found: &mut TokensRead) -> Instant {
        if !self.tokens.is_wanted.load(Relaxed) || due > Instant::now() {
            return due;
        }
        let read = pool.run_job(move |mut connection| {
            Box::pin(async move {
                let tokens = connection.tokens().await;
                (connection, tokens)
            })
        });
        let read = read.await;
        let is_known = read.is_ok();
        log_tokens(pool, &read, found);
        if let Ok(tokens) = read {
            let mut tokens = tokens.unwrap_or_default();
            tokens.truncate(TOKENS_MAX);
            self.tokens.set(pool.index, &tokens);
        }
        Instant::now() + if is_known { READ_EVERY } else { READ_AGAIN }
    }
}

/// Logs an error, and the recovery from it, once each.
fn log_tokens(pool: &StorePool, read: &Result<Option<Vec<Token>>, StoreError>, found: &mut TokensRead) {
    let now = match read {
        Ok(None) => TokensRead::NoTable,
        Ok(Some(tokens)) if tokens.len() > TOKENS_MAX => TokensRead::TooMany,
        Ok(Some(_)) => TokensRead::Rows,
        Err(_) => TokensRead::Failed,
    };
    if std::mem::replace(found, now.clone()) == now {
        return;
    }
    let shown = pool.store.shown();
    match read {
        Ok(None) => tracing::error!("http-api tinyid: {}", no_token_table(shown)),
        Ok(Some(tokens)) if tokens.len() > TOKENS_MAX => tracing::error!(
            "http-api tinyid: {shown} has more than {} rows in tiny_id_token, and only the first of them count, in the \
             order of token and biz_type: delete unused ones",
            thousands(TOKENS_MAX as u64)
        ),
        Ok(Some(tokens)) => tracing::info!(
            "http-api tinyid: {} of tiny_id_token in {shown}, read again every minute",
            counted(tokens.len() as u64, "row")
        ),
        Err(error) => tracing::error!(
            "http-api tinyid: tiny_id_token could not be read; those that were read before still count. {error}"
        ),
    }
}

/// Returns the error text for a store without a table of tokens, with the remedy.
pub fn no_token_table(shown: &str) -> String {
    format!(
        "{shown} has no table tiny_id_token, so every token is wrong: CREATE TABLE tiny_id_token (token VARCHAR(255) NOT \
         NULL, biz_type VARCHAR(63) NOT NULL), with a row for each token and each bizType that it may use"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(token: &str, biz_type: &str) -> Token {
        Token { token: token.to_owned(), biz_type: biz_type.to_owned() }
    }

    #[test]
    fn a_token_is_good_for_its_own_sequences_alone() {
        let tokens = TinyidTokens::new(2);
        assert_eq!(tokens.find("a", "orders"), TokenVerdict::Unknown);
        assert_eq!((tokens.find("", "orders"), tokens.find("a", "")), (TokenVerdict::Denied, TokenVerdict::Denied));
        tokens.set(1, &[token("a", "orders"), token("a", "refunds"), token("ab", "c")]);
        for (secret, biz_type, visit) in [
            ("a", "orders", TokenVerdict::Allowed),
            ("a", "refunds", TokenVerdict::Allowed),
            ("ab", "c", TokenVerdict::Allowed),
            ("a", "bc", TokenVerdict::Denied),
            ("abc", "", TokenVerdict::Denied),
            ("A", "orders", TokenVerdict::Denied),
            ("a", "Orders", TokenVerdict::Denied),
            ("a ", "orders", TokenVerdict::Denied),
            ("", "", TokenVerdict::Denied),
        ] {
            assert_eq!(tokens.find(secret, biz_type), visit, "{secret} {biz_type}");
        }
        // Each store has its own tokens; a new read replaces the previous ones.
        tokens.set(0, &[token("z", "orders")]);
        assert_eq!(
            (tokens.find("a", "orders"), tokens.find("z", "orders")),
            (TokenVerdict::Allowed, TokenVerdict::Allowed)
        );
        tokens.set(1, &[]);
        assert_eq!(
            (tokens.find("a", "orders"), tokens.find("z", "orders")),
            (TokenVerdict::Denied, TokenVerdict::Allowed)
        );
    }
}
