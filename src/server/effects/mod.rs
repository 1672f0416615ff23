//! What commands do to the server: a file for each family of [`Effect`]s, named as that of its commands in
//! `session/commands`, and in it one function for each effect.

mod acl;
mod client;
mod config;
mod ids;
mod introspect;
mod keys;
mod pieces;
mod scripts;
mod sequence;
mod shutdown;
mod workers;

use std::sync::Arc;

pub(super) use pieces::Pieces;

use super::Server;
use crate::resp::Value;
use crate::server::registry::Client;
use crate::session::Effect;

/// What has become of an [`Effect`].
pub enum Answer {
    /// It is done; this is the reply.
    Value(Value),
    /// The reply is written piece by piece.
    Pieces(Box<dyn Pieces>),
    /// It is done, there is no reply, and the connection ends.
    End,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Answer {
        Answer::Value(value)
    }
}

impl Server {
    /// Does what a command asks of the server. Waits where the disk or other connections have a part in it.
    pub async fn perform(self: &Arc<Self>, effect: Effect, client: &Client) -> Answer {
        match effect {
            Effect::Ids(effect) => ids::perform(self, effect),
            Effect::Client(effect) => client::perform(self, effect, client).await,
            Effect::Config(effect) => config::perform(self, effect, client).await.into(),
            Effect::Introspect(effect) => introspect::perform(self, effect, client),
            Effect::Acl(effect) => acl::perform(self, effect, client).await,
            Effect::Keys(effect) => keys::perform(self, effect, client).await,
            Effect::Sequence(effect) => sequence::perform(self, effect, client).await,
            Effect::Worker(effect) => workers::perform(self, effect, client).await,
            Effect::Script(effect) => scripts::perform(self, effect, client).await,
            Effect::Shutdown(how) => shutdown::shutdown(self, how, client),
        }
    }
}
