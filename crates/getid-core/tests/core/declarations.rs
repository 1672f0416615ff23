//! Declarations of named generators: what they mean, and their mistakes.

use getid_core::{Declaration, KINDS};

use crate::support::declared;

/// One of each kind, and of each option.
const RIGHT: &[&str] = &[
    "tweets twitter",
    "tweets twitter datacenter 3 epoch 1420041600000",
    "tweets twitter datacenter 31 worker 0",
    "lua redis-lua one-server 0",
    "lua redis-lua shard:10? counter:12 one-server 4294967295",
    "trace uuid7",
    "trace uuid7 counter-start 0..4095 one-server 3",
    "old uuid1 node 5",
    "old uuid6 clock-seq 16383 node 281474976710655",
    "doc objectid process 1",
    "article layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 1451577600000 idc 1 business 3 \
     counter-start 0..9",
    "short js53 format base62 prefix T- overflow grow",
    "short js53 pad 64 overflow error",
    "zeros layout zero:3 time:40@100us server-id:20 zero 0",
    "wide layout time:60@100ns server-id:2 noise:66 epoch -12219292800000",
    "no-random fork counter:19 random:0",
    "A-Z_a.z:0-9 baidu time:29 worker:21 epoch 1474300800000",
];

#[test]
fn the_canonical_text_reads_back() {
    for text in RIGHT {
        let declaration = declared(text);
        let written = declaration.to_text();
        assert_eq!(Declaration::from_text(&written), Some(declaration), "{written}");
    }
}

#[test]
fn every_kind_can_be_declared_by_its_word() {
    for kind in KINDS.iter().filter(|kind| !kind.fields.is_empty()) {
        let declaration = declared(&format!("t {}", kind.word));
        assert_eq!(
            (declaration.kind(), Declaration::from_text(&declaration.to_text())),
            (kind, Some(declaration.clone()))
        );
    }
}
