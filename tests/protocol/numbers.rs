//! A fake ledger, which replies to the effects of `NUMBER` in the transcripts: each request has the number 7, except
//! those that are named as their refusal.

use getid_core::server::Key;
use getid_core::server::ledger::{NumberAct, NumberRefusal, NumberState};
use getid_redis::resp::{ErrorReply, Value};
use getid_redis::session::{LedgerPageRequest, NumberAction, NumberEffect};

pub(crate) fn answer(effect: &NumberEffect) -> Value {
    match effect {
        NumberEffect::Act(action) => act(action),
        NumberEffect::Ledger(LedgerPageRequest { query, shows_all }) => {
            Value::Array(vec![Value::from(format!("{query:?}, all: {shows_all}").as_str())])
        }
    }
}

fn act(action: &NumberAction) -> Value {
    let NumberAction { counter, series, request, act, is_admin } = action;
    if let Some(refusal) = refusal(action.subject()) {
        return Value::Error(ErrorReply::of_number(&refusal, counter.name(), action.subject()));
    }
    match act {
        NumberAct::Reserve { due_s, commits } => {
            let key = if series.is_empty() { "" } else { " of " };
            Value::from(format!("R000007{key}{series} for {request}: due {due_s}, commits: {commits}").as_str())
        }
        act => {
            let key = if series.is_empty() { "" } else { " of " };
            Value::from(format!("{act:?}{key}{series} for '{request}', admin: {is_admin}").as_str())
        }
    }
}

/// Returns the refusal that a request, or a text, is named as.
fn refusal(subject: &str) -> Option<NumberRefusal> {
    let settled = |state| NumberRefusal::Settled { text: "R000007".to_owned(), state };
    Some(match subject {
        "unknown" => NumberRefusal::UnknownRequest,
        "others" => NumberRefusal::OtherUser,
        "committed" => settled(NumberState::Committed),
        "released" => settled(NumberState::Released),
        "void" => settled(NumberState::Void),
        "unclear" => settled(NumberState::Unclear),
        "elsewhere" => NumberRefusal::OtherSeries { series: "ACME".to_owned() },
        "R999999" => NumberRefusal::UnknownText,
        "often" => NumberRefusal::TooManyReleased { max: 1_000_000 },
        "full" => NumberRefusal::AtMax { max: 999_999 },
        "late" => NumberRefusal::NotFromTheStart { key: Key::parse("receipt").unwrap() },
        _ => return None,
    })
}
