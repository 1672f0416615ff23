//! `maker FILE` makes IDs in its own process. Each line of its input is a number of IDs.

use std::error::Error;
use std::{env, io, process};

use getid_core::FileMaker;

/// Unique among all processes on all machines.
const SERVER_ID: u32 = 1;

fn run() -> Result<(), Box<dyn Error>> {
    let path = env::args_os().nth(1).ok_or("usage: maker FILE")?;
    let maker = FileMaker::open(path, SERVER_ID)?;
    for line in io::stdin().lines() {
        for id in maker.next_many(line?.trim().parse()?)? {
            println!("{}", id.get());
        }
    }
    Ok(maker.close()?)
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        process::exit(1);
    }
}
