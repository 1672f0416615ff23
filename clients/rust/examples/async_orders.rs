//! An asynchronous function that takes any source of IDs. With `--fake` it runs without a server.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use getid_client::{Client, FakeClient, IdSource, Result};

async fn place_order(ids: &dyn IdSource, article: &str) -> Result<String> {
    Ok(format!("order {} of {article}", ids.next_async().await?))
}

fn main() -> Result<()> {
    if std::env::args().any(|argument| argument == "--fake") {
        println!("{}", block_on(place_order(&FakeClient::new(1).sequence("orders")?, "tea"))?);
        return Ok(());
    }
    let client = Client::from_env()?;
    println!("{}", block_on(place_order(&client.sequence("orders")?, "tea"))?);
    client.close()?;
    Ok(())
}

struct Unparker(Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future in this thread. A program has an executor for that, such as Tokio.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Arc::new(Unparker(thread::current())).into();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}
