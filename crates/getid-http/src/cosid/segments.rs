//! Segments: CosId uses each number of `max_id - step < id <= max_id`.
//!
//! They are of the sequence with the name of CosId's Redis key, so a program that counts in Redis continues over HTTP.

use axum::response::Response;

use super::failure::{CosidFailure, quoted};
use super::parameters::CosidParameters;
use crate::compat::CompatCaller;
use crate::reply::{self, ReplyFrame, text_of};

/// Returns the name of the Redis key with which CosId counts the segments of a name.
pub(super) fn sequence_name(namespace: &str, name: &str) -> String {
    format!("cosid:{{{namespace}.{name}}}.adder")
}

/// Creates the sequence of a distributor, whose first segment begins above `offset`, if it does not exist.
pub(super) async fn create_distributor(
    caller: &CompatCaller<'_>,
    sequence: &str,
    parameters: &CosidParameters,
) -> Result<Response, CosidFailure> {
    let (offset, step) = (parameters.integer("offset")?, parameters.integer("step")?);
    if offset < 0 {
        return Err(CosidFailure::invalid(&format!("offset:[{offset}] must be greater than or equal to 0!")));
    }
    check_step(step)?;
    caller.run(&[b"SETNX", sequence.as_bytes(), offset.to_string().as_bytes()]).await?;
    Ok(Response::default())
}

/// Returns the last value of the next segment, which has `step` values.
pub(super) async fn next_max_id(
    caller: &CompatCaller<'_>,
    sequence: &str,
    parameters: &CosidParameters,
) -> Result<Response, CosidFailure> {
    let step = parameters.integer("step")?;
    check_step(step)?;
    let max = caller.connection.server.config.get().sequences.incrby_max;
    if step > i64::from(max) {
        let message = format!("step:[{step}] is too large: sequence-incrby-max of this server allows {max}");
        return Err(CosidFailure::invalid(&message));
    }
    let count = step.to_string();
    let reply = caller.run(&[b"SEQUENCE", b"NEXT", sequence.as_bytes(), b"COUNT", count.as_bytes()]).await?;
    let max_id = max_id_of(&reply, step, sequence)?;
    Ok(reply::json_text(max_id.to_string().into_bytes()))
}

fn check_step(step: i64) -> Result<(), CosidFailure> {
    if step > 0 {
        return Ok(());
    }
    Err(CosidFailure::invalid(&format!("step:[{step}] must be greater than 0!")))
}

/// Returns the last value of a range of `step` values.
///
/// # Errors
///
/// Fails if other servers or stores can have numbers among them, or if the sequence has fewer values left. The values
/// of the range are skipped.
fn max_id_of(reply: &ReplyFrame, step: i64, sequence: &str) -> Result<i64, CosidFailure> {
    let ReplyFrame::Array { data, .. } = reply else { return Err(CosidFailure::unexpected()) };
    let numbers: Vec<i64> = data.iter().map_while(|number| text_of(number)?.parse().ok()).collect();
    let [first, last, increment] = numbers[..] else { return Err(CosidFailure::unexpected()) };
    if increment != 1 {
        return Err(CosidFailure::other(&format!(
            "the values of the sequence '{}' are {increment} apart, and CosId uses the numbers between them too: it \
             needs 'increment 1', and a single sequence-store",
            quoted(sequence)
        )));
    }
    if last - first != step - 1 {
        return Err(CosidFailure::other(&format!(
            "the sequence '{}' had {} values left below its max, fewer than step:[{step}]",
            quoted(sequence),
            last - first + 1
        )));
    }
    Ok(last)
}
