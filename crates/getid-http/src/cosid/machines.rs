//! Machine ids: the operations of CosId's `MachineIdDistributor`, by the scripts that its programs run on a Redis.
//!
//! The server's time takes the place of the program's, as in CosId's server: R, by which leases are measured.

use axum::response::Response;
use serde::Serialize;

use super::failure::{CosidFailure, quoted};
use super::parameters::CosidParameters;
use crate::compat::CompatCaller;
use crate::problem::Problem;
use crate::reply::{self, ReplyFrame, text_of};
use getid_redis::resp::ErrorKind;
use getid_redis::session::MachineScript;

/// `ErrorResponse.MACHINE_ID_OVERFLOW`: all machine ids are taken.
const OVERFLOW: &str = "M-01";

/// `ErrorResponse.NOT_FOUND_MACHINE_STATE`: the instance has no machine id.
const NOT_FOUND: &str = "M-02";

/// `ErrorResponse.MACHINE_ID_LOST`: the instance had a machine id, and does not have it any more.
const LOST: &str = "M-03";

/// The largest number of bits of CosId's machine ids, which are Java's `int`.
const MACHINE_BITS_MAX: i32 = 31;

/// The instance of a request.
struct Instance<'a> {
    namespace: &'a str,
    id: String,
    is_stable: bool,
}

impl Instance<'_> {
    fn read<'a>(namespace: &'a str, parameters: &CosidParameters) -> Result<Instance<'a>, CosidFailure> {
        let (id, is_stable) = (parameters.text("instanceId")?.into_owned(), parameters.boolean("stable")?);
        if id.contains(char::REPLACEMENT_CHARACTER) {
            // Two such names would be one instance.
            return Err(CosidFailure::invalid("instanceId must be UTF-8"));
        }
        Ok(Instance { namespace, id, is_stable })
    }

    /// Returns the text of CosId's `InstanceId`.
    fn text(&self) -> String {
        format!("InstanceId{{instanceId={}, stable={}}}", quoted(&self.id), self.is_stable)
    }
}

/// CosId's `MachineState`, with its fields in their order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineState {
    machine_id: i64,
    last_time_stamp: i64,
}

/// Returns the machine id of an instance.
pub(super) async fn distribute(
    caller: &CompatCaller<'_>,
    namespace: &str,
    parameters: &CosidParameters,
) -> Result<Response, CosidFailure> {
    let bits = parameters.small_integer("machineBit")?;
    let instance = Instance::read(namespace, parameters)?;
    let guard_ms = parameters.duration_ms("safeGuardDuration")?;
    if bits <= 0 {
        return Err(CosidFailure::invalid(&format!("machineBit:[{bits}] must be greater than 0!")));
    }
    if bits > MACHINE_BITS_MAX {
        return Err(CosidFailure::invalid(&format!("machineBit:[{bits}] must be between 1 and 31!")));
    }
    let ids = 1_i64 << bits;
    let now_ms = caller.connection.server.issuer().reference_unix_ms();
    // The time up to which a silent instance loses its id; 0: never.
    let guard_at = if instance.is_stable { 0 } else { now_ms.saturating_sub_unsigned(guard_ms).max(0) };
    let [max_id, now, guard_at] = [ids - 1, now_ms, guard_at].map(|number| number.to_string());
    let args = [instance.id.as_bytes(), max_id.as_bytes(), now.as_bytes(), guard_at.as_bytes()];
    let reply = run_script(caller, MachineScript::Distribute, &instance, &args).await?;
    let ReplyFrame::Array { data, .. } = &reply else { return Err(CosidFailure::unexpected()) };
    let numbers: Vec<i64> = data.iter().map_while(|number| text_of(number)?.parse().ok()).collect();
    let [machine_id, last_time_stamp] = numbers[..] else { return Err(CosidFailure::unexpected()) };
    if machine_id < 0 {
        let text = instance.text();
        let message = format!("InstanceId:[{text}] - distribution failed - totalMachineIds:[{ids}]");
        return Err(CosidFailure::known(OVERFLOW, &message));
    }
    let state = MachineState { machine_id, last_time_stamp };
    Ok(reply::json_text(serde_json::to_vec(&state).unwrap_or_default()))
}

/// Notes that an instance is alive.
pub(super) async fn guard(
    caller: &CompatCaller<'_>,
    namespace: &str,
    parameters: &CosidParameters,
) -> Result<Response, CosidFailure> {
    let instance = Instance::read(namespace, parameters)?;
    parameters.duration_ms("safeGuardDuration")?;
    if changes(caller, MachineScript::Guard, &instance).await? {
        return Ok(Response::default());
    }
    let text =
        format!("The machine id bound to the instance[{}]@[{}] has been lost!.", instance.text(), quoted(namespace));
    Err(CosidFailure::known(LOST, &text))
}

/// Takes the machine id of an instance back; a stable one keeps it.
pub(super) async fn revert(
    caller: &CompatCaller<'_>,
    namespace: &str,
    parameters: &CosidParameters,
) -> Result<Response, CosidFailure> {
    let instance = Instance::read(namespace, parameters)?;
    let script = if instance.is_stable { MachineScript::RevertStable } else { MachineScript::Revert };
    if changes(caller, script, &instance).await? {
        return Ok(Response::default());
    }
    Err(not_found(&instance))
}

/// Runs a script that changes the state of an instance. Returns false if the instance has none.
async fn changes(
    caller: &CompatCaller<'_>,
    script: MachineScript,
    instance: &Instance<'_>,
) -> Result<bool, CosidFailure> {
    let now = caller.connection.server.issuer().reference_unix_ms().to_string();
    match run_script(caller, script, instance, &[instance.id.as_bytes(), now.as_bytes()]).await {
        Ok(reply) => text_of(&reply).map(|affected| affected != "0").ok_or_else(CosidFailure::unexpected),
        // There are no machine ids of this namespace.
        Err(Problem { kind: Some(ErrorKind::NotFound), .. }) => Err(not_found(instance)),
        Err(problem) => Err(problem.into()),
    }
}

async fn run_script(
    caller: &CompatCaller<'_>,
    script: MachineScript,
    instance: &Instance<'_>,
    args: &[&[u8]],
) -> Result<ReplyFrame, Problem> {
    let key = format!("{{{}}}", instance.namespace);
    caller.run(&[&[b"EVALSHA", script.sha1().as_bytes(), b"1", key.as_bytes()], args].concat()).await
}

fn not_found(instance: &Instance<'_>) -> CosidFailure {
    let namespace = quoted(instance.namespace);
    CosidFailure::known(
        NOT_FOUND,
        &format!("Not found the MachineState of instance[{}]@[{namespace}]!", instance.text()),
    )
}
