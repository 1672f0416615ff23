//! `NUMBER`: numbers without gaps, and their ledger.

use std::sync::Arc;

use getid_core::server::ledger::{LedgerRow, NumberAct, NumberAnswer, NumberRequest, NumberState};
use getid_core::server::{CounterDeclaration, Key, SequenceRefusal};
use getid_engine::generators::sequence::{CounterOpening, NumberError, Sequences};
use getid_redis::resp::{ErrorReply, Value};
use getid_redis::session::{LedgerPageRequest, NumberAction, NumberEffect, SEQUENCES_OFF};
use getid_system::clock::Clock as _;
use getid_text::timestamp;

use super::EffectReply;
use crate::Server;
use crate::audit::AuditAction;
use crate::error_replies::{of_counter, of_number, of_sequence, of_standby};
use crate::registry::Client;

/// Maximum number of newer periods to which a request moves, each later than the one before.
const PERIODS_TRIED: usize = 3;

pub(super) async fn perform(server: &Arc<Server>, effect: NumberEffect, client: &Client) -> EffectReply {
    // A standby shows ledgers, and settles numbers for operators; it serves no request.
    let serves_request = matches!(&effect, NumberEffect::Act(action) if !is_by_hand(&action.act));
    if serves_request && let Some(refusal) = server.generators.standby_refusal() {
        return Value::Error(of_standby(&refusal)).into();
    }
    let Some(sequences) = server.generators.sequences() else { return Value::Error(SEQUENCES_OFF).into() };
    let outcome = match effect {
        NumberEffect::Act(action) => act(server, sequences, &action, client).await,
        NumberEffect::Ledger(page) => ledger(server, sequences, page, client).await,
    };
    outcome.unwrap_or_else(Value::Error).into()
}

fn is_by_hand(act: &NumberAct) -> bool {
    matches!(act, NumberAct::Settle { .. } | NumberAct::Raise { .. })
}

/// Raises the counter of a gapless generator above `last`: the numbers that are not handed out become void, in one row.
pub(super) async fn raise(
    server: &Server,
    sequences: &Arc<Sequences>,
    (counter, series): (&Arc<CounterDeclaration>, &str),
    last: i64,
    client: &Client,
) -> Result<Value, ErrorReply> {
    let act_of_raise = NumberAct::Raise { last, reason: "SEQUENCE RAISE".to_owned() };
    let (counter, series, request) = (Arc::clone(counter), series.to_owned(), String::new());
    let action = NumberAction { counter, series, request, act: act_of_raise, is_admin: true };
    act(server, sequences, &action, client).await
}

/// Changes a number. A request that finds a newer period, which another server has begun, is repeated in that one.
async fn act(
    server: &Server,
    sequences: &Arc<Sequences>,
    action: &NumberAction,
    client: &Client,
) -> Result<Value, ErrorReply> {
    let (name, series) = (action.counter.name(), action.series.as_str());
    // The generator's name, and behind a slash the key of the series, if the request names one.
    let counter_name = if series.is_empty() { name.to_owned() } else { format!("{name}/{series}") };
    let mut tries = PERIODS_TRIED;
    let answer = loop {
        let (request, counter_opening) = request_of(server, action, client)?;
        match sequences.number(request, counter_opening).await {
            Err(NumberError::Counter(SequenceRefusal::Newer { period })) if tries > 0 => {
                server.generators.advance_period(name, &period);
                tries -= 1;
            }
            Err(NumberError::Counter(refusal)) => return Err(ErrorReply::of_sequence(&refusal, &counter_name)),
            outcome => break outcome.map_err(|error| of_number(&error, name, action.subject()))?,
        }
    };
    if let NumberAct::Settle { text, commits, .. } = &action.act {
        let what = if *commits { "NUMBER SETTLE COMMIT" } else { "NUMBER SETTLE VOID" };
        server.audit(AuditAction::Number { what, name, number: text }, client);
    }
    let NumberAnswer { text, .. } = answer;
    Ok(if matches!(action.act, NumberAct::Reserve { .. }) { Value::bulk(text) } else { Value::OK })
}

/// Returns the request for the present period, and how that begins.
fn request_of(
    server: &Server,
    action: &NumberAction,
    client: &Client,
) -> Result<(NumberRequest, CounterOpening), ErrorReply> {
    let NumberAction { counter, series, request, act, is_admin } = action;
    let name = counter.name();
    let now = server.generators.ledger_counter(counter, series).map_err(|refusal| of_counter(&refusal, name))?;
    let request = NumberRequest {
        // Names, series and periods were checked, so together they are a key.
        key: Key::parse(&now.key).ok_or_else(|| ErrorReply::of_sequence(&SequenceRefusal::NoSuch, name))?,
        declaration: Arc::clone(counter),
        stamp: now.stamp,
        user: client.user().0.to_string(),
        is_admin: *is_admin,
        request: request.clone(),
        act: act.clone(),
    };
    Ok((request, now.counter_opening))
}

/// Answers a cursor, which is empty at the end, and a map for each row of the page.
async fn ledger(
    server: &Server,
    sequences: &Arc<Sequences>,
    page: LedgerPageRequest,
    client: &Client,
) -> Result<Value, ErrorReply> {
    let LedgerPageRequest { query, shows_all } = page;
    let name = query.name.clone();
    let page = sequences.ledger(query).await.map_err(|error| of_sequence(&error, &name))?;
    let now_unix_ms = server.issuer().clock().wall_unix_ms();
    let user = client.user().0;
    let rows = page.rows.iter().map(|row| describe(row, shows_all || *row.user == *user, now_unix_ms));
    let cursor = Value::bulk(page.next.unwrap_or_default());
    Ok(Value::Array(std::iter::once(cursor).chain(rows).collect()))
}

/// Returns the fields of a row. The request of another user, who is not shown, is null.
fn describe(row: &LedgerRow, shows_request: bool, now_unix_ms: i64) -> Value {
    let text_or_null = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
    let time = |unix_ms: i64| match unix_ms {
        0 => Value::Null,
        unix_ms => Value::bulk(timestamp::format_rfc3339(unix_ms)),
    };
    let is_overdue = row.state == NumberState::Reserved && row.due_unix_ms <= now_unix_ms;
    let of_request = |text: &str| if shows_request { text_or_null(text) } else { Value::Null };
    Value::map([
        ("number", Value::Integer(row.number)),
        ("last", Value::Integer(row.last)),
        ("text", Value::from(row.text.as_str())),
        ("key", text_or_null(row.key.series())),
        ("period", text_or_null(row.key.period())),
        ("state", Value::from(row.state.word())),
        ("since", time(row.since_unix_ms)),
        ("due", time(row.due_unix_ms)),
        ("overdue", Value::from(if is_overdue { "yes" } else { "no" })),
        ("request", of_request(&row.request)),
        ("user", of_request(&row.user)),
        ("reason", text_or_null(&row.reason)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_redis::resp::{self, Protocol};

    fn row(state: NumberState) -> LedgerRow {
        LedgerRow {
            key: Key::of("receipt", "ACME", "Y20260101").unwrap(),
            number: 7,
            last: 7,
            text: "R000007".to_owned(),
            state,
            since_unix_ms: 1_700_000_000_000,
            due_unix_ms: if state == NumberState::Reserved { 1_700_003_600_000 } else { 0 },
            request: "order-1".to_owned(),
            user: "shop".to_owned(),
            reason: String::new(),
        }
    }

    fn text(value: &Value) -> String {
        let mut text = Vec::new();
        resp::encode(value, Protocol::Resp3, &mut text);
        String::from_utf8(text).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn a_row_is_overdue_from_its_due_time_on() {
        for (state, now_unix_ms, expected) in [
            (NumberState::Reserved, 1_700_003_599_999, "no"),
            (NumberState::Reserved, 1_700_003_600_000, "yes"),
            (NumberState::Committed, 1_800_000_000_000, "no"),
            (NumberState::Unclear, 1_800_000_000_000, "no"),
        ] {
            let shown = text(&describe(&row(state), true, now_unix_ms));
            assert!(shown.contains(&format!("overdue ${} {expected} ", expected.len())), "{shown}");
        }
    }

    #[test]
    fn the_request_of_another_user_is_hidden() {
        let own = text(&describe(&row(NumberState::Reserved), true, 0));
        assert!(own.contains("request $7 order-1 $4 user $4 shop "), "{own}");
        assert!(own.contains("$3 key $4 ACME $6 period $9 Y20260101 "), "{own}");
        assert!(own.contains("$5 since $24 2023-11-14T22:13:20.000Z "), "{own}");
        let other = text(&describe(&row(NumberState::Reserved), false, 0));
        assert!(other.contains("request _ $4 user _ $6 reason _ "), "{other}");
        assert!(!other.contains("order-1") && !other.contains("shop"), "{other}");
    }
}
