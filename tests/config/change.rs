//! `CONFIG SET` and `CONFIG REWRITE` as functions. One takes a configuration and pairs and returns a configuration or
//! an error; the other takes a file's text and returns the new text. `tests/server/settings.rs` tests changes of a
//! running server. `tests/protocol/transcripts/config.txt` compares the texts of errors with a real Redis.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use getid_config::directive::{ChangeMode, Directive, Secrecy};
use getid_config::ignored::IGNORED_DIRECTIVES;
use getid_config::{Config, Files, RewriteResult, SettingPair, Sources, UserLine};
use getid_server::config_files::FilesFrom;
use getid_system::files::{Readers, replace, resolve_links};
use getid_text::store_url::{StoreKind, StoreUrl};
use proptest::prelude::*;

/// Files in memory, by their paths.
#[derive(Clone, Default)]
pub(crate) struct Thought(BTreeMap<&'static str, Vec<u8>>);

impl Files for Thought {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.0.get(path.to_str().unwrap()).cloned().ok_or(io::ErrorKind::NotFound)?;
        bytes.truncate(bytes_max + 1);
        Ok(bytes)
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let folder = pattern.split('*').next().unwrap();
        Ok(self.0.keys().filter(|path| path.starts_with(folder)).map(PathBuf::from).collect())
    }
}

pub(crate) fn files(texts: &[(&'static str, &str)]) -> Thought {
    Thought(texts.iter().map(|(path, text)| (*path, text.as_bytes().to_vec())).collect())
}

pub(crate) fn sources(path: &str, environment: &[(&str, &str)], words: &[&str]) -> Sources {
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    Sources {
        file: Some(PathBuf::from(path)),
        environment,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        host_name: None,
    }
}

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Vec<SettingPair> {
    pairs.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// Returns the values in force, directive by directive.
fn values(config: &Config) -> Vec<(&'static str, String)> {
    let mut values: Vec<_> = Directive::ALL.iter().filter_map(|row| Some((row.name, row.get(config)?))).collect();
    values.push(("rename-command", format!("{:?}", config.rename_commands)));
    values
}

/// Sets `change` and rewrites. Asserts that a start with the new file has the same values, and that a second rewrite
/// changes nothing.
#[track_caller]
fn rewritten(path: &'static str, given: &Thought, words: &[&str], change: &[(&str, &str)]) -> String {
    let all = sources(path, &[], words);
    let (config, _) = Config::load(&all, given).unwrap();
    let config = config.set(&pairs(change)).unwrap().config;
    let RewriteResult { text, .. } = config.rewritten(Path::new(path), &all, given).unwrap();
    let mut after = given.clone();
    after.0.insert(path, text.clone());
    let shown = String::from_utf8(text.clone()).unwrap();
    // The file now contains the values of the command line.
    let (again, _) =
        Config::load(&sources(path, &[], &[]), &after).unwrap_or_else(|report| panic!("{report}\n{shown}"));
    assert_eq!(values(&again), values(&config), "\n{shown}");
    assert_eq!(config.rewritten(Path::new(path), &all, &after).unwrap().text, text, "a second time");
    shown
}

#[test]
fn a_change_is_whole_or_none() {
    let old = Config::default();
    let changed = old.set(&pairs(&[("timeout", "5"), ("HZ", "20"), ("requirepass", "a b")])).unwrap();
    assert_eq!(changed.names, ["timeout", "hz", "requirepass"]);
    let expected = Config { timeout_s: 5, hz: 20, requirepass: Some("a b".to_owned()), ..old.clone() };
    assert_eq!(changed.config, expected);
    assert!(old.set(&pairs(&[("timeout", "5"), ("hz", "501")])).is_err());
    let error = old.set(&pairs(&[("hz", "501")])).unwrap_err().to_string();
    let text =
        "ERR CONFIG SET failed (possibly related to argument 'hz') - argument must be between 1 and 500 inclusive";
    assert_eq!(error, text);
}

#[test]
fn the_documented_file_shows_for_each_directive_whether_it_can_change() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/getid.conf")).unwrap();
    let (mut comment, mut behind_a_directive) = (String::new(), false);
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let shown = line.strip_prefix('#').unwrap_or(line);
        if let Some(row) = shown.split(' ').next().and_then(Directive::find) {
            let words = comment.split_whitespace().filter(|word| *word != "#").collect::<Vec<_>>().join(" ");
            found.insert(row.name, words.contains("At the start only."));
            behind_a_directive = true;
        } else {
            if std::mem::take(&mut behind_a_directive) {
                comment.clear();
            }
            comment += line;
            comment.push(' ');
        }
    }
    for row in Directive::ALL.iter().filter(|row| !["user", "aclfile"].contains(&row.name)) {
        assert_eq!(found.get(row.name), Some(&(row.change == ChangeMode::AtStart)), "{}", row.name);
    }
}

#[test]
fn values_are_shown_as_they_were_set() {
    for (name, value, shown) in [
        ("slowlog-log-slower-than", "-1", "-1"),
        ("latency-monitor-threshold", "100", "100"),
        ("client-output-buffer-limit", "pubsub 1kb 2 3", "normal 0 0 0 slave 268435456 67108864 60 pubsub 1024 2 3"),
        ("id-max-clock-jump-ms", "0", "0"),
        ("tls-cert-file", "/no/such/file", "/no/such/file"),
        ("tls-protocols", "tlsv1.3 TLSv1.2 TLSv1.3", "TLSv1.3 TLSv1.2"),
        ("tls-ciphers", "DEFAULT:!MEDIUM", ""),
        ("tls-ciphers", "ECDHE-RSA-AES128-GCM-SHA256:!aNULL", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("client-query-buffer-limit", "2mb", "2097152"),
        ("http-open", "metrics PROBES", "probes metrics"),
        ("http-open", "", ""),
        ("http-host", "IDs.example.com ids", "ids.example.com ids"),
        ("announce-peers", "Ids-1 [FD00::7]:1", "ids-1 [fd00::7]:1"),
        ("protected-mode", "no", "no"),
        ("protected-mode", "Guarded", "guarded"),
        ("protected-mode", "yes", "yes"),
    ] {
        let config = Config::default().set(&pairs(&[(name, value)])).unwrap().config;
        assert_eq!(Directive::find(name).unwrap().get(&config).unwrap(), shown, "{name} {value}");
    }
}

#[test]
fn classes_that_are_not_named_keep_their_limits() {
    let change = pairs(&[("client-output-buffer-limit", "pubsub 1kb 2 3 slave 4 5 6")]);
    let config = Config::default().set(&change).unwrap().config;
    let row = Directive::find("client-output-buffer-limit").unwrap();
    assert_eq!(row.get(&config).unwrap(), "normal 0 0 0 slave 4 5 6 pubsub 1024 2 3");
}

#[test]
fn checks_between_values_go_by_the_whole() {
    let words = ["--tls-port", "6380", "--tls-cert-file", "a", "--tls-key-file", "b", "--tls-auth-clients", "no"];
    let (tls, _) = Config::load(&sources("t.conf", &[], &words), &files(&[("t.conf", "")])).unwrap();
    let error = tls.set(&pairs(&[("timeout", "5"), ("tls-cert-file", "")])).unwrap_err().to_string();
    let text = "ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - tls-port is 6380, but there is no \
                tls-cert-file";
    assert_eq!(error, text);
    let error = tls.set(&pairs(&[("tls-auth-clients", "optional")])).unwrap_err().to_string();
    assert!(
        error.contains("'tls-auth-clients') - tls-auth-clients is optional, but there is no tls-ca-cert-file"),
        "{error}"
    );
    assert!(tls.set(&pairs(&[("tls-auth-clients", "optional"), ("tls-ca-cert-file", "c")])).is_ok());
    // In either order, because the check is on the result.
    for change in [
        [("id-watermark-lead-ms", "5000"), ("id-max-borrow-ms", "6000")],
        [("id-max-borrow-ms", "6000"), ("id-watermark-lead-ms", "5000")],
    ] {
        assert_eq!(Config::default().set(&pairs(&change)).unwrap().config.id_watermark_lead_ms, 5000);
    }
}

#[test]
fn no_error_shows_a_password() {
    for change in [[("requirepass", "hunter2"), ("hz", "x")], [("requirepass", "hunter2"), ("requirepass", "hunter2")]]
    {
        assert!(!Config::default().set(&pairs(&change)).unwrap_err().to_string().contains("hunter"));
    }
}

#[test]
fn a_file_keeps_comments_order_and_what_did_not_change() {
    let text = "# head\n\n  port 7000\nTimeout 3\n# about hz\nhz   10\nproto-max-bulk-len 512MB\ntimeout 4\nsave 900 1\n# tail";
    let given = files(&[("t.conf", text)]);
    assert_eq!(rewritten("t.conf", &given, &[], &[("timeout", "4")]), text);
    let expected = "# head\n\n  port 7000\ntimeout 9\n# about hz\nhz   10\nproto-max-bulk-len 512MB\nsave 900 1\n# tail\n\n\
                    # Generated by CONFIG REWRITE\nmaxclients 5\nrequirepass \"a \\\"b\\\" #\"\n";
    let change = [("timeout", "9"), ("maxclients", "5"), ("requirepass", "a \"b\" #"), ("loglevel", "notice")];
    assert_eq!(rewritten("t.conf", &given, &[], &change), expected);
    // Back to the built-in value: an existing line states it.
    let given = files(&[("t.conf", "hz 20\r\n# x\r\n")]);
    assert_eq!(rewritten("t.conf", &given, &[], &[("hz", "10")]), "hz 10\r\n# x\r\n");
    // Under an existing marker; an empty file and a missing one are written.
    let given = files(&[("t.conf", "# Generated by CONFIG REWRITE\nhz 20\n")]);
    let expected = "# Generated by CONFIG REWRITE\nhz 20\ntimeout 1\n";
    assert_eq!(rewritten("t.conf", &given, &[], &[("timeout", "1")]), expected);
    let given = files(&[("t.conf", "")]);
    assert_eq!(rewritten("t.conf", &given, &[], &[("hz", "11")]), "# Generated by CONFIG REWRITE\nhz 11\n");
}

#[test]
fn a_directive_of_several_lines_keeps_them() {
    let text = "client-output-buffer-limit pubsub 1 2 3\n# x\nclient-output-buffer-limit normal 0 0 0\n\
                rename-command CONFIG \"\"\nrename-command shutdown s\n";
    let given = files(&[("t.conf", text)]);
    let expected = "client-output-buffer-limit normal 7 8 9\n# x\nclient-output-buffer-limit pubsub 1 2 3\n\
                    rename-command CONFIG \"\"\nrename-command shutdown s\n";
    let change = [("client-output-buffer-limit", "normal 7 8 9")];
    assert_eq!(rewritten("t.conf", &given, &[], &change), expected);
    let given = files(&[("t.conf", "rename-command a b\ninclude x.conf\n"), ("x.conf", "rename-command c d\n")]);
    let expected = "rename-command a b\ninclude x.conf\n\n# Generated by CONFIG REWRITE\nrename-command e f\n";
    assert_eq!(rewritten("t.conf", &given, &["--rename-command", "e", "f"], &[]), expected);
}

#[test]
fn users_are_written_where_they_stand_and_only_if_they_changed() {
    let text = "user zoe on >secret +ping\n# bob\nuser bob on nopass +getid\ninclude x.conf\n";
    let given = files(&[("t.conf", text), ("x.conf", "user amy on nopass +info\n")]);
    let all = sources("t.conf", &[], &[]);
    let (config, _) = Config::load(&all, &given).unwrap();
    let rewritten = |config: &Config| {
        let text = config.rewritten(Path::new("t.conf"), &all, &given).map(|rewritten| rewritten.text);
        text.map(|text| String::from_utf8(text).unwrap())
    };
    assert_eq!(rewritten(&config).unwrap(), text);
    // In the server's form: by name, with each rule spelt out.
    let mut changed = config.clone();
    changed.users.reverse();
    assert_eq!(rewritten(&changed).unwrap(), text);
    changed.users.iter_mut().find(|user| user.name == "bob").unwrap().rules.push("+mgetid".to_owned());
    changed.users.push(UserLine { name: "carl".to_owned(), rules: vec!["on".to_owned(), "nopass".to_owned()] });
    let got = rewritten(&changed).unwrap();
    let lines: Vec<_> = got.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["user zoe", "# bob", "user bob", "include x.conf", "", "# Generated", "user carl"]);
    assert!(got.starts_with("user zoe on >secret +ping\n") && got.contains("+getid +mgetid\n"), "{got}");
    // A deleted user loses its line, unless another file has it.
    changed.users.retain(|user| user.name != "zoe");
    assert!(!rewritten(&changed).unwrap().contains("zoe"));
    changed.users.retain(|user| user.name != "amy");
    assert_eq!(
        rewritten(&changed).unwrap_err().to_string(),
        "user is also set in an included file, which is not rewritten"
    );
}

/// The file was edited before a SIGHUP: the rewrite restores the declarations in force, and equal ones stay as they
/// are.
#[test]
fn generators_are_written_back_where_they_stand() {
    let conf =
        "# head\ngenerator a twitter epoch 2016-01-01T00:00:00Z # 1\n# b\ngenerator b layout time:41@1ms server-id:2\n";
    let conf = conf.replace(" # 1", "");
    let toml = "# head\nhz = 10\n\n[generator.a] # a\n# kind\nkind = 'twitter' # t\nepoch = 2016-01-01T00:00:00Z\n\n# b\n\
                [generator.\"b\"]\nlayout = ['time:41@1ms', 'server-id:2']\n";
    let canonical = "layout time:41@1ms server-id:2 epoch 1420041600000";
    for (path, text, edited, expected) in [
        (
            "t.conf",
            &*conf,
            conf.replace("server-id:2", "server-id:3"),
            conf.replace("layout time:41@1ms server-id:2", canonical),
        ),
        ("t.conf", &*conf, conf.replace("# b\n", "generator c uuid4\n# b\n"), conf.clone()),
        (
            "t.conf",
            &*conf,
            conf.replace("generator b layout time:41@1ms server-id:2\n", ""),
            conf.replace("generator b", "\n# Generated by CONFIG REWRITE\ngenerator b")
                .replace("layout time:41@1ms server-id:2", canonical),
        ),
        ("t.toml", toml, toml.replace("\n# b", "\n[generator.c]\nkind = 'uuid4'\n\n# b"), toml.to_owned()),
        (
            "t.toml",
            toml,
            toml.replace("[generator.\"b\"]", "[generator.c]"),
            format!(
                "{}\n\n[generator.b]\nkind = \"layout\"\nlayout = \"time:41@1ms server-id:2\"\nepoch = 1420041600000\n",
                toml.split_once("\n\n# b").unwrap().0
            ),
        ),
        (
            "t.toml",
            toml,
            toml.replace("server-id:2", "server-id:3"),
            toml.replace(
                "['time:41@1ms', 'server-id:2']\n",
                "\"time:41@1ms server-id:2\"\nkind = \"layout\"\nepoch = 1420041600000\n",
            ),
        ),
    ] {
        let all = sources(path, &[("GETID_GENERATOR", "e uuid7")], &["--generator", "f", "uuid7"]);
        let (config, _) = Config::load(&all, &files(&[(path, text)])).unwrap();
        let same = config.rewritten(Path::new(path), &all, &files(&[(path, text)])).unwrap();
        assert_eq!(String::from_utf8(same.text).unwrap(), text);
        assert_eq!(same.overridden, [""; 0]);
        let again = config.rewritten(Path::new(path), &all, &files(&[(path, &*edited)])).unwrap();
        let again = String::from_utf8(again.text).unwrap();
        assert_eq!(again, expected);
        let sort = |config: Config| {
            let mut generators = config.generators;
            generators.sort_by(|one, other| one.name().cmp(other.name()));
            let mut counters = config.counters.clone();
            counters.sort_by(|one, other| one.name().cmp(other.name()));
            (generators, counters)
        };
        let (reread, _) = Config::load(&all, &files(&[(path, &*again)])).unwrap();
        assert_eq!(sort(reread), sort(config));
    }
}

#[test]
fn values_that_differ_from_an_included_file_are_written_again() {
    let given = files(&[("t.conf", "timeout 1\ninclude x.conf\n# end\n"), ("x.conf", "timeout 2\nhz 20\n")]);
    assert_eq!(rewritten("t.conf", &given, &[], &[]), "timeout 1\ninclude x.conf\n# end\n");
    let expected = "include x.conf\n# end\n\n# Generated by CONFIG REWRITE\nhz 10\ntimeout 3\n";
    assert_eq!(rewritten("t.conf", &given, &[], &[("timeout", "3"), ("hz", "10")]), expected);
}

#[test]
fn the_words_of_id_generator_stay_right() {
    let given = files(&[("t.conf", "id-generator server-id 1 id-range 2\nshard-range 9 # no\n")]);
    assert!(Config::load(&sources("t.conf", &[], &[]), &given).is_err());
    let given = files(&[("t.conf", "id-generator server-id 1 id-range 3 shard-range 9 random-range 9\nserver-id 2\n")]);
    let expected = "id-generator server-id 5 id-range 3 shard-range 8 random-range 10\nserver-id 5\n";
    let words = ["--server-id", "5", "--shard-range", "8", "--random-range", "10"];
    assert_eq!(rewritten("t.conf", &given, &words, &[]), expected);
    // A file that is valid only together with the command line.
    let given = files(&[("t.conf", "id-range 3\ntls-port 6380\ntls-auth-clients no\n")]);
    let words = ["--shard-range", "8", "--tls-cert-file", "a", "--tls-key-file", "b"];
    let got = rewritten("t.conf", &given, &words, &[]);
    assert!(got.ends_with("tls-cert-file a\ntls-key-file b\nshard-range 8\n"), "{got}");
}

#[test]
fn values_of_the_command_line_are_written_and_overriding_sources_are_named() {
    let given = files(&[("t.conf", "hz 10\n")]);
    let all = sources("t.conf", &[("GETID_TIMEOUT", "7")], &["--hz", "20", "--maxclients", "9"]);
    let (config, _) = Config::load(&all, &given).unwrap();
    let config = config.set(&pairs(&[("timeout", "8"), ("maxclients", "11")])).unwrap().config;
    let RewriteResult { text, overridden, holds_secret } = config.rewritten(Path::new("t.conf"), &all, &given).unwrap();
    let expected = "hz 20\n\n# Generated by CONFIG REWRITE\ntimeout 8\nmaxclients 11\n";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    assert_eq!(overridden, ["timeout", "maxclients"]);
    assert!(!holds_secret);
}

/// Setting the value of `CONFIG GET` again changes nothing, and writes a line into the file.
#[test]
fn setting_protected_mode_to_its_shown_value_changes_nothing() {
    for (text, word) in [("", "yes"), ("bind 0.0.0.0\n", "guarded"), ("protected-mode no\n", "no")] {
        let given = files(&[("t.conf", text)]);
        let all = sources("t.conf", &[], &[]);
        let (config, _) = Config::load(&all, &given).unwrap();
        let before = config.protection();
        let set = config.set(&pairs(&[("protected-mode", word)])).unwrap().config;
        assert_eq!(set.protection(), before, "{text}");
        let RewriteResult { text: again, .. } = set.rewritten(Path::new("t.conf"), &all, &given).unwrap();
        let again = String::from_utf8(again).unwrap();
        assert!(again.contains(&format!("protected-mode {word}\n")), "{again}");
        let (next, _) = Config::load(&all, &files(&[("t.conf", &again)])).unwrap();
        assert_eq!(next.protection(), before, "{again}");
    }
}

/// Secrets of any kind count, also those of Redis's directives without effect here: they may be another server's
/// password.
#[test]
fn a_file_with_any_secret_is_known_to_hold_one() {
    let own = Directive::ALL.iter().filter(|row| row.secrecy != Secrecy::Open).map(|row| row.name);
    let known = IGNORED_DIRECTIVES.iter().filter(|row| row.is_secret).map(|row| row.name);
    for name in own.chain(known) {
        let value = match name {
            "user" => "app on >hunter2",
            "sequence-store" | "claim-store" => "mysql://app:hunter2@db/ids",
            _ => "hunter2",
        };
        for (path, text) in [("t.conf", format!("{name} {value}\n")), ("t.toml", format!("{name} = \"{value}\"\n"))] {
            let given = files(&[(path, &text)]);
            let all = sources(path, &[], &[]);
            let (config, _) = Config::load(&all, &given).unwrap();
            assert!(config.rewritten(Path::new(path), &all, &given).unwrap().holds_secret, "{text}");
        }
    }
}

/// Stores in the file add up. Those of a stronger source replace them, and only those of the command line are written
/// to the file.
#[test]
fn stores_are_those_of_the_strongest_source() {
    let conf = "# head\nsequence-store mysql://a:hunter2@h/b\ninclude x.conf\n# tail\n";
    let toml = "sequence-store = ['mysql://a:hunter2@h/b'] # head\ninclude = 'x.conf'\n";
    let variables = [("GETID_SEQUENCE_STORE", "sqlite:e1\n  sqlite:e2  \n")];
    let words = ["--sequence-store", "sqlite:c1", "--sequence-store=sqlite:c2"];
    for (path, text) in [("t.conf", conf), ("t.toml", toml)] {
        let given = files(&[(path, text), ("x.conf", "sequence-store sqlite:x\n")]);
        for (variables, words, stores) in [
            (&[][..], &[][..], ["mysql://a:hunter2@h/b", "sqlite:x"]),
            (&variables, &[], ["sqlite:e1", "sqlite:e2"]),
            (&variables, &words, ["sqlite:c1", "sqlite:c2"]),
        ] {
            let all = sources(path, variables, words);
            let (config, _) = Config::load(&all, &given).unwrap();
            assert_eq!(config.sequence_stores().iter().map(StoreUrl::text).collect::<Vec<_>>(), stores);
            let row = Directive::find("sequence-store").unwrap();
            assert_eq!(row.get(&config).unwrap(), stores.join("\n"));
            let rewritten = config.rewritten(Path::new(path), &all, &given);
            if words.is_empty() {
                assert_eq!(String::from_utf8(rewritten.unwrap().text).unwrap(), text);
            } else {
                let text = "sequence-store is also set in an included file, which is not rewritten";
                assert_eq!(rewritten.unwrap_err().to_string(), text);
            }
        }
    }
    for (path, text, expected) in [
        (
            "t.conf",
            conf,
            "# head\nsequence-store sqlite:c1\n# tail\n\n# Generated by CONFIG REWRITE\nsequence-store sqlite:c2\n",
        ),
        ("t.toml", toml, "sequence-store = [\"sqlite:c1\", \"sqlite:c2\"] # head\n"),
    ] {
        let text = text.replace("include x.conf\n", "").replace("include = 'x.conf'\n", "");
        let given = files(&[(path, &*text)]);
        let all = sources(path, &variables, &words);
        let (config, _) = Config::load(&all, &given).unwrap();
        let rewritten = config.rewritten(Path::new(path), &all, &given).unwrap();
        assert_eq!(String::from_utf8(rewritten.text).unwrap(), expected);
        assert!(!rewritten.holds_secret);
    }
}

#[test]
fn without_a_line_the_store_is_the_file_in_dir() {
    let stores = |words: &[&str]| {
        let (config, _) = Config::load(&sources("t.conf", &[], words), &files(&[("t.conf", "")])).unwrap();
        config.sequence_stores().iter().map(|url| url.text().to_owned()).collect::<Vec<_>>()
    };
    let default: &[&str] = if cfg!(feature = "sqlite") { &["sqlite:"] } else { &[] };
    assert_eq!(stores(&[]), default);
    assert_eq!(stores(&["--sequence-store", ""]), default);
    assert_eq!(stores(&["--sequence-store", "none"]), [""; 0]);
    assert_eq!(stores(&["--id-state", "none"]), [""; 0]);
    assert_eq!(stores(&["--id-state", "none", "--sequence-store", "sqlite:a"]), ["sqlite:a"]);
}

#[test]
fn a_stores_password_is_read_from_its_file_and_stays_there() {
    let text = "sequence-store mysql://a@h/b?password-file=p\n";
    let given = files(&[("t.conf", text), ("p", "hunter2\n")]);
    let (config, _) = Config::load(&sources("t.conf", &[], &[]), &given).unwrap();
    let stores = config.sequence_stores();
    let StoreKind::Mysql(server) = stores[0].kind() else { panic!("{stores:?}") };
    assert_eq!(server.password.as_deref(), Some("hunter2"));
    assert!(!format!("{config:?}{stores:?}").contains("hunter2"));
    let rewritten = config.rewritten(Path::new("t.conf"), &sources("t.conf", &[], &[]), &given).unwrap();
    assert_eq!((String::from_utf8(rewritten.text).unwrap().as_str(), rewritten.holds_secret), (text, false));
    // A password on the command line causes a warning, one in a file does not.
    let words = ["--sequence-store", "mysql://a:hunter2@h/b?tls=no"];
    let (_, warnings) = Config::load(&sources("t.conf", &[], &words), &files(&[("t.conf", "")])).unwrap();
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.len() == 2 && !warnings.concat().contains("hunter"), "{warnings:?}");
    assert!(warnings.concat().contains("with ps") && warnings.concat().contains("has tls=no"), "{warnings:?}");
}

#[test]
fn values_of_the_environment_are_not_written() {
    let digest = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
    let variables = [
        ("GETID_REQUIREPASS", "hunter2"),
        ("GETID_USER", "app on >hunter3 +ping"),
        ("GETID_HZ", "20"),
        ("GETID_TIMEOUT", "7"),
        ("GETID_SERVER_ID", "2"),
    ];
    for (path, text) in [("t.conf", "hz 10\n"), ("t.toml", "hz = 10\n")] {
        let given = files(&[(path, text)]);
        let all = sources(path, &variables, &[]);
        let (mut config, _) = Config::load(&all, &given).unwrap();
        let same = config.rewritten(Path::new(path), &all, &given).unwrap();
        assert_eq!((String::from_utf8(same.text).unwrap().as_str(), same.holds_secret), (text, false));
        // In the server's form: with a digest.
        let line = format!("on sanitize-payload #{digest} resetchannels -@all +ping");
        config.users.push(UserLine { name: "bob".into(), rules: line.split(' ').map(str::to_owned).collect() });
        let with_user = config.rewritten(Path::new(path), &all, &given).unwrap();
        let written = String::from_utf8(with_user.text).unwrap();
        assert!(written.contains(digest) && !written.contains("app") && !written.contains("hunter"), "{written}");
        assert!(with_user.holds_secret);
        // A value that was set since differs, so it is written.
        let config = config.set(&pairs(&[("requirepass", "hunter4"), ("timeout", "8")])).unwrap().config;
        let set = config.rewritten(Path::new(path), &all, &given).unwrap();
        let written = String::from_utf8(set.text).unwrap();
        assert!(
            written.contains("hunter4") && written.contains("timeout") && !written.contains("hunter2"),
            "{written}"
        );
        assert!(!written.contains("server-id") && set.holds_secret, "{written}");
    }
}

/// A user of the environment or command line is not written: the next start creates it again, and accepts no user
/// twice.
#[test]
fn users_from_elsewhere_are_not_written_whatever_becomes_of_them() {
    let variables = [("GETID_USER", "app on >hunter2 +ping")];
    let words = ["--user", "ops on >hunter3 +@all"];
    for (path, text) in [("t.conf", "hz 10\n"), ("t.toml", "hz = 10\n")] {
        let given = files(&[(path, text)]);
        let all = sources(path, &variables, &words);
        let (mut config, _) = Config::load(&all, &given).unwrap();
        for changed in [false, true] {
            if changed {
                for (user, rule) in config.users.iter_mut().zip(["+echo", "-@all"]) {
                    user.rules.push(rule.to_owned());
                }
            }
            let RewriteResult { text: written, overridden, holds_secret } =
                config.rewritten(Path::new(path), &all, &given).unwrap();
            let written = String::from_utf8(written).unwrap();
            assert_eq!((written.as_str(), holds_secret), (text, false));
            assert_eq!(overridden, if changed { vec!["user"] } else { Vec::new() });
            Config::load(&all, &files(&[(path, &written)])).unwrap();
        }
        // A user that was created since is written, in addition to them.
        config.users.push(UserLine { name: "new".into(), rules: vec!["on".into()] });
        let written = String::from_utf8(config.rewritten(Path::new(path), &all, &given).unwrap().text).unwrap();
        assert!(written.contains("new") && !["app", "ops"].iter().any(|word| written.contains(word)), "{written}");
        let written = files(&[(path, written.leak())]);
        assert_eq!(Config::load(&all, &written).unwrap().0.users.len(), 3);
    }
}

/// A file that would be too large for the next start is not written.
#[test]
fn users_that_could_not_be_loaded_again_are_not_written() {
    let given = files(&[("t.conf", "# nothing\n")]);
    let user = |number| UserLine { name: format!("u{number}"), rules: vec![format!("~{}", "k".repeat(60_000))] };
    let config = Config { users: (0..18).map(user).collect(), ..Config::default() };
    let error = config.rewritten(Path::new("t.conf"), &sources("t.conf", &[], &[]), &given).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("is larger than 1048576 bytes"), "{error}");
}

#[test]
fn a_file_that_was_broken_meanwhile_is_left_alone() {
    let config = Config::default();
    for text in ["prot 1\n", "hz \"\n", "hz x\n"] {
        let error =
            config.rewritten(Path::new("t.conf"), &Sources::default(), &files(&[("t.conf", text)])).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("t.conf:1: "), "{error}");
    }
    for text in ["hz =\n", "hz = 1\nhz = 2"] {
        let given = files(&[("t.toml", text)]);
        assert!(config.rewritten(Path::new("t.toml"), &Sources::default(), &given).is_err(), "{text}");
    }
}

#[test]
fn a_toml_file_keeps_comments_order_and_forms() {
    let text = "# head\nport = 7000 # the port\nhz = 10\nsyslog-enabled = false\n\n# limits\n[client-output-buffer-limit]\n\
                normal = [0, 0, 0] # own\nreplica = [\"256mb\", \"64mb\", 60]\n\n[id-generator]\nserver-id = 1\n";
    let given = files(&[("t.toml", text)]);
    assert_eq!(rewritten("t.toml", &given, &[], &[]), text);
    let change =
        [("hz", "20"), ("client-output-buffer-limit", "normal 1 2 3"), ("requirepass", "a\"b"), ("timeout", "5")];
    let got = rewritten("t.toml", &given, &["--server-id", "2", "--port", "7001", "--syslog-enabled", "yes"], &change);
    let expected = "# head\nport = 7001 # the port\nhz = 20\nsyslog-enabled = true\n\n# Generated by CONFIG REWRITE\n\
                    timeout = 5\nrequirepass = 'a\"b'\n\n# limits\n[client-output-buffer-limit]\nnormal = [1, 2, 3] # own\n\
                    replica = [268435456, 67108864, 60]\n\n[id-generator]\nserver-id = 2\n";
    assert_eq!(got, expected);
    let given = files(&[("t.toml", "id-generator = \"server-id 1\"\nbind = [\"127.0.0.1\"]\nunixsocketperm = 0o770")]);
    let words = ["--server-id", "3", "--bind", "::1", "127.0.0.1", "--unixsocketperm", "700"];
    let expected = "id-generator = \"server-id 3 id-range 2 shard-range 9 random-range 10\"\n\
                    bind = [\"::1\", \"127.0.0.1\"]\nunixsocketperm = 700\n";
    assert_eq!(rewritten("t.toml", &given, &words, &[]), expected);
    let given = files(&[("t.toml", "")]);
    let got = rewritten(
        "t.toml",
        &given,
        &["--rename-command", "CONFIG", ""],
        &[("client-output-buffer-limit", "pubsub 1 2 3")],
    );
    assert!(got.contains("rename-command = [[\"CONFIG\", \"\"]]\n"), "{got}");
}

#[test]
fn a_password_of_several_lines_reads_back() {
    for (path, text) in [("t.conf", "hz 10\n"), ("t.toml", "hz = 10\n")] {
        rewritten(path, &files(&[(path, text)]), &[], &[("requirepass", "a\n# b\r\n\t\"'c'''\"\"\"\\")]);
    }
}

#[test]
fn a_file_is_replaced_whole_and_keeps_its_mode_and_its_links() {
    let folder = tempfile::tempdir().unwrap();
    let [real, link] = ["real.conf", "link.conf"].map(|name| folder.path().join(name));
    std::fs::write(&real, "old").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let replace_file =
        |path: &Path, bytes: &[u8]| resolve_links(path).and_then(|path| replace(&path, bytes, Readers::AsBefore));
    replace_file(&link, b"new").unwrap();
    assert_eq!(std::fs::read(&real).unwrap(), b"new");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    assert!(replace_file(&folder.path().join("no/such.conf"), b"x").is_err());
    let fresh = folder.path().join("fresh.conf");
    replace_file(&fresh, b"x").unwrap();
    assert_eq!(std::fs::metadata(&fresh).unwrap().permissions().mode() & 0o777, 0o600);
    // Relative paths start at the given folder.
    let from = FilesFrom(folder.path().to_owned());
    assert_eq!(from.read(Path::new("real.conf"), 100).unwrap(), b"new");
    assert_eq!(from.matching("r*.conf").unwrap(), [real]);
}

/// Returns the number of cases of an expensive property: `cases`, or `PROPTEST_CASES` if that is set.
fn cases(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_set = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if is_set { default.cases } else { cases }, ..default }
}

/// Returns a value for a directive: the built-in one, or another.
fn change_of(row: &'static Directive) -> BoxedStrategy<(String, String)> {
    let value: BoxedStrategy<String> = match row.name {
        "client-output-buffer-limit" => {
            let group = ("normal|replica|slave|pubsub", 0u32..2000, 0u32..2000, 0u32..100);
            group.prop_map(|(class, hard, soft, s)| format!("{class} {hard}kb {soft} {s}")).boxed()
        }
        "requirepass" => "[ -~äñ\t\"'\\\\#]{0,20}".boxed(),
        name if name.starts_with("tls-") && (name.ends_with("-file") || name.ends_with("-dir")) => {
            "[ -~ä\"'\\\\#]{0,20}".boxed()
        }
        "proto-max-bulk-len" | "client-query-buffer-limit" => "([1-9]|[1-9][0-9])(mb|gb|MB)".boxed(),
        "loglevel" => "debug|verbose|notice|warning|nothing".boxed(),
        "tls-auth-clients" => "yes|no|optional".boxed(),
        "tls-auth-clients-user" => "off|CN|cn".boxed(),
        "tls-protocols" => "|TLSv1[.]2|TLSv1[.]3|tlsv1[.]3 TLSv1[.]2".boxed(),
        "tls-ciphers" => "|DEFAULT:!MEDIUM|ECDHE-RSA-AES128-GCM-SHA256(:ECDHE-RSA-CHACHA20-POLY1305)?".boxed(),
        "tls-ciphersuites" => "|TLS_AES_256_GCM_SHA384(:TLS_AES_128_GCM_SHA256)?".boxed(),
        "protected-mode" => "yes|no|guarded".boxed(),
        "tls-prefer-server-ciphers" | "tls-session-caching" | "sequence-delete" => "yes|no".boxed(),
        "http-open" => "|probes|metrics|metrics probes".boxed(),
        // The value needs generators of these names.
        "http-ready" => Just(String::new()).boxed(),
        "announce-peers" => "|Ids-1|10[.]1[.]0[.]7:[1-9][0-9]{3} \\[FD00::7\\]".boxed(),
        "http-host" => "|[a-z0-9.-]{1,9}|[A-Za-z_]{1,9} 192[.]0[.]2[.]1".boxed(),
        "id-borrow-policy" | "sequence-policy" => "wait|error".boxed(),
        "sequence-create" => "explicit|on-first-use".boxed(),
        "id-max-wait-ms" => (100u32..=9000).prop_map(|ms| ms.to_string()).boxed(),
        "id-watermark-lead-ms" => (100u32..=3000).prop_map(|ms| ms.to_string()).boxed(),
        "id-max-borrow-ms" => (3000u32..=9000).prop_map(|ms| ms.to_string()).boxed(),
        _ => (1u32..=500).prop_map(|number| number.to_string()).boxed(),
    };
    value.prop_map(|value| (row.name.to_owned(), value)).boxed()
}

fn changes() -> impl Strategy<Value = Vec<(String, String)>> {
    let rows: Vec<_> =
        Directive::ALL.iter().filter(|row| ![ChangeMode::AtStart, ChangeMode::Reload].contains(&row.change)).collect();
    let some = prop::sample::subsequence(rows.clone(), 0..=rows.len()).prop_shuffle();
    some.prop_flat_map(|rows| rows.into_iter().map(change_of).collect::<Vec<_>>())
}

fn file_text(toml: bool) -> impl Strategy<Value = String> {
    let of = move |(name, value): (String, String)| {
        if toml {
            format!("{name} = {}", serde_json::to_string(&value).unwrap())
        } else {
            format!("{name} {}", getid_config::quote(value.as_bytes()))
        }
    };
    let line = changes().prop_map(move |changes| changes.into_iter().map(of).collect::<Vec<_>>());
    let noise = prop::collection::vec(prop_oneof![Just(String::new()), "# [a-z ]{0,12}"], 0..6);
    (line, noise).prop_map(|(lines, noise)| {
        let mut all = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            all.extend(noise.get(index).cloned());
            all.push(line);
        }
        all.join("\n") + "\n"
    })
}

fn rewrites(path: &'static str, text: &str, change: &[(String, String)]) {
    let change: Vec<_> = change.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let got = rewritten(path, &files(&[(path, text)]), &[], &change);
    let comments =
        |text: &str| text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    let mut kept = comments(&got);
    kept.retain(|line| line != "# Generated by CONFIG REWRITE");
    assert_eq!(kept, comments(text));
    // The remaining lines keep their order.
    let name = |line: &str| line.split([' ', '=']).next().unwrap().to_owned();
    let names = |text: &str| {
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(name).collect::<Vec<_>>()
    };
    let before = names(text);
    let after: Vec<_> = names(&got).into_iter().filter(|name| before.contains(name)).collect();
    let mut first_seen: Vec<_> = Vec::new();
    for name in before {
        if !first_seen.contains(&name) {
            first_seen.push(name);
        }
    }
    let mut after_seen: Vec<_> = Vec::new();
    for name in after {
        if !after_seen.contains(&name) {
            after_seen.push(name);
        }
    }
    assert_eq!(after_seen, first_seen);
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_rewritten_conf_file_gives_what_was_in_force(text in file_text(false), change in changes()) {
        rewrites("t.conf", &text, &change);
    }
}

// Each case reads and writes several documents.
proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn a_rewritten_toml_file_gives_what_was_in_force(text in file_text(true), change in changes()) {
        rewrites("t.toml", &text, &change);
    }
}

/// A declaration without its name: kind, fields, options.
type Words = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const DECLARED: [Words; 8] = [
    ("nanoid", "", &[("alphabet", "base58"), ("length", "12"), ("prefix", "n-")]),
    ("uuid7", "", &[]),
    ("leaf", "", &[("format", "hex"), ("prefix", "a#;")]),
    ("layout", "time:41@1ms a:1 server-id:2 counter:7", &[("counter-start", "0..9"), ("a", "1")]),
    ("sequence", "", &[("pad", "7")]),
    ("serial", "INV#{yyyyMM}-{n:6}", &[("zone", "Asia/Shanghai"), ("overflow", "grow")]),
    ("serial", "FY{fiscal-year}-{n:6}", &[("zone", "UTC"), ("fiscal-start", "04-06"), ("fiscal-name", "end")]),
    ("redis-lua", "shard:10?", &[("one-server", "0"), ("epoch", "2016-01-01T00:00:00+08:00")]),
];

fn some_generators() -> impl Strategy<Value = BTreeMap<String, Words>> {
    prop::collection::btree_map("[a-c][.:]?", prop::sample::select(DECLARED.to_vec()), 0..5)
}

/// Returns the declarations in the style of a redis.conf, or in one of three TOML styles.
fn generators_text(generators: &BTreeMap<String, Words>, style: usize) -> String {
    let mut text = ["", "[generator]\n", "generator = [\n", ""][style].to_owned();
    for (name, (kind, fields, options)) in generators {
        let options = |between: &str| {
            let pairs = options.iter().map(|(name, value)| format!("{name}{between}{value}"));
            pairs.collect::<Vec<_>>()
        };
        let words = format!("{kind} {fields} {}", options(" ").join(" "));
        let item = match style {
            // A # begins a comment only behind the words.
            0 => format!("# of {name}\ngenerator {name} {words}\n"),
            1 => format!("'{name}' = '{words}' # of {name}\n"),
            2 => format!("'{name} {words}', # of {name}\n"),
            _ => {
                let options = options(" = '").join("'\n");
                let end = if options.is_empty() { "" } else { "'\n" };
                let layout = if *kind == "serial" { "template" } else { "layout" };
                let layout = if *kind == "sequence" { String::new() } else { format!("{layout} = '{fields}'\n") };
                format!("\n# of {name}\n['generator'.'{name}']\n{layout}kind = '{kind}'\n{options}{end}")
            }
        };
        text.push_str(&item);
    }
    text + if style == 2 { "]\n" } else { "" }
}

proptest! {
    #![proptest_config(cases(64))]

    /// The edited file may declare generators in any way; those that stay keep their comments.
    #[test]
    fn rewritten_generators_are_those_in_force(
        in_force in some_generators(),
        edited in some_generators(),
        style in 0_usize..4,
    ) {
        let path = if style == 0 { "t.conf" } else { "t.toml" };
        let all = sources(path, &[], &[]);
        let text = generators_text(&in_force, style);
        let (config, _) = Config::load(&all, &files(&[(path, &text)])).unwrap_or_else(|report| panic!("{report}{text}"));
        prop_assert_eq!(config.generators.len() + config.counters.len(), in_force.len());
        let edited_text = generators_text(&edited, style);
        let again = config.rewritten(Path::new(path), &all, &files(&[(path, &edited_text)])).unwrap();
        let again = String::from_utf8(again.text).unwrap();
        let (reread, _) = Config::load(&all, &files(&[(path, &again)])).unwrap_or_else(|report| panic!("{report}{again}"));
        let by_name = |config: &Config| {
            let mut generators = config.generators.clone();
            generators.sort_by(|one, other| one.name().cmp(other.name()));
            let mut counters = config.counters.clone();
            counters.sort_by(|one, other| one.name().cmp(other.name()));
            (generators, counters)
        };
        prop_assert_eq!(by_name(&reread), by_name(&config), "{}\n{}", edited_text, again);
        for name in in_force.keys().filter(|name| edited.contains_key(*name) && style != 2) {
            let comment = format!("# of {name}\n");
            prop_assert!(again.contains(&comment), "{}\n{}", edited_text, again);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_change_or_an_error(
        known in prop::collection::vec((0..Directive::ALL.len(), prop::collection::vec(any::<u8>(), 0..30)), 0..4),
        any in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..30), prop::collection::vec(any::<u8>(), 0..30)), 0..2),
    ) {
        let known = known.into_iter().map(|(row, value)| (Directive::ALL[row].name.as_bytes().to_vec(), value));
        let change: Vec<SettingPair> = known.chain(any).collect();
        if let Ok(changed) = Config::default().set(&change) {
            prop_assert_eq!(changed.config.set(&change).unwrap().config, changed.config);
        }
    }

    #[test]
    fn any_file_is_rewritten_or_left_alone(text in prop::collection::vec(any::<u8>(), 0..200), toml in any::<bool>()) {
        let path = if toml { "t.toml" } else { "t.conf" };
        let given = Thought([(path, text)].into());
        let _ = Config { hz: 11, ..Config::default() }.rewritten(Path::new(path), &Sources::default(), &given);
    }
}
