//! Memory cost of sequences.

use std::sync::Arc;

use getid_core::server::SequenceRequest;
use tokio::task::JoinSet;

use crate::database::Database;
use crate::world::{Server, draw};

/// Number of sequences in use.
const SEQUENCES: usize = 20_000;
const BYTES_EACH: u64 = 300;

#[test]
fn a_sequence_in_use_takes_300_bytes_at_most() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let database = Database::new(1);
    for number in 0..SEQUENCES {
        database.put(&format!("orders:{number}"), &[]);
    }
    let mut server = None;
    let measured = allocation_counter::measure(|| {
        runtime.block_on(async {
            let own = server.insert(Server::start(vec![database.store(false)]));
            for chunk in 0..SEQUENCES / 1000 {
                let mut tasks = JoinSet::new();
                for number in chunk * 1000..(chunk + 1) * 1000 {
                    let sequences = Arc::clone(&own.sequences);
                    tasks.spawn(async move {
                        let name = format!("orders:{number}");
                        for _ in 0..3 {
                            draw(&sequences, &name, &[SequenceRequest { values: 1, times: 1 }]).await.1.unwrap();
                        }
                    });
                }
                tasks.join_all().await;
            }
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            assert_eq!(own.sequences.totals().in_memory, SEQUENCES);
        });
    });
    let each = u64::try_from(measured.bytes_current).unwrap() / SEQUENCES as u64;
    println!("{each} bytes each");
    assert!((100..=BYTES_EACH).contains(&each), "{each} bytes each");
}
