//! A disk that loses, tears, stalls and crashes on command, for tests.
//!
//! It has one folder with one record in it, saved by the same [`SaveStep`]s as a real one. The effect of a step is
//! volatile until a sync made it durable, and a crash keeps any state that a real disk could have kept:
//!
//! - a name leads to its file at the last sync of the folder, or to any file it was renamed to since;
//! - a file that was not synced has all, the beginning, the beginning and zeros, or nothing of its text;
//! - a failed sync has made nothing durable, and a later one of the same file succeeds and still makes nothing durable.
//!
//! It has two uses. Step by step, without `async`: [`SimDisk::run_step`], [`SimDisk::crash`]. Or as a claim:
//! [`SimDisk::claim`]; a crash then means to drop the server and its claim at any await point, and to call
//! [`SimDisk::crash`]. The delays are tokio's, so that a paused clock controls them.
//!
//! A disk that lies (reports a sync that it did not do) is not simulated. No protocol survives that.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use getid_core::SavePoint;
use getid_engine::claim::envelope::Envelope;
use getid_engine::claim::{
    AcquiredClaim, Claim, Declarations, Identity, Owner, Record, SaveError, SaveStep, TakeError, Term,
};

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// Fault of a step of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepFault {
    /// The step takes this long, and succeeds.
    Slow(Duration),
    /// The step fails, as on a full or broken disk. A write has then written a part.
    Fail(io::ErrorKind),
    /// The step never returns.
    Hang,
}

impl SimDisk {
    /// Creates an empty disk, whose random choices come from `seed`.
    pub(crate) fn new(seed: u64) -> SimDisk {
        let state = State {
            random: seed,
            files: Vec::new(),
            temp: None,
            names: vec![None],
            troubles: Vec::new(),
            claim: ClaimState::Held,
            saves: 0,
            is_original: false,
            life: 0,
            lives: 0,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns a claim on this disk, for one run of a server. After a crash or a kill it does nothing.
    ///
    /// There is no lock: a test detects what two overlapping runs do to each other's record.
    pub(crate) fn claim(&self, identity: Identity) -> SimClaim {
        let (owner, written_by) = self.begin_term();
        let declarations = self.record().map(|record| record.declarations).unwrap_or_default();
        SimClaim {
            disk: self.clone(),
            identity,
            life: self.lock().life,
            owner,
            written_by,
            found: None,
            declarations,
            is_lost: false,
        }
    }

    /// Returns [`SimDisk::claim`] with the point that it finds.
    pub(crate) fn open(&self, identity: Identity) -> AcquiredClaim<SimClaim> {
        let claim = self.claim(identity);
        let (point, declarations) = (self.point(identity), Arc::clone(&claim.declarations));
        let term = claim.owner.term;
        let is_copy = !self.lock().is_original;
        AcquiredClaim { claim, point, declarations, term, is_copy }
    }

    /// Returns the record's point as a start with `identity` finds it.
    fn point(&self, identity: Identity) -> Option<SavePoint> {
        self.record().map(|record| match record.adopted_by(identity) {
            Ok(record) => record.point,
            Err(error) => panic!("{error}"),
        })
    }

    /// Returns the owner of a new life, and of the record that is there.
    fn begin_term(&self) -> (Owner, Option<Owner>) {
        let found = self.owner();
        let mut state = self.lock();
        state.lives += 1;
        (Owner { term: found.map_or(Term(0), |found| found.term).next(), nonce: state.lives }, found)
    }

    /// Returns the writer of the record that is there.
    fn owner(&self) -> Option<Owner> {
        self.text().and_then(|text| Envelope::parse(&text).ok()).map(|opened| opened.envelope.owner)
    }

    /// Returns the record's text as a process sees it now.
    pub(crate) fn text(&self) -> Option<Vec<u8>> {
        let state = self.lock();
        state.names.last().copied().flatten().map(|file| state.files[file].text.clone())
    }

    /// Returns the record as a process sees it now.
    pub(crate) fn record(&self) -> Option<Record> {
        self.text().map(|text| match Record::parse(&text) {
            Ok(record) => record,
            Err(error) => panic!("{error}: {:?}", String::from_utf8_lossy(&text)),
        })
    }

    /// Returns how many saves have been completed.
    pub(crate) fn saves(&self) -> u64 {
        self.lock().saves
    }

    /// Makes the next `times` runs of `step` have this `trouble`. Troubles of a step queue up.
    pub(crate) fn trouble(&self, step: SaveStep, trouble: StepFault, times: usize) {
        self.lock().troubles.extend(std::iter::repeat_n((step, trouble), times));
    }

    /// Removes all troubles. A hanging step continues to hang.
    pub(crate) fn heal(&self) {
        self.lock().troubles.clear();
    }

    /// Simulates that the folder is deleted and created again, and locked by another server: saves fail with the text
    /// `what`.
    pub(crate) fn lose_claim(&self, what: &str) {
        let mut state = self.lock();
        state.claim = ClaimState::Lost(what.to_owned());
        state.names = vec![None];
        state.temp = None;
    }

    /// Removes the other server, which has left `text` (`None`: no record). The next save takes the claim again.
    pub(crate) fn free_claim(&self, text: Option<&str>) {
        let mut state = self.lock();
        state.claim = ClaimState::Free;
        state.temp = None;
        let file = text.map(|text| state.new_file(text.as_bytes().to_vec(), true));
        state.names = vec![file];
    }

    /// Restores the former folder, with `text` in it, silently.
    pub(crate) fn return_claim(&self, text: Option<&[u8]>) {
        self.put_back(text);
        self.lock().claim = ClaimState::Held;
    }

    /// Restores an older record, or replaces it by another file, silently. `None`: removes it.
    pub(crate) fn put_back(&self, text: Option<&[u8]>) {
        let mut state = self.lock();
        let file = text.map(|text| state.new_file(text.to_vec(), true));
        state.names = vec![file];
        state.temp = None;
    }

    /// Does one step of a save, at once; troubles that take time are ignored here.
    pub(crate) fn run_step(&self, step: SaveStep, text: &str) -> io::Result<()> {
        self.lock().run_step(step, text)
    }

    /// Returns all states that a crash now could leave, each once.
    pub(crate) fn after_crash(&self) -> Vec<Option<Vec<u8>>> {
        let state = self.lock();
        let mut all: Vec<Option<Vec<u8>>> = Vec::new();
        for &name in &state.names {
            let texts = match name {
                None => vec![None],
                Some(file) => state.files[file].after_crash().into_iter().map(Some).collect(),
            };
            for text in texts {
                if !all.contains(&text) {
                    all.push(text);
                }
            }
        }
        all
    }

    /// Power fails and returns: the seed picks one of the states of [`SimDisk::after_crash`].
    pub(crate) fn crash(&self) {
        let mut all = self.after_crash();
        let mut state = self.lock();
        let index = state.next_below(all.len());
        state.restart_with(all.swap_remove(index));
    }

    /// The process is killed and the system lives on: all writes are there, durable or not.
    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        state.life += 1;
        state.temp = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`Claim`] on a [`SimDisk`].
///
/// A dropped save stops at its present step, as a save on a real disk may.
#[derive(Clone, Debug)]
pub(crate) struct SimClaim {
    disk: SimDisk,
    identity: Identity,
    /// The computer's run it belongs to: a claim from before a crash can do nothing any more.
    life: u64,
    owner: Owner,
    /// Writer of the record that it found.
    written_by: Option<Owner>,
    /// Point that was found since the caller's last result.
    found: Option<SavePoint>,
    /// The caller's declarations.
    declarations: Arc<Declarations>,
    /// Whether the claim was found lost, and is not retaken yet.
    is_lost: bool,
}

impl Claim for SimClaim {
    type Config = (SimDisk, Identity);
    type Point = SavePoint;

    async fn take((disk, identity): (SimDisk, Identity)) -> Result<AcquiredClaim<SimClaim>, TakeError> {
        Ok(disk.open(identity))
    }

    async fn save(&mut self, point: SavePoint, declarations: Arc<Declarations>, term: Term) -> Result<(), SaveError> {
        self.check_claim()?;
        if term != self.owner.term {
            return Err(self.retaken());
        }
        self.found = None;
        self.declarations = Arc::clone(&declarations);
        let text = Record { identity: self.identity, point, declarations, owner: self.owner }.to_text();
        for step in SaveStep::ALL {
            let trouble = self.disk.lock().take_trouble(step, |trouble| !matches!(trouble, StepFault::Fail(_)));
            match trouble {
                Some(StepFault::Slow(delay)) => tokio::time::sleep(delay).await,
                Some(StepFault::Hang) => std::future::pending().await,
                // An await point before each step, where a test may drop this future.
                _ => tokio::task::yield_now().await,
            }
            self.check_claim()?;
            if step == SaveStep::Rename {
                self.check_owner()?;
            }
            self.disk.run_step(step, &text).map_err(|source| io_error(step, source))?;
            if step == SaveStep::Rename {
                self.written_by = Some(self.owner);
            }
        }
        let mut state = self.disk.lock();
        state.saves += 1;
        state.is_original = true;
        Ok(())
    }
}

impl SimClaim {
    fn check_claim(&mut self) -> Result<(), SaveError> {
        let mut state = self.disk.lock();
        if state.life != self.life {
            return Err(SaveError::ClaimLost { what: "this store is from before the crash".to_owned() });
        }
        match &state.claim {
            ClaimState::Held if self.is_lost => {
                drop(state);
                Err(self.retake())
            }
            ClaimState::Held => Ok(()),
            ClaimState::Lost(what) => {
                self.is_lost = true;
                Err(SaveError::ClaimLost { what: what.clone() })
            }
            ClaimState::Free => {
                state.claim = ClaimState::Held;
                drop(state);
                Err(self.retake())
            }
        }
    }

    /// Checks the record's owner directly before the rename, as a real store does.
    fn check_owner(&mut self) -> Result<(), SaveError> {
        match self.disk.owner() {
            Some(by) if by != self.owner && Some(by) != self.written_by => {
                if by.term < self.owner.term {
                    return Err(self.retake());
                }
                Err(SaveError::ClaimLost { what: format!("term {} has written the record", by.term) })
            }
            _ => Ok(()),
        }
    }

    fn retake(&mut self) -> SaveError {
        self.is_lost = false;
        let term = self.owner.term;
        (self.owner, self.written_by) = self.disk.begin_term();
        self.owner.term = self.owner.term.max(term.next());
        let found = self.disk.point(self.identity);
        self.found = found.into_iter().chain(self.found).reduce(SavePoint::later);
        self.retaken()
    }

    fn retaken(&self) -> SaveError {
        let declarations = Arc::clone(&self.declarations);
        SaveError::ClaimRetaken { found: self.found, declarations, term: self.owner.term, is_watched: false }
    }
}

#[derive(Debug)]
struct State {
    /// State of the random numbers.
    random: u64,
    /// Every file that ever existed; names and `temp` point here.
    files: Vec<File>,
    /// Temporary file of the save under way.
    temp: Option<usize>,
    /// Files that the record's name leads to: first the durable one, then each rename since the folder's last sync.
    names: Vec<Option<usize>>,
    troubles: Vec<(SaveStep, StepFault)>,
    claim: ClaimState,
    saves: u64,
    /// Whether the writer of the record had the claim to this disk, and not to the one from which it was copied.
    is_original: bool,
    /// Number of crashes and kills.
    life: u64,
    /// Number of stores so far, for their nonces.
    lives: u64,
}

#[derive(Debug)]
struct File {
    text: Vec<u8>,
    synced: Synced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    No,
    Yes,
    /// A sync has failed, and the system has dropped the unwritten data.
    Never,
}

#[derive(Debug)]
enum ClaimState {
    Held,
    Lost(String),
    Free,
}

impl State {
    fn run_step(&mut self, step: SaveStep, text: &str) -> io::Result<()> {
        let failure = match self.take_trouble(step, |trouble| matches!(trouble, StepFault::Fail(_))) {
            Some(StepFault::Fail(kind)) => Some(io::Error::from(kind)),
            _ => None,
        };
        match step {
            SaveStep::Write => {
                let len = if failure.is_some() { self.next_below(text.len() + 1) } else { text.len() };
                self.temp = Some(self.new_file(text.as_bytes()[..len].to_vec(), false));
            }
            SaveStep::SyncFile => {
                if let Some(temp) = self.temp {
                    let file = &mut self.files[temp];
                    file.synced = match (file.synced, &failure) {
                        (Synced::No, None) => Synced::Yes,
                        (Synced::No, Some(_)) => Synced::Never,
                        (done, _) => done,
                    };
                }
            }
            SaveStep::Rename if failure.is_none() => {
                let temp = self.temp.take().ok_or(io::ErrorKind::NotFound)?;
                self.names.push(Some(temp));
            }
            SaveStep::SyncFolder if failure.is_none() => {
                self.names.drain(..self.names.len() - 1);
            }
            SaveStep::ReadBack | SaveStep::Rename | SaveStep::SyncFolder => {}
        }
        failure.map_or(Ok(()), Err)
    }

    fn new_file(&mut self, text: Vec<u8>, synced: bool) -> usize {
        self.files.push(File { text, synced: if synced { Synced::Yes } else { Synced::No } });
        self.files.len() - 1
    }

    /// Takes the first trouble of `step`, if the caller handles it.
    fn take_trouble(&mut self, step: SaveStep, wanted: impl Fn(&StepFault) -> bool) -> Option<StepFault> {
        let index = self.troubles.iter().position(|(at, _)| *at == step)?;
        wanted(&self.troubles[index].1).then(|| self.troubles.remove(index).1)
    }

    fn restart_with(&mut self, text: Option<Vec<u8>>) {
        self.files.clear();
        let name = text.map(|text| self.new_file(text, true));
        self.names = vec![name];
        self.temp = None;
        self.life += 1;
    }

    /// Returns a number of 0..`bound`, by the seed (`SplitMix64`).
    fn next_below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).expect("below a usize")
    }
}

impl File {
    fn after_crash(&self) -> Vec<Vec<u8>> {
        if self.synced == Synced::Yes {
            return vec![self.text.clone()];
        }
        let mut all = vec![self.text.clone(), Vec::new()];
        for cut in [1, self.text.len() / 2, self.text.len().saturating_sub(1)] {
            let beginning = &self.text[..cut.min(self.text.len())];
            let mut zeros = beginning.to_vec();
            zeros.resize(self.text.len(), 0);
            all.extend([beginning.to_vec(), zeros]);
        }
        all
    }
}

fn io_error(step: SaveStep, source: io::Error) -> SaveError {
    SaveError::Io { action: step.action(), path: PathBuf::from("simulated.state"), source: Arc::new(source) }
}
