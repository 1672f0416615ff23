//! Who may ask for which sequence by a token: `tiny_id_token`, as Tinyid has it, read once a minute.
//!
//! What is kept of a token is a code that only this process can make (an HMAC under a key of its own), and that is what
//! is looked for: so neither the time that takes nor a copy of the memory tells a token. No request asks the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ring::hmac;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Sequences;
use super::pool::Pool;
use crate::sql::{StoreError, TOKENS_MAX, Token};
use crate::sync::{Mutex, PoisonError};
use crate::system::noise;
use crate::text::plural::{counted, thousands};

/// How often they are read, as by Tinyid; sooner after a store could not be asked.
const READ_EVERY: Duration = Duration::from_mins(1);
const READ_AGAIN: Duration = Duration::from_secs(5);

/// What stands for a token and one of its bizTypes.
type Code = [u8; 32];

/// Whether somebody may ask for a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The token is one of this sequence's.
    Allowed,
    /// It is not.
    Denied,
    /// No store has told its tokens yet.
    Unknown,
}

/// The tokens that are known.
pub(super) struct Tokens {
    is_wanted: AtomicBool,
    key: hmac::Key,
    /// Of each store that has told them.
    by_store: Mutex<Vec<Option<Arc<HashSet<Code>>>>>,
    /// Changes whenever a store has told them.
    told: watch::Sender<()>,
}

impl Tokens {
    pub(super) fn new(stores: usize) -> Tokens {
        let secret = [noise::bits(), noise::bits()].map(u128::to_ne_bytes).concat();
        Tokens {
            is_wanted: AtomicBool::new(false),
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            by_store: Mutex::new(vec![None; stores]),
            told: watch::Sender::new(()),
        }
    }

    fn code(&self, token: &str, biz_type: &str) -> Code {
        let mut context = hmac::Context::with_key(&self.key);
        // The length says where one ends and the other begins.
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
        self.told.send_replace(());
    }

    fn find(&self, token: &str, biz_type: &str) -> Visit {
        // As Tinyid: nobody has an empty one.
        if token.is_empty() || biz_type.is_empty() {
            return Visit::Denied;
        }
        let code = self.code(token, biz_type);
        let by_store = self.by_store.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = by_store.iter().flatten();
        if told.any(|codes| codes.contains(&code)) {
            Visit::Allowed
        } else if by_store.iter().all(Option::is_none) {
            Visit::Unknown
        } else {
            Visit::Denied
        }
    }
}

/// What was found at a store the last time, and so was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Found {
    #[default]
    Nothing,
    NoTable,
    Failed,
    TooMany,
    Rows,
}

impl Sequences {
    /// Reads the tokens of Tinyid's clients from now on.
    pub fn watch_tokens(&self) {
        self.tokens.is_wanted.store(true, Relaxed);
        for pool in &self.pools {
            pool.probe.notify_one();
        }
    }

    /// Whether who has this token may ask for this sequence; waits for the first store that tells its tokens, as long
    /// as a request may wait.
    pub async fn may_visit(&self, token: &str, biz_type: &str) -> Visit {
        let until = Instant::now() + Duration::from_millis(self.wait_ms());
        let mut told = self.tokens.told.subscribe();
        loop {
            let visit = self.tokens.find(token, biz_type);
            if visit != Visit::Unknown || !matches!(timeout_at(until, told.changed()).await, Ok(Ok(()))) {
                return visit;
            }
        }
    }

    /// Reads a store's tokens if it is time to; when it will be again.
    pub(super) async fn read_tokens(&self, pool: &Arc<Pool>, due: Instant, found: &mut Found) -> Instant {
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
        tell_of_tokens(pool, &read, found);
        if let Ok(tokens) = read {
            let mut tokens = tokens.unwrap_or_default();
            tokens.truncate(TOKENS_MAX);
            self.tokens.set(pool.index, &tokens);
        }
        Instant::now() + if is_known { READ_EVERY } else { READ_AGAIN }
    }
}

/// Says what is wrong, and what is right again, once each.
fn tell_of_tokens(pool: &Pool, read: &Result<Option<Vec<Token>>, StoreError>, found: &mut Found) {
    let now = match read {
        Ok(None) => Found::NoTable,
        Ok(Some(tokens)) if tokens.len() > TOKENS_MAX => Found::TooMany,
        Ok(Some(_)) => Found::Rows,
        Err(_) => Found::Failed,
    };
    if std::mem::replace(found, now.clone()) == now {
        return;
    }
    let shown = pool.store.shown();
    match read {
        Ok(None) => tracing::error!("http-api tinyid: {}", no_token_table(shown)),
        Ok(Some(tokens)) if tokens.len() > TOKENS_MAX => tracing::error!(
            "http-api tinyid: {shown} has more than {} rows in tiny_id_token, and only the first of them count, in the \
             order of token and biz_type: delete those that nobody uses",
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

/// What is wrong with a store that has no table of tokens, and the remedy.
pub fn no_token_table(shown: &str) -> String {
    format!(
        "{shown} has no table tiny_id_token, so every token is wrong: CREATE TABLE tiny_id_token (token VARCHAR(255) NOT \
         NULL, biz_type VARCHAR(63) NOT NULL), with a row for each token and each bizType that it may ask for"
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
        let tokens = Tokens::new(2);
        assert_eq!(tokens.find("a", "orders"), Visit::Unknown);
        assert_eq!((tokens.find("", "orders"), tokens.find("a", "")), (Visit::Denied, Visit::Denied));
        tokens.set(1, &[token("a", "orders"), token("a", "refunds"), token("ab", "c")]);
        for (secret, biz_type, visit) in [
            ("a", "orders", Visit::Allowed),
            ("a", "refunds", Visit::Allowed),
            ("ab", "c", Visit::Allowed),
            ("a", "bc", Visit::Denied),
            ("abc", "", Visit::Denied),
            ("A", "orders", Visit::Denied),
            ("a", "Orders", Visit::Denied),
            ("a ", "orders", Visit::Denied),
            ("", "", Visit::Denied),
        ] {
            assert_eq!(tokens.find(secret, biz_type), visit, "{secret} {biz_type}");
        }
        // Each store has its own; one that is read again forgets what it had.
        tokens.set(0, &[token("z", "orders")]);
        assert_eq!((tokens.find("a", "orders"), tokens.find("z", "orders")), (Visit::Allowed, Visit::Allowed));
        tokens.set(1, &[]);
        assert_eq!((tokens.find("a", "orders"), tokens.find("z", "orders")), (Visit::Denied, Visit::Allowed));
    }
}
