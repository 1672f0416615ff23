//! IDs in Rust, with the `redis` crate: `cargo run --example rust_client`.

fn main() -> redis::RedisResult<()> {
    let port = std::env::var("GETID_PORT").unwrap_or_else(|_| "7890".to_owned());
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut ids = client.get_connection()?;

    let order_id: i64 = redis::cmd("GETID").query(&mut ids)?;
    let line_ids: Vec<i64> = redis::cmd("MGETID").arg(3).query(&mut ids)?;

    let mut pipe = redis::pipe();
    for _ in 0..1000 {
        pipe.cmd("GETID");
    }
    let many: Vec<i64> = pipe.query(&mut ids)?;

    println!("{order_id}");
    println!("{line_ids:?}");
    println!("{} IDs, ascending: {}", many.len(), many.is_sorted_by(|a, b| a < b));
    Ok(())
}
