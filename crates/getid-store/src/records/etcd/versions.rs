//! Sound versions of etcd, and the warnings about others.

use super::super::RecordStoreInfo;
use super::failure::MemberFailure;
use super::gateway::StatusAnswer;
use getid_text::printable::printable_up_to;

/// The first version of each line whose reads are current even after its process was paused. The source is etcd's
/// change logs ("Stale reads caused by process pausing", "Race between read index and leader change").
const SOUND_SINCE: [[u32; 3]; 3] = [[3, 4, 42], [3, 5, 28], [3, 6, 9]];

/// Returns the product and the warnings, from the status of each member by its place.
pub(super) fn info<'a>(
    answers: impl Iterator<Item = (&'a str, &'a Result<StatusAnswer, MemberFailure>)>,
) -> RecordStoreInfo {
    let (mut versions, mut warnings) = (Vec::new(), Vec::new());
    for (place, answer) in answers {
        match answer {
            Ok(status) => {
                let version = printable_up_to(&status.version, 40);
                warnings.extend(version_warning(place, &version));
                let errors = status.errors.iter().map(|error| {
                    let error = printable_up_to(error.trim(), 100);
                    format!("{place} reports '{error}': see etcdctl endpoint status and etcdctl alarm list")
                });
                warnings.extend(errors);
                versions.push(version);
            }
            Err(failure) => warnings.push(failure.clone().text()),
        }
    }
    versions.sort();
    versions.dedup();
    RecordStoreInfo { product: format!("etcd {}", versions.join(", ")), warnings }
}

/// Returns the warning about an unsound version.
fn version_warning(place: &str, version: &str) -> Option<String> {
    let found = parsed(version)?;
    let sound = SOUND_SINCE.iter().find(|sound| sound[..2] == found[..2]);
    let [major, minor, patch] = sound.copied().unwrap_or(SOUND_SINCE[1]);
    let upgrade = format!("upgrade it to {major}.{minor}.{patch} or newer");
    if found < [3, 4, 0] {
        return Some(format!("{place} is etcd {version}, and 3.4 is the oldest that getid supports: {upgrade}"));
    }
    if ([3, 5, 0]..=[3, 5, 2]).contains(&found) {
        return Some(format!("{place} is etcd {version}, which may corrupt its data when it is killed: {upgrade}"));
    }
    let is_stale = sound.is_some_and(|sound| found < *sound);
    is_stale.then(|| {
        format!("{place} is etcd {version}, which may answer a read with outdated data after a pause: {upgrade}")
    })
}

/// Parses versions such as `3.5.28` and `3.6.0-rc.1`.
fn parsed(version: &str) -> Option<[u32; 3]> {
    let numbers = version.split(['-', '+']).next()?;
    let mut parts = numbers.split('.').map(str::parse);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Some([major, minor, patch]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::gateway;
    use super::*;

    #[test]
    fn warnings_about_unsound_versions_name_a_sound_one() {
        for (version, expected) in [
            ("3.3.27", Some("3.4 is the oldest that getid supports: upgrade it to 3.5.28")),
            ("3.4.23", Some("after a pause: upgrade it to 3.4.42")),
            ("3.4.42", None),
            ("3.5.0", Some("may corrupt its data when it is killed: upgrade it to 3.5.28")),
            ("3.5.2", Some("may corrupt its data")),
            ("3.5.3", Some("after a pause: upgrade it to 3.5.28")),
            ("3.5.28", None),
            ("3.6.0-rc.1", Some("after a pause: upgrade it to 3.6.9")),
            ("3.6.9", None),
            ("3.7.1", None),
            ("what", None),
        ] {
            let found = version_warning("etcd at a:1", version);
            assert_eq!(found.is_some(), expected.is_some(), "{version}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{version}");
        }
    }

    #[test]
    fn members_may_differ_and_be_unreachable() {
        let status = |version: &str, errors: &str| {
            let body = format!(r#"{{"header":{{"cluster_id":"1"}},"version":"{version}","errors":[{errors}]}}"#);
            gateway::status_answer(body.as_bytes()).map_err(|_| MemberFailure::Away(String::new()))
        };
        let answers = [
            ("etcd at a:1", status("3.6.9", "")),
            ("etcd at b:1", status("3.6.9", r#""alarm:NOSPACE ""#)),
            ("etcd at c:1", status("3.5.28", "")),
            ("etcd at d:1", Err(MemberFailure::Away("etcd at d:1 is not reached".to_owned()))),
        ];
        let info = info(answers.iter().map(|(place, answer)| (*place, answer)));
        assert_eq!(info.product, "etcd 3.5.28, 3.6.9");
        assert_eq!(info.warnings.len(), 2, "{:?}", info.warnings);
        assert!(info.warnings[0].starts_with("etcd at b:1 reports 'alarm:NOSPACE'"));
        assert_eq!(info.warnings[1], "etcd at d:1 is not reached");
    }
}
