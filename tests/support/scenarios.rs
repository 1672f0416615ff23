//! Scenarios by name, which every store of a kind goes through.

/// The scenarios of a table: each function with its name, as a function of the type that comes first.
macro_rules! scenarios {
    ($Scenario:ty; $($name:ident),* $(,)?) => { &[$((stringify!($name), $name as $Scenario)),*] };
}
pub(crate) use scenarios;

/// Whether a database has refused a statement for its time alone: another one has had the lock for a second, or it ran
/// for two. Nothing of it was done. On a machine that stands still that happens to any statement.
pub fn is_over_time(said: &str) -> bool {
    ["lock timeout", "statement timeout", "(error 1205)", "(error 1969)"].iter().any(|why| said.contains(why))
}

/// Those that are asked for: whose name has `GETID_STORE_SCENARIO` in it; without that, all. Each is told before it is
/// tried in the store `shown`.
pub fn asked_for<S: Copy>(shown: &str, scenarios: &[(&str, S)]) -> impl Iterator<Item = S> {
    let only = std::env::var("GETID_STORE_SCENARIO").unwrap_or_default();
    let asked = scenarios.iter().filter(move |(name, _)| name.contains(&only));
    asked.map(move |(name, scenario)| {
        println!("{shown}: {name}");
        *scenario
    })
}
