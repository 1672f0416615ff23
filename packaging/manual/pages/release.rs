//! Version and date of the pages, from the newest entry of Debian's changelog. The date of a build would make two
//! builds of the same source differ.

const CHANGELOG: &str = include_str!("../../debian/changelog");
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Version and date of a release.
pub(super) struct Release {
    pub(super) version: &'static str,
    /// Date such as 2026-11-23.
    pub(super) date: String,
}

impl Release {
    /// Returns the release that is being built.
    pub(super) fn newest() -> Result<Release, String> {
        let wrong = |expected: &str| format!("packaging/debian/changelog: its newest entry has no {expected}");
        let version = CHANGELOG.lines().next().and_then(|line| line.split(['(', ')']).nth(1));
        let version = version.ok_or_else(|| wrong("'getid (VERSION)' in its first line"))?;
        // The line's format is " -- Name <address>  Mon, 23 Nov 2026 12:00:00 +0000".
        let expected = "' -- NAME <ADDRESS>  DAY, DD MON YYYY ...'";
        let end = CHANGELOG.lines().find(|line| line.starts_with(" -- ")).ok_or_else(|| wrong(expected))?;
        let words: Vec<&str> = end.rsplit('>').next().unwrap_or_default().split_whitespace().collect();
        let [_, day, month, year, ..] = words[..] else { return Err(wrong(expected)) };
        let month = MONTHS.iter().position(|name| *name == month).ok_or_else(|| wrong(expected))? + 1;
        // The part after the hyphen counts packages of one version.
        let version = version.split('-').next().unwrap_or(version);
        Ok(Release { version, date: format!("{year}-{month:02}-{day:0>2}") })
    }

    /// Returns a handwritten page with version and date in place of its marks.
    pub(super) fn put_into(&self, text: &str) -> String {
        text.replace("@VERSION@", self.version).replace("@DATE@", &self.date)
    }
}
