//! A thousand IDs made in this process, with a worker id that getid leases (docs/worker-ids.md).

use getid_client::{Client, Error, Layout};

// One pool serves one layout, so the programs of a team share these two.
const POOL: &str = "orders";
const LAYOUT: Layout = Layout::TWITTER;

fn main() -> Result<(), Error> {
    // The address is GETID_URL, by default getid://127.0.0.1:7890.
    let client = Client::from_env()?;
    let worker = client.worker(POOL, LAYOUT)?;
    let ids = (0..1000).map(|_| worker.next()).collect::<Result<Vec<_>, _>>()?;
    client.close()?;

    let ascends = ids.is_sorted_by(|one, next| one < next);
    println!("{}", ids[0]);
    println!("worker id {}: {} different IDs, ascending: {ascends}", LAYOUT.parts(ids[0])?.worker, ids.len());
    Ok(())
}
