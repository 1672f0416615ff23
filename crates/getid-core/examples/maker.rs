//! `maker FOLDER` makes IDs in its own process: as many as each line that it reads says.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{env, process};

use getid_core::{Blocked, Id, Layout, Limits, Mint, RandomCycle, Reading, SavePoint, Scheme, Tick};

/// Of all processes on all machines, only this one has this server-id.
const SERVER_ID: u32 = 1;

struct Maker {
    mint: Mint,
    scheme: Scheme,
    folder: PathBuf,
    began: Instant,
    sampled_ns: u64,
    /// Held while the maker lives. The system lets go of it when the process ends, however it ends.
    _lock: File,
}

/// The wall clock, and one that is never set. (It counts from 1: 0 says that it was never read.)
fn reading(began: Instant) -> io::Result<Reading> {
    let wall = UNIX_EPOCH.elapsed().map_err(io::Error::other)?;
    let wall_unix_ms = wall.as_millis().try_into().map_err(io::Error::other)?;
    let boot_ns = (1 + began.elapsed().as_nanos()).try_into().map_err(io::Error::other)?;
    Ok(Reading { wall_unix_ms, boot_ns })
}

impl Maker {
    /// Fails if another maker has the folder.
    fn open(folder: &Path, server_id: u32) -> io::Result<Maker> {
        let layout = Layout::default();
        // Shuffle it: then any 1024 IDs in a row spread over `id % 1024` in no order.
        let cycle = RandomCycle::new((0..1024).collect()).expect("each value once");
        let scheme = Scheme::new(layout, server_id, cycle).expect("id-range 2 has server-ids 0 to 3");
        // First: what is read without the lock may be old.
        let lock = lock(folder)?;
        let began = Instant::now();
        let mint = Mint::new(layout, Limits::default(), stored(folder)?, reading(began)?);
        Ok(Maker { mint, scheme, folder: folder.to_owned(), began, sampled_ns: 0, _lock: lock })
    }

    /// `n` IDs, ascending, larger than all before.
    fn ids(&mut self, n: u32) -> io::Result<Vec<Id>> {
        let mut ids = Vec::new();
        let mut left = n;
        while left > 0 {
            let now = reading(self.began)?;
            // Ten times a second: so it learns that the wall clock was set, and follows it without going back.
            if now.boot_ns > self.sampled_ns + 100_000_000 {
                self.sampled_ns = now.boot_ns;
                // What happened to the clock, for your log.
                let _events = self.mint.sample(now);
            }
            // Before the first ID, then about once a second, seconds ahead of need.
            if let Some(point) = self.mint.wanted_save(now.boot_ns) {
                match store(&self.folder, point) {
                    Ok(()) => self.mint.saved(point),
                    // IDs go on up to the old watermark; then draws are refused with this text until a save succeeds.
                    Err(error) => self.mint.save_failed(error.to_string().into()),
                }
            }
            match self.mint.draw(now.boot_ns, left, left < n) {
                Ok(reservation) => {
                    left -= reservation.len;
                    ids.extend(self.scheme.ids(reservation));
                }
                // A save must come first, above.
                Err(Blocked::Watermark) => {}
                // More than the layout holds: time must catch up.
                Err(Blocked::Borrow { until_boot_ns }) => {
                    std::thread::sleep(Duration::from_nanos(until_boot_ns - now.boot_ns));
                }
                Err(Blocked::Refused(refusal)) => return Err(io::Error::other(refusal.to_string())),
            }
        }
        Ok(ids)
    }

    /// A clean stop: the next start goes on where this one was. Nothing is lost without it but a few seconds of slots.
    fn close(mut self) -> io::Result<()> {
        self.mint.close().map_or(Ok(()), |point| store(&self.folder, point))
    }
}

/// Keeps other makers out of the folder. It is a file of its own: a save replaces the state, and a lock on it too.
fn lock(folder: &Path) -> io::Result<File> {
    let path = folder.join("lock");
    let lock = File::options().create(true).truncate(false).write(true).open(&path)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let text = format!(
                "{} is locked: another process makes IDs with this folder. Stop that process first, or start this one \
                 with another folder and another server-id",
                path.display()
            );
            Err(io::Error::new(ErrorKind::ResourceBusy, text))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What the last life left. A file that cannot be read is an error, never a first start.
fn stored(folder: &Path) -> io::Result<Option<SavePoint>> {
    let text = match fs::read_to_string(folder.join("state")) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [watermark, reference, max_borrow_ms] => {
            Ok(Some(SavePoint { watermark: Tick(watermark), reference: Tick(reference), max_borrow_ms }))
        }
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Whole or not at all, and on the disk when this returns.
fn store(folder: &Path, point: SavePoint) -> io::Result<()> {
    let new = folder.join("state.new");
    let mut written = File::create(&new)?;
    writeln!(written, "{} {} {}", point.watermark.0, point.reference.0, point.max_borrow_ms)?;
    written.sync_all()?;
    fs::rename(&new, folder.join("state"))?;
    File::open(folder)?.sync_all()
}

fn run() -> io::Result<()> {
    let folder = env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: maker FOLDER"))?;
    let mut maker = Maker::open(Path::new(&folder), SERVER_ID)?;
    for line in io::stdin().lines() {
        for id in maker.ids(line?.trim().parse().map_err(io::Error::other)?)? {
            println!("{}", id.get());
        }
    }
    maker.close()
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        process::exit(1);
    }
}
