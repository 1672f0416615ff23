//! Takeovers on an etcd of three members, and its leader killed together with the holder.

use std::time::Instant;

use super::fleet::median;
use super::{is_long, play_all, two};
use crate::support::etcd::EtcdCluster;
use crate::support::eventually;

#[test]
#[ignore = "needs etcd"]
fn on_etcd() {
    play_all(&mut EtcdCluster::start(3, &[]));
}

/// The time of an election and a takeover at once. With etcd's own leases, one would follow the other.
#[test]
#[ignore = "needs etcd"]
fn the_leader_of_etcd_is_killed_together_with_the_holder() {
    let mut cluster = EtcdCluster::start(3, &[]);
    let mut fleet = two(&cluster);
    let load = fleet.load(4);
    let mut times = Vec::new();
    for _ in 0..if is_long() { 10 } else { 2 } {
        let holder = fleet.holder();
        let before = load.count();
        eventually("a load", || load.count() > before + 1000);
        let leader = cluster.leader();
        let begin = Instant::now();
        cluster.members[leader].kill();
        fleet.kill(holder);
        times.push(load.first_of_others(holder, begin, &mut fleet) - begin);
        cluster.start_again();
        fleet.start_again(holder);
    }
    load.judge();
    let median = median(&mut times);
    let most = times.last().expect("a takeover");
    println!("figure: leader and holder killed together, {} takeovers: median {median:?}, max {most:?}", times.len());
}
