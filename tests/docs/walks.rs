//! README, `docs/which-id.md` and the walks of `docs/walks`, each followed from its first command to its last.

use crate::walk::follow;

#[test]
#[ignore = "needs redis-cli and curl"]
fn which_id() {
    follow("docs/which-id.md", &["7890", "7880"], &[]);
}

#[test]
fn from_the_fork() {
    follow("docs/walks/fork.md", &["7890"], &[]);
}

#[test]
#[ignore = "needs redis-server and redis-cli"]
fn from_redis() {
    follow("docs/walks/redis.md", &["7890", "6380"], &[]);
}

#[test]
#[ignore = "needs etcd, haproxy, prometheus and curl"]
fn a_server_and_a_standby() {
    let ports = ["7890", "7891", "7880", "7881", "7899", "2379", "2380", "9090"];
    follow("docs/walks/pair.md", &ports, &[]);
}

#[test]
#[ignore = "needs mariadb and curl"]
fn from_leaf() {
    follow("docs/walks/leaf.md", &["7890", "7880", "3307"], &[]);
}

#[test]
#[ignore = "needs mariadb and curl"]
fn from_tinyid() {
    follow("docs/walks/tinyid.md", &["7890", "7880", "3307"], &[]);
}
