//! Declarations of named generators: what they mean, their mistakes, and what may change between two lives.

use getid_core::{Composer, Declaration, no_dates};

fn declared(text: &str) -> Declaration {
    Declaration::parse(&text.split(' ').collect::<Vec<_>>(), no_dates)
        .unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

#[test]
fn the_canonical_text_reads_back() {
    for text in [
        "tweets twitter",
        "tweets twitter datacenter 3 epoch 1420041600000",
        "lua redis-lua one-server 0",
        "trace uuid7",
        "old uuid1 node 5",
        "article layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 1451577600000 idc 1 business 3 \
         counter-start 0..9",
        "short js53 format base62 prefix T- overflow grow",
    ] {
        let declaration = declared(text);
        let written = declaration.to_text();
        assert_eq!(Declaration::from_text(&written), Some(declaration), "{written}");
    }
}

#[test]
fn twitters_worked_ids() {
    let declaration = declared("t twitter");
    let server_id = 11 * 32 + 26;
    let composer = Composer::new(declaration.layout(), server_id, |_| None, None).unwrap();
    assert_eq!(composer.number(367_597_485_448 << 12, 0, 0, 0), 1_541_815_603_606_036_480);
}
