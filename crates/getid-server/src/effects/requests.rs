//! Commands with a request key: the reply that the store keeps, or IDs that are drawn and then kept.
//!
//! A request without a row draws as a turn does, and claims the request for what it has drawn. If another claim was
//! first, the reply is that of the other one, and the drawn IDs are never answered.
//!
//! Invariant: an ID is answered only after its request is committed in the store.

use std::sync::Arc;
use std::time::Duration;

use getid_core::Reservation;
use getid_core::server::request_key::{ClaimVerdict, RequestReply, RequestRow};
use getid_core::server::{CivilTime, CounterDeclaration, Run, SequenceRefusal};
use tokio::time::Instant;

use super::EffectReply;
use super::scripts::draw_run;
use super::sequence::range_request;
use crate::Server;
use crate::error_replies::{of_counter, of_counter_draw, of_request, of_sequence, of_standby};
use getid_engine::generators::sequence::Sequences;
use getid_redis::resp::{ErrorKind, ErrorReply, Value};
use getid_redis::session::{
    REQUESTS_OFF, RequestEffect, RequestSource, counter_reply, named_reply, range_reply, unnamed_reply,
};
use getid_system::clock::wall_unix_ms;
use getid_system::noise;
use getid_text::printable::printable_up_to;

/// Index of the unnamed generator.
const UNNAMED: usize = 0;

/// Maximum number of newer periods to which a draw moves, each later than the one before.
const PERIODS_TRIED: usize = 3;

/// Maximum number of characters of a request that an error shows.
const SHOWN_CHARS_MAX: usize = 128;

pub(super) async fn perform(server: &Arc<Server>, effect: RequestEffect) -> EffectReply {
    answer(server, &effect).await.unwrap_or_else(Value::Error).into()
}

async fn answer(server: &Server, effect: &RequestEffect) -> Result<Value, ErrorReply> {
    if let Some(refusal) = server.generators.standby_refusal() {
        return Err(of_standby(&refusal));
    }
    let Some(sequences) = server.generators.sequences() else { return Err(REQUESTS_OFF) };
    let found = sequences.find_request(effect.scope.clone()).await.map_err(|error| of_request(&error))?;
    if let Some(row) = found {
        let verdict = row.answer(&effect.fingerprint);
        sequences.note_verdict(&Ok(verdict.clone()));
        return reply_of(effect, verdict);
    }
    if let Some(max) = sequences.full_of_requests(effect.scope.name()) {
        let verdict = ClaimVerdict::TooMany { max };
        sequences.note_verdict(&Ok(verdict.clone()));
        return reply_of(effect, verdict);
    }
    sequences.check_can_claim().map_err(|error| of_request(&error))?;
    let reply = draw(server, sequences, effect).await?;
    let made_unix_ms = wall_unix_ms();
    let row = RequestRow {
        scope: effect.scope.clone(),
        fingerprint: effect.fingerprint.clone(),
        reply: reply.to_column(),
        made_unix_ms,
        until_unix_ms: made_unix_ms.saturating_add(i64::from(effect.for_s) * 1000),
    };
    reply_of(effect, sequences.claim_request(row).await.map_err(|error| of_request(&error))?)
}

/// Returns the reply for what the store has of a request.
fn reply_of(effect: &RequestEffect, verdict: ClaimVerdict) -> Result<Value, ErrorReply> {
    let shown = || printable_up_to(effect.scope.request(), SHOWN_CHARS_MAX);
    let other_arguments = || {
        let text = format!("ERR request '{}' was made with other arguments", shown());
        ErrorReply::new(ErrorKind::OtherArguments, text)
    };
    let kept = match verdict {
        ClaimVerdict::Made { row } => row.reply,
        ClaimVerdict::Found { reply } => reply,
        ClaimVerdict::OtherArguments => return Err(other_arguments()),
        ClaimVerdict::TooMany { max } => {
            let name = effect.scope.name();
            let text = format!(
                "ERR request '{}' is not kept: '{name}' has {max} requests, and 'request-max' allows no more until some \
                 have ended",
                shown()
            );
            return Err(ErrorReply::new(ErrorKind::Unavailable, text));
        }
    };
    let Some(reply) = RequestReply::of_column(&kept) else {
        let text = format!(
            "ERR request '{}' has a reply in the table getid_request that is none of getid's: restore the row",
            shown()
        );
        return Err(ErrorReply::new(ErrorKind::Conflict, text));
    };
    effect.form.answer(&reply).ok_or_else(other_arguments)
}

/// Draws the IDs or values of a request.
async fn draw(server: &Server, sequences: &Arc<Sequences>, effect: &RequestEffect) -> Result<RequestReply, ErrorReply> {
    // The settings of this moment: a generator that was declared again meanwhile has another index.
    let settings = server.settings.get();
    match &effect.source {
        RequestSource::Unnamed => {
            Ok(unnamed_reply(&settings.scheme, &draw_slots(server, UNNAMED, effect.count).await?))
        }
        RequestSource::Named { index, generator, fields } => {
            let drawn = draw_slots(server, *index, effect.count).await?;
            let sealer = settings.sealers.answering(generator.declaration().name());
            named_reply(generator, sealer, *fields, &drawn, &mut noise::bits)
        }
        RequestSource::Counter { counter, series } => {
            let (run, stamp) = draw_counter(server, sequences, (counter, series), effect.count).await?;
            let sealer = settings.sealers.answering(counter.name());
            counter_reply(counter, sealer, (stamp, series), &run)
        }
        RequestSource::Sequence { key, above } => {
            let run = sequences.next_range(key, range_request(server, effect.count, *above)).await;
            run.map(|run| range_reply(&run)).map_err(|error| of_sequence(&error, key.as_str()))
        }
    }
}

/// Draws slots of a generator, in turn with others.
async fn draw_slots(server: &Server, index: usize, count: u32) -> Result<Vec<Reservation>, ErrorReply> {
    let first = server.generators.try_draw(index, count).map_err(|refusal| ErrorReply::from(&refusal))?;
    let mut drawn: Vec<Reservation> = first.into_iter().collect();
    let missing = count.saturating_sub(drawn.iter().map(|drawn| drawn.len).sum());
    if missing > 0 {
        let rest = server.generators.draw(index, missing, &mut drawn).await;
        rest.map_err(|refusal| ErrorReply::from(&refusal))?;
    }
    Ok(drawn)
}

/// Draws values of a counter in its present period, whose date parts are returned too.
async fn draw_counter(
    server: &Server,
    sequences: &Arc<Sequences>,
    (counter, series): (&Arc<CounterDeclaration>, &str),
    count: u32,
) -> Result<(Run, CivilTime), ErrorReply> {
    let name = counter.name();
    let until = Instant::now() + Duration::from_millis(sequences.wait_ms());
    for _ in 0..PERIODS_TRIED {
        let serial = server.generators.counter(counter, series).map_err(|refusal| of_counter(&refusal, name))?;
        match draw_run(sequences, (serial.hash, &serial.key), count, until).await {
            Ok(run) => return Ok((run, serial.stamp)),
            Err(SequenceRefusal::Newer { period }) => server.generators.advance_period(name, &period),
            Err(refusal) => return Err(of_counter_draw(&refusal, name)),
        }
    }
    Err(ErrorReply::new(
        ErrorKind::Unavailable,
        format!("BUSY generator '{name}': its periods changed meanwhile: repeat the request"),
    ))
}
