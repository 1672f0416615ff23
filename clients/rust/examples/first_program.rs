//! Takes values of a sequence, and makes IDs with a leased worker id. With `--fake` it runs without a server.

use getid_client::{Client, FakeClient, IdSource, Layout, Result};

fn main() -> Result<()> {
    if std::env::args().any(|argument| argument == "--fake") {
        let client = FakeClient::new(1);
        return print_ids(&client.sequence("orders")?, &client.worker("orders", Layout::TWITTER)?);
    }
    let client = Client::from_env()?;
    let result = print_ids(&client.sequence("orders")?, &client.worker("orders", Layout::TWITTER)?);
    client.close()?;
    result
}

fn print_ids(orders: &dyn IdSource, ids: &dyn IdSource) -> Result<()> {
    println!("{}", orders.next()?);
    println!("{:?}", orders.take(3)?);
    println!("{:?}", Layout::TWITTER.parts(ids.next()?)?);
    Ok(())
}
