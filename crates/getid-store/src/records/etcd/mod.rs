//! Records in etcd, 3.4 or newer, through its JSON gateway.
//!
//! Any member in the address may serve a request. It goes to the member that answered last. If that fails and nothing
//! was done there, the next member is tried. A sent write without an answer is not sent again: the caller reads, and
//! the stamp shows the result.
//!
//! Requests, answers and the meaning of errors are in `gateway` and `failure`, which are pure.
//!
//! Invariant: a result that means that a write was not done ([`WriteResult::Conflict`], [`RecordStoreError::Refused`],
//! [`RecordStoreError::Away`]) is returned only if etcd reported it or the request was not sent.

mod failure;
mod gateway;
mod history;
mod link;
mod member;
mod versions;

pub use self::history::CompactionRounds;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::{
    DamagedRow, Key, LIST_MAX, RecordFuture, RecordPage, RecordRow, RecordStore, RecordStoreError, RecordStoreInfo,
    Stamp, TEXT_BYTES_MAX, WriteResult,
};
use failure::MemberFailure;
use gateway::{AnswerError, ExpectedValue, Listing, StatusAnswer};
use getid_text::store_url::EtcdAddress;
use member::{Member, TimedRequest};

/// Most requests in progress; others wait for their turn.
const REQUESTS_MAX: usize = 32;

/// Most bytes of an answer: one record of the longest text, in Base64, and its surroundings.
const ANSWER_BYTES_MAX: usize = TEXT_BYTES_MAX / 3 * 4 + 64 * 1024;

/// Most bytes of a page of records; a longer page is read again with fewer records.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most records of a page.
const PAGE_ROWS: usize = 200;

/// Records in an etcd cluster, below a prefix.
pub struct EtcdStore {
    shown: String,
    prefix: String,
    deadline: Duration,
    compact_every_s: u64,
    members: Vec<Member>,
    /// Index of the member that is tried first.
    first: AtomicUsize,
    requests: Semaphore,
}

/// Whether a request changes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Read,
    Write,
}

impl EtcdStore {
    /// Creates a store without a connection. `shown` is the address without a password, and `deadline` the longest time
    /// of a call.
    pub fn new(address: &EtcdAddress, shown: &str, deadline: Duration) -> EtcdStore {
        let members = address.endpoints.iter().map(|(host, port)| Member::new(address, host, *port)).collect();
        EtcdStore {
            shown: shown.to_owned(),
            prefix: address.prefix.clone(),
            deadline,
            compact_every_s: address.compact_every_s,
            members,
            first: AtomicUsize::new(0),
            requests: Semaphore::new(REQUESTS_MAX),
        }
    }

    /// Returns the first answer of a member, of at most `bytes_max` bytes.
    async fn ask(
        &self,
        kind: RequestKind,
        request: GatewayRequest,
        bytes_max: usize,
        end: Instant,
    ) -> Result<Bytes, MemberFailure> {
        let Ok(Ok(_turn)) = timeout_at(end, self.requests.acquire()).await else {
            return Err(MemberFailure::Away(format!(
                "{REQUESTS_MAX} requests to etcd are in progress, and none ended in time for another"
            )));
        };
        let first = self.first.load(Ordering::Relaxed);
        let mut failed = Vec::new();
        for step in 0..self.members.len() {
            let index = (first + step) % self.members.len();
            let share = share_of(end, self.members.len() - step);
            // A write waits as long as permitted: no other member can report its result.
            let answer_by = if kind == RequestKind::Write { end } else { share };
            let (path, body) = (request.path, request.body.clone());
            let asking = TimedRequest { path, body, bytes_max, connected_by: share, answer_by };
            let failure = match Box::pin(self.members[index].ask(asking)).await {
                Err(failure @ (MemberFailure::Refused(_) | MemberFailure::Compacted(_))) => return Err(failure),
                Err(failure @ MemberFailure::TooLong(_)) if kind == RequestKind::Read => return Err(failure),
                Err(failure) => failure,
                answer => return answer,
            };
            // The next request begins with the next member, unless another request has advanced it already.
            let next = (index + 1) % self.members.len();
            let _ = self.first.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
            match failure {
                MemberFailure::Unknown(_) | MemberFailure::TooLong(_) if kind == RequestKind::Write => {
                    return Err(failure);
                }
                failure => failed.push(failure),
            }
        }
        Err(summary(failed))
    }

    /// Sends a request that changes nothing.
    async fn send_read(
        &self,
        request: GatewayRequest,
        bytes_max: usize,
        end: Instant,
    ) -> Result<Bytes, RecordStoreError> {
        let answer = self.ask(RequestKind::Read, request, bytes_max, end).await;
        answer.map_err(|failure| error_of(failure, RequestKind::Read))
    }

    /// Returns a page of records after a key of etcd, with fewer than `limit` if they are long.
    async fn page(&self, prefix: &str, after: &[u8], limit: usize, end: Instant) -> Result<ListPage, RecordStoreError> {
        let mut limit = limit;
        loop {
            let Some(body) = gateway::list(&self.prefix, prefix, after, limit) else {
                return Ok(ListPage { listing: Listing::default(), is_last: true });
            };
            match self.ask(RequestKind::Read, GatewayRequest::new(gateway::READ, body), PAGE_BYTES_MAX, end).await {
                Err(MemberFailure::TooLong(_)) if limit > 1 => limit = (limit / 8).max(1),
                Err(failure) => return Err(error_of(failure, RequestKind::Read)),
                Ok(answer) => {
                    let listing = self.read_as(&answer, gateway::list_answer)?;
                    return Ok(ListPage { is_last: listing.rows.len() < limit, listing });
                }
            }
        }
    }

    /// Returns the status of a member.
    async fn status_of(&self, member: &Member, by: Instant) -> Result<StatusAnswer, MemberFailure> {
        let GatewayRequest { path, body } = GatewayRequest::new(gateway::STATUS, gateway::status());
        let asking = TimedRequest { path, body, bytes_max: ANSWER_BYTES_MAX, connected_by: by, answer_by: by };
        let answer = member.ask(asking).await?;
        gateway::status_answer(&answer).map_err(|fault| MemberFailure::Unfit(self.refusal(fault).to_string()))
    }

    fn end(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// Parses the answer to a request that changes nothing.
    fn read_as<T>(
        &self,
        answer: &[u8],
        read: impl Fn(&str, &[u8]) -> Result<T, AnswerError>,
    ) -> Result<T, RecordStoreError> {
        read(&self.prefix, answer).map_err(|fault| self.refusal(fault))
    }

    fn refusal(&self, fault: AnswerError) -> RecordStoreError {
        match fault {
            AnswerError::NotEtcd(what) => RecordStoreError::Refused(self.not_etcd_text(&what)),
            AnswerError::NotARecord(bad) => RecordStoreError::Damaged(bad),
        }
    }

    fn not_etcd_text(&self, what: &str) -> String {
        format!("{} gave an answer that etcd does not give ({what}): etcd 3.4 or newer is expected there", self.shown)
    }

    /// Writes `new` if the key is in the state `expect`; returns the store's revision too, 0 if the answer lacks it.
    async fn replace(
        &self,
        key: &Key,
        expect: ExpectedValue<'_>,
        new: &RecordRow,
    ) -> Result<(WriteResult, u64), RecordStoreError> {
        if new.text.len() > TEXT_BYTES_MAX {
            let sentence = format!("'{key}' has {} bytes, must have at most {TEXT_BYTES_MAX}", new.text.len());
            return Err(RecordStoreError::Refused(sentence));
        }
        let request = GatewayRequest::new(gateway::WRITE, gateway::write(&self.prefix, key, expect, new));
        let answer = self.ask(RequestKind::Write, request, ANSWER_BYTES_MAX, self.end()).await;
        let answer = answer.map_err(|failure| error_of(failure, RequestKind::Write))?;
        let written = gateway::write_answer(&self.prefix, key, &answer);
        let written = written.map_err(|fault| match fault {
            // The write was not done: etcd read the key instead.
            AnswerError::NotARecord(bad) => RecordStoreError::Damaged(bad),
            AnswerError::NotEtcd(what) => RecordStoreError::Unknown(self.not_etcd_text(&what)),
        })?;
        Ok((written, gateway::revision_of(&answer).unwrap_or(0)))
    }
}

/// A request to the gateway.
struct GatewayRequest {
    path: &'static str,
    body: Bytes,
}

impl GatewayRequest {
    fn new(path: &'static str, body: Vec<u8>) -> GatewayRequest {
        GatewayRequest { path, body: body.into() }
    }
}

struct ListPage {
    listing: Listing,
    is_last: bool,
}

impl RecordStore for EtcdStore {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn read<'a>(&'a self, key: &'a Key) -> RecordFuture<'a, Option<RecordRow>> {
        Box::pin(async move {
            let request = GatewayRequest::new(gateway::READ, gateway::read(&self.prefix, key));
            let answer = self.send_read(request, ANSWER_BYTES_MAX, self.end()).await?;
            self.read_as(&answer, |prefix, answer| gateway::read_answer(prefix, key, answer))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage> {
        Box::pin(async move {
            let (limit, end) = (limit.min(LIST_MAX), self.end());
            let mut listed = RecordPage::default();
            let mut after = if after.is_empty() { Vec::new() } else { gateway::name(&self.prefix, after).into_bytes() };
            while listed.rows.len() < limit {
                let remaining = (limit - listed.rows.len()).min(PAGE_ROWS);
                let ListPage { listing, is_last } = self.page(prefix, &after, remaining, end).await?;
                for row in listing.rows {
                    match row {
                        Ok(row) => listed.rows.push(row),
                        Err(bad) => listed.skip(bad)?,
                    }
                }
                if is_last {
                    break;
                }
                after = listing.last;
            }
            Ok(listed)
        })
    }

    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a RecordRow) -> RecordFuture<'a, WriteResult> {
        let expect = expect.map_or(ExpectedValue::Absent, ExpectedValue::Stamp);
        Box::pin(async move { self.replace(key, expect, new).await.map(|(written, _)| written) })
    }

    fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> RecordFuture<'a, bool> {
        Box::pin(async move {
            match self.replace(key, ExpectedValue::Value(&bad.text), new).await {
                Ok((written, _)) => Ok(written == WriteResult::Done),
                // The row has changed meanwhile.
                Err(RecordStoreError::Damaged(_)) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    fn info(&self) -> RecordFuture<'_, RecordStoreInfo> {
        Box::pin(async move {
            let end = self.end();
            let mut answers = Vec::new();
            for (index, member) in self.members.iter().enumerate() {
                let by = share_of(end, self.members.len() - index);
                let answer = self.status_of(member, by).await;
                answers.push((member, answer));
            }
            if answers.iter().all(|(_, answer)| answer.is_err()) {
                let failed = answers.into_iter().filter_map(|(_, answer)| answer.err()).collect();
                return Err(error_of(summary(failed), RequestKind::Read));
            }
            let mut info = versions::info(answers.iter().map(|(member, answer)| (member.place(), answer)));
            for (member, _) in answers.iter().filter(|(member, _)| member.is_auth_disabled()) {
                info.warnings.push(format!(
                    "{} has authentication disabled, and accepts any client that reaches it: etcdctl auth enable",
                    member.place()
                ));
            }
            info.warnings.extend(self.history_warning(end).await);
            Ok(info)
        })
    }
}

/// Returns the time until which the first of `members` members may take.
fn share_of(end: Instant, members: usize) -> Instant {
    let now = Instant::now();
    now + end.saturating_duration_since(now) / u32::try_from(members).unwrap_or(u32::MAX).max(1)
}

/// Returns the combined failure of several members that did nothing.
fn summary(failed: Vec<MemberFailure>) -> MemberFailure {
    // The result is permanent only if it is permanent for all members.
    let is_unfit = failed.iter().all(|failure| matches!(failure, MemberFailure::Refused(_) | MemberFailure::Unfit(_)));
    let mut texts: Vec<_> = failed.into_iter().map(MemberFailure::text).collect();
    texts.dedup();
    let text = texts.join("; ");
    if is_unfit { MemberFailure::Unfit(text) } else { MemberFailure::Away(text) }
}

/// Returns the error of a request without an answer.
fn error_of(failure: MemberFailure, kind: RequestKind) -> RecordStoreError {
    match failure {
        MemberFailure::Unknown(text) | MemberFailure::TooLong(text) if kind == RequestKind::Write => {
            RecordStoreError::Unknown(text)
        }
        MemberFailure::Refused(text)
        | MemberFailure::Unfit(text)
        | MemberFailure::TooLong(text)
        | MemberFailure::Compacted(text) => RecordStoreError::Refused(text),
        other => RecordStoreError::Away(other.text()),
    }
}
