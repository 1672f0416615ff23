//! Channels. Only the server publishes: the events of Sentinel, when another server becomes the master of a server-id.

use super::{Argument, Channels, Command, CommandFlags, FAST, NONE, SLOW, Verb, argument, row};

const PUBSUB_FLAGS: CommandFlags = SLOW.and(CommandFlags::PUBSUB);
const SUBSCRIBE_FLAGS: CommandFlags = PUBSUB_FLAGS.and(CommandFlags::NOSCRIPT);

pub(super) const SUBSCRIBE: Command = row(Verb::Subscribe, "subscribe", -2, SUBSCRIBE_FLAGS, NONE)
    .on_channels(Channels::All)
    .docs("2.0.0", "pubsub", "Listen for messages published to the given channels")
    .costs("O(N) where N is the number of channels to subscribe to.")
    .takes(&[argument("channel", "string").multiple()]);

pub(super) const UNSUBSCRIBE: Command = row(Verb::Unsubscribe, "unsubscribe", -1, SUBSCRIBE_FLAGS, NONE)
    .docs("2.0.0", "pubsub", "Stop listening for messages posted to the given channels")
    .costs("O(N) where N is the number of clients already subscribed to a channel.")
    .takes(&[argument("channel", "string").optional().multiple()]);

pub(super) const PSUBSCRIBE: Command = row(Verb::PSubscribe, "psubscribe", -2, SUBSCRIBE_FLAGS, NONE)
    .on_channels(Channels::Patterns)
    .docs("2.0.0", "pubsub", "Listen for messages published to channels matching the given patterns")
    .costs("O(N) where N is the number of patterns the client is already subscribed to.")
    .takes(&[Argument { parts: &[argument("pattern", "pattern")], ..argument("pattern", "block").multiple() }]);

pub(super) const PUNSUBSCRIBE: Command = row(Verb::PUnsubscribe, "punsubscribe", -1, SUBSCRIBE_FLAGS, NONE)
    .docs("2.0.0", "pubsub", "Stop listening for messages posted to channels matching the given patterns")
    .costs("O(N) where N is the number of patterns the client is already subscribed.")
    .takes(&[argument("pattern", "pattern").optional().multiple()]);

pub(super) const PUBLISH: Command = row(Verb::Publish, "publish", 3, FAST.and(CommandFlags::PUBSUB), NONE)
    .on_channels(Channels::One)
    .docs("2.0.0", "pubsub", "Post a message to a channel")
    .takes(&[argument("channel", "string"), argument("message", "string")]);
