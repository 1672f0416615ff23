//! Choice of a server-id for a server that has none of its own (`server-id auto`).

use super::watch::Watch;

/// One server-id of the cluster record's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Number of the server-id.
    pub server_id: u32,
    /// What was read of its record; `None`: it has no record, so it was never used.
    pub watch: Option<Watch>,
    /// Whether its record has this server's name (`instance-name`).
    pub is_own_name: bool,
}

/// Result of [`choose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdChoice {
    /// Take this server-id.
    Take(u32),
    /// Look again: the record in this server's own name was not watched long enough to show whether it is silent.
    Look,
    /// No server-id is free: wait for the first free one.
    Wait,
}

/// Chooses a server-id, in this order: the one in this server's own name if it is silent or was held in this very
/// folder; a released one, its own before others; a never used one; the one that has been silent longest.
///
/// Among equals `spread` decides, a number that differs on each server: so servers of a fleet that start together
/// choose different ones.
pub fn choose(candidates: &[Candidate], spread: u64) -> IdChoice {
    let usable = |candidate: &&Candidate| !candidate.watch.is_some_and(|watch| watch.seen().is_moved);
    let held = |candidate: &Candidate| candidate.watch.filter(|watch| watch.seen().holder.is_some());
    let own = || candidates.iter().filter(usable).filter(|candidate| candidate.is_own_name);
    let is_over = |watch: &Watch| watch.is_silent() || watch.seen().is_this_folder;
    if let Some(own) = own().find(|own| held(own).is_some_and(|watch| is_over(&watch))) {
        return IdChoice::Take(own.server_id);
    }
    if own().any(|own| held(own).is_some_and(|watch| !watch.is_fresh())) {
        return IdChoice::Look;
    }
    let is_released = |candidate: &&Candidate| candidate.watch.is_some() && held(candidate).is_none();
    let taken = own()
        .find(|own| is_released(own))
        .or_else(|| one_of(candidates, spread, |candidate| usable(&candidate) && is_released(&candidate)))
        .or_else(|| one_of(candidates, spread, |candidate| candidate.watch.is_none()))
        .or_else(|| longest_silent(candidates.iter().filter(usable)));
    taken.map_or(IdChoice::Wait, |taken| IdChoice::Take(taken.server_id))
}

/// Returns the server-id whose record has this server's own name, but is in use by another process that beats.
pub fn own_name_in_use(candidates: &[Candidate]) -> Option<u32> {
    let beats = |watch: Watch| watch.is_fresh() && watch.seen().holder.is_some() && !watch.seen().is_this_folder;
    candidates.iter().find(|own| own.is_own_name && own.watch.is_some_and(beats)).map(|own| own.server_id)
}

fn one_of(candidates: &[Candidate], spread: u64, fits: impl Fn(&Candidate) -> bool) -> Option<&Candidate> {
    let count = candidates.iter().filter(|candidate| fits(candidate)).count();
    let nth = u64::try_from(count).ok().filter(|count| *count > 0).map(|count| spread % count)?;
    candidates.iter().filter(|candidate| fits(candidate)).nth(usize::try_from(nth).ok()?)
}

fn longest_silent<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Option<&'a Candidate> {
    let silent_ns = |candidate: &&Candidate| candidate.watch.filter(Watch::is_silent).map(|watch| watch.silent_ns());
    candidates.filter(|candidate| silent_ns(candidate).is_some()).max_by_key(|candidate| silent_ns(candidate))
}
