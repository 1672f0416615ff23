//! Every layout's time ends. From then on a generator refuses permanently, so its users must move to another one
//! before. A warning appears two years ahead.

use std::sync::Arc;

use getid_core::server::CounterDeclaration;
use getid_core::{Declaration, Layout};

use getid_text::plural::{counted, listed};
use getid_text::timestamp;

/// Number of days left below which a generator is in the warning.
pub(crate) const WARN_DAYS: i64 = 2 * 365;

const DAY_MS: i64 = 86_400_000;

/// Returns whole days until a Unix time in ms, negative once it has passed.
pub fn days_left(ends_unix_ms: i64, now_unix_ms: i64) -> i64 {
    ends_unix_ms.saturating_sub(now_unix_ms).div_euclid(DAY_MS)
}

/// Returns a warning that lists all generators near their end, or past it, in one sentence.
pub fn warning(unnamed: Layout, named: &[Arc<Declaration>], now_unix_ms: i64) -> Option<String> {
    let of_named = |own: &Arc<Declaration>| Some((format!("'{}'", own.name()), own.ends_unix_ms()?));
    let unnamed = ("the unnamed one".to_owned(), unnamed.last_unix_ms().saturating_add(1));
    let mut near: Vec<_> = std::iter::once(unnamed).chain(named.iter().filter_map(of_named)).collect();
    near.retain(|&(_, ends_unix_ms)| days_left(ends_unix_ms, now_unix_ms) < WARN_DAYS);
    near.sort_by_key(|&(_, ends_unix_ms)| ends_unix_ms);
    if near.is_empty() {
        return None;
    }
    let text = |(name, ends_unix_ms): &(String, i64)| {
        let left = time_left(*ends_unix_ms, now_unix_ms);
        format!("{name} ({left}, {})", timestamp::format_rfc3339(*ends_unix_ms))
    };
    let texts: Vec<_> = near.iter().map(text).collect();
    Some(format!(
        "generators are near the end of their time: {}. After it they give no IDs: declare others, with other names, \
         that last longer",
        listed(&texts)
    ))
}

/// Returns a warning that lists all generators whose time has not begun, in one sentence.
pub fn not_begun(named: &[Arc<Declaration>], now_unix_ms: i64) -> Option<String> {
    let is_late = |own: &&Arc<Declaration>| own.layout().has_time() && own.layout().epoch_unix_ms() > now_unix_ms;
    let text = |own: &Arc<Declaration>| {
        format!("'{}' ({})", own.name(), timestamp::format_rfc3339(own.layout().epoch_unix_ms()))
    };
    let texts: Vec<_> = named.iter().filter(is_late).map(text).collect();
    (!texts.is_empty()).then(|| {
        format!(
            "the epoch of generators is yet to come: {}. They give no IDs before it: check the year",
            listed(&texts)
        )
    })
}

/// Returns the start's log line about the named generators and counters: the kind of each, and its days left.
pub fn summary(named: &[Arc<Declaration>], counters: &[Arc<CounterDeclaration>], now_unix_ms: i64) -> Option<String> {
    let text = |own: &Arc<Declaration>| {
        let left = own.ends_unix_ms().map(|ends_unix_ms| format!(", {}", time_left(ends_unix_ms, now_unix_ms)));
        format!("'{}' ({}{})", own.name(), own.kind().word, left.unwrap_or_default())
    };
    let of_counter = |own: &Arc<CounterDeclaration>| format!("'{}' ({})", own.name(), own.word());
    let texts: Vec<_> = named.iter().map(text).chain(counters.iter().map(of_counter)).collect();
    (!texts.is_empty()).then(|| format!("{}: {}", counted(texts.len() as u64, "named generator"), listed(&texts)))
}

fn time_left(ends_unix_ms: i64, now_unix_ms: i64) -> String {
    if ends_unix_ms <= now_unix_ms {
        return "ended".to_owned();
    }
    format!("{} left", counted(days_left(ends_unix_ms, now_unix_ms).unsigned_abs(), "day"))
}

#[cfg(test)]
mod tests {
    use getid_core::Epoch;

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    /// Returns a declaration whose time ends `days` days after [`NOW`].
    fn ending(name: &str, days: i64) -> Arc<Declaration> {
        let epoch = NOW + (days - 1024) * DAY_MS;
        let text = format!("{name} layout time:10@86400s server-id:10 counter:4 epoch {epoch}");
        Arc::new(Declaration::from_text(&text).expect(&text))
    }

    #[test]
    fn two_years_ahead_and_not_before() {
        let warned = |now_unix_ms| warning(Layout::default(), &[ending("x", 1000)], now_unix_ms);
        let at = NOW + (1000 - WARN_DAYS) * DAY_MS;
        assert_eq!(warned(at), None);
        let text = warned(at + 1).expect("a warning");
        assert!(text.contains(": 'x' (729 days left, 2026-08-10T22:13:20.000Z). After it"), "{text}");
        let end = NOW + 1000 * DAY_MS;
        assert!(warned(end - 1).expect("a warning").contains("'x' (0 days left, "));
        assert!(warned(end).expect("a warning").contains("'x' (ended, 2026-08-10T22:13:20.000Z)"));
    }

    #[test]
    fn an_epoch_to_come_is_warned_of_until_it_has_come() {
        let text = format!("x layout time:41@1ms server-id:10 counter:4 epoch {NOW}");
        let named = [Arc::new(Declaration::from_text(&text).expect(&text))];
        assert_eq!(not_begun(&named, NOW), None);
        let text = not_begun(&named, NOW - 1).expect("a warning");
        assert!(text.contains(": 'x' (2023-11-14T22:13:20.000Z). They"), "{text}");
    }

    #[test]
    fn the_unnamed_one_too_and_none_without_time() {
        let layout = Layout::new(Epoch::from_unix_ms(0).unwrap(), 2, 9, 10).unwrap();
        let uuid4 = Arc::new(Declaration::from_text("trace uuid4").expect("a declaration"));
        assert_eq!(warning(layout, std::slice::from_ref(&uuid4), NOW), None);
        let text = warning(layout, &[uuid4], layout.last_unix_ms()).expect("a warning");
        assert!(text.contains(": the unnamed one (0 days left, 2109-05-15T07:35:11.104Z)."), "{text}");
    }

    #[test]
    fn many_make_one_line_with_the_nearest_first() {
        let all: Vec<_> = (0..1000).rev().map(|n| ending(&format!("{n}{}", "x".repeat(100)), n % 700)).collect();
        let text = warning(Layout::default(), &all, NOW).expect("a warning");
        assert!(text.contains("time: '700xxx") || text.contains("time: '0xxx"), "{text}");
        assert!(text.contains(", and 990 more. After it") && text.len() < 4000 && !text.contains('\n'), "{text}");
        let text = summary(&all, &[], NOW).expect("a line");
        assert!(text.starts_with("1,000 named generators: '999xxx") && text.ends_with(", and 990 more"), "{text}");
        assert!(text.contains(" (layout, 299 days left), ") && text.len() < 4000, "{text}");
        assert_eq!(summary(&[], &[], NOW), None);
        let own = getid_core::server::CounterDeclaration::parse(&["orders", "sequence"], |_| Ok(())).unwrap().unwrap();
        let text = summary(&all[..1], &[Arc::new(own)], NOW).expect("a line");
        assert!(text.starts_with("2 named generators: ") && text.ends_with("'orders' (sequence)"), "{text}");
    }
}
