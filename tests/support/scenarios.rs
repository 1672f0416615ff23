//! Scenarios by name, which every store of a kind goes through.

/// Makes a table of scenarios: each function with its name, as a function of the type `$Scenario`.
macro_rules! scenarios {
    ($Scenario:ty; $($name:ident),* $(,)?) => { &[$((stringify!($name), $name as $Scenario)),*] };
}
pub(crate) use scenarios;

/// Returns true if a database refused a statement because of its duration alone: another session held the lock for a
/// second, or it ran for two. The statement had no effect. On a stalled machine that happens to any statement.
pub fn is_over_time(text: &str) -> bool {
    ["lock timeout", "statement timeout", "(error 1205)", "(error 1969)"].iter().any(|why| text.contains(why))
}

/// Returns the scenarios whose name contains `GETID_STORE_SCENARIO`, or all if that is not set. Prints each before it
/// runs in the store `shown`.
pub fn selected_scenarios<S: Copy>(shown: &str, scenarios: &[(&str, S)]) -> impl Iterator<Item = S> {
    let only = std::env::var("GETID_STORE_SCENARIO").unwrap_or_default();
    let selected = scenarios.iter().filter(move |(name, _)| name.contains(&only));
    selected.map(move |(name, scenario)| {
        println!("{shown}: {name}");
        *scenario
    })
}
