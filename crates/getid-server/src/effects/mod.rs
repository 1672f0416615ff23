//! Effects of commands on the server: a file for each family of [`Effect`]s, named as that of its commands in
//! `session/commands`, with one function for each effect.

mod acl;
mod chunks;
mod client;
mod cluster;
mod config;
mod ids;
mod introspect;
mod keys;
mod numbers;
mod requests;
mod scripts;
mod sentinel;
mod sequence;
mod shutdown;
mod workers;

use std::sync::Arc;

pub(super) use chunks::ReplyChunks;

use super::Server;
use crate::registry::Client;
use getid_redis::resp::Value;
use getid_redis::session::Effect;

/// Result of an [`Effect`].
pub enum EffectReply {
    /// The effect is done; this is the reply.
    Value(Value),
    /// The reply is written piece by piece.
    Chunks(Box<dyn ReplyChunks>),
    /// The effect is done, there is no reply, and the connection ends.
    Close,
}

impl From<Value> for EffectReply {
    fn from(value: Value) -> EffectReply {
        EffectReply::Value(value)
    }
}

impl Server {
    /// Performs an effect. Waits if it needs the disk or other connections.
    pub async fn perform(self: &Arc<Self>, effect: Effect, client: &Client) -> EffectReply {
        match effect {
            Effect::Ids(effect) => ids::perform(self, effect),
            Effect::Client(effect) => client::perform(self, effect, client).await,
            Effect::Cluster(query) => cluster::perform(self, query, client).await,
            Effect::Config(effect) => config::perform(self, effect, client).await.into(),
            Effect::Introspect(effect) => introspect::perform(self, effect, client),
            Effect::Sentinel(effect) => sentinel::perform(self, effect, client).await.into(),
            Effect::Acl(effect) => acl::perform(self, effect, client).await,
            Effect::Keys(effect) => keys::perform(self, effect, client).await,
            Effect::Sequence(effect) => sequence::perform(self, effect, client).await,
            Effect::Number(effect) => numbers::perform(self, effect, client).await,
            Effect::Request(effect) => requests::perform(self, *effect).await,
            Effect::Worker(effect) => workers::perform(self, effect, client).await,
            Effect::Script(effect) => scripts::perform(self, effect, client).await,
            Effect::Shutdown(how) => shutdown::shutdown(self, how, client),
        }
    }
}
