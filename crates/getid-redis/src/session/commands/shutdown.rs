//! The command `SHUTDOWN`.

use super::{Call, CommandReply, CommandResult, SYNTAX};
use crate::session::effect::{Effect, Shutdown};

/// Implements `SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]`.
pub(super) fn shutdown(call: &mut Call<'_>) -> CommandResult {
    let mut options = Shutdown::default();
    let mut save = false;
    for word in call.args.iter().skip(1) {
        let option = match word.to_ascii_lowercase().as_slice() {
            b"save" => &mut save,
            b"nosave" => &mut options.nosave,
            b"now" => &mut options.now,
            b"force" => &mut options.force,
            b"abort" => &mut options.abort,
            _ => return Err(SYNTAX),
        };
        *option = true;
    }
    let others = save || options.nosave || options.now || options.force;
    if (save && options.nosave) || (options.abort && others) {
        return Err(SYNTAX);
    }
    Ok(CommandReply::Effect(Effect::Shutdown(options)))
}
