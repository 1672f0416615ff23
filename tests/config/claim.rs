//! The directives of claims. Single mistakes are in `mistakes/claim-*.conf`.

use getid_config::directive::Directive;
use getid_config::{ClaimConfig, Config, ServerIdSource, Sources};
use getid_text::store_url::{StoreKind, StoreUrl};

use crate::change::{files, sources};

fn load(text: &str, words: &[&str]) -> (Config, Vec<String>) {
    let given = files(&[("t.conf", text), ("p", "hunter2\n")]);
    let (config, warnings) =
        Config::load(&sources("t.conf", &[], words), &given).unwrap_or_else(|report| panic!("{report}"));
    (config, warnings.iter().map(ToString::to_string).collect())
}

fn shown(config: &Config, name: &str) -> String {
    Directive::find(name).unwrap().get(config).unwrap()
}

const STORE: &str = "bind 10.1.0.7\nclaim-store postgres://getid@db/ids?password-file=p\n";

#[test]
fn a_claim_store_is_file_or_an_address() {
    let (config, _) = load("claim-store FILE\n", &[]);
    assert_eq!(config, Config::default());
    let (config, warnings) = load(STORE, &["--claim-timeout-ms", "600000", "--claim-takeover", "ANY"]);
    let ClaimConfig {
        store: Some(store),
        timeout_ms: 600_000,
        takes_any: true,
        max_clock_ahead_ms: 60_000,
        instance_name: None,
    } = &config.claim
    else {
        panic!("{:?}", config.claim)
    };
    let StoreKind::Postgres(server) = store.kind() else { panic!("{store:?}") };
    assert_eq!(server.password.as_deref(), Some("hunter2"));
    assert_eq!(shown(&config, "claim-store"), "postgres://getid@db/ids?password-file=p");
    assert!(!format!("{config:?}").contains("hunter2"));
    // The timeout would permit IDs for 450 s, but the watermark is 3 s ahead.
    assert!(warnings.len() == 1 && warnings[0].contains("450000 ms"), "{warnings:?}");
    let long = ["--claim-timeout-ms", "60000", "--id-watermark-lead-ms", "45000", "--id-max-borrow-ms", "45000"];
    assert_eq!(load(STORE, &long).1, [""; 0]);
}

#[test]
fn a_password_of_a_claim_store_is_hidden() {
    let (config, warnings) = load("", &["--bind", "10.1.0.7", "--claim-store", "mysql://a:hunter2@h/b?tls=no"]);
    assert!(warnings.len() == 2 && !warnings.concat().contains("hunter"), "{warnings:?}");
    assert!(
        warnings.concat().contains("GETID_CLAIM_STORE") && warnings.concat().contains("has tls=no"),
        "{warnings:?}"
    );
    let value = shown(&config, "claim-store");
    assert_eq!(getid_config::secrets::hidden(b"claim-store", value), "mysql://a:***@h/b?tls=no");
}

#[test]
fn claim_directives_without_a_store_cause_warnings() {
    let (_, warnings) =
        load("claim-timeout-ms 5000\nclaim-takeover any\nclaim-max-clock-ahead-ms 0\ninstance-name a\n", &[]);
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(warnings.iter().all(|warning| warning.ends_with("has no effect: claim-store is file")), "{warnings:?}");
}

#[test]
fn server_id_auto_is_a_free_number() {
    for text in ["server-id auto\n", "server-id AUTO\n", "id-generator server-id auto id-range 10 shard-range 1\n"] {
        let (config, warnings) = load(&format!("{STORE}{text}"), &[]);
        assert_eq!(warnings, [""; 0]);
        assert!(config.server_id_auto() && config.server_id == 0);
        assert_eq!(shown(&config, "server-id"), "auto");
        assert!(shown(&config, "id-generator").starts_with("server-id auto id-range "));
        // The last line counts.
        let (config, _) = load(&format!("{STORE}{text}server-id 1\n"), &[]);
        assert!(!config.server_id_auto() && config.server_id == 1);
    }
    let given = files(&[("t.toml", "claim-store = \"sqlite:claims.db\"\nserver-id = \"auto\"\n")]);
    let all = sources("t.toml", &[], &[]);
    let (config, _) = Config::load(&all, &given).unwrap();
    assert_eq!((config.server_id_auto(), config.shown_server_id()), (true, "auto".to_owned()));
    let rewritten =
        config.rewritten("t.toml".as_ref(), &sources("t.toml", &[], &[]), &files(&[("t.toml", "")])).unwrap();
    let text = String::from_utf8(rewritten.text).unwrap();
    assert!(text.contains("server-id = \"auto\"\n") && text.contains("claim-store = \"sqlite:claims.db\"\n"), "{text}");
}

/// The file in `dir` does not move when another machine takes the claim over, so its sequences would start again at 1.
#[test]
fn sequences_are_in_no_file_of_the_machine_unless_configured() {
    let stores =
        |config: &Config| config.sequence_stores().iter().map(StoreUrl::text).map(str::to_owned).collect::<Vec<_>>();
    let (config, _) = load(STORE, &[]);
    assert_eq!(stores(&config), [""; 0]);
    let (config, warnings) = load(STORE, &["--sequence-store", "sqlite:a.db"]);
    assert_eq!(stores(&config), ["sqlite:a.db"]);
    assert!(warnings.len() == 1 && warnings[0].contains("is a file of this machine"), "{warnings:?}");
    // Servers of one machine may share both.
    let (_, warnings) = load("claim-store sqlite:c.db\nsequence-store sqlite:a.db\n", &[]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn a_name_is_one_that_a_host_may_have() {
    let (config, _) = load(STORE, &["--instance-name", "ids-1.example_com"]);
    assert_eq!(config.claim.instance_name.as_deref(), Some("ids-1.example_com"));
    assert_eq!(load(STORE, &["--instance-name", ""]).0.claim.instance_name, None);
    let longest = "a".repeat(253);
    assert_eq!(load(STORE, &["--instance-name", &longest]).0.claim.instance_name, Some(longest));
    let too_long = format!("{STORE}instance-name {}\n", "a".repeat(254));
    let given = files(&[("t.conf", &too_long), ("p", "x\n")]);
    let report = Config::load(&sources("t.conf", &[], &[]), &given).unwrap_err().to_string();
    assert!(report.contains("must have at most 253 letters"), "{report}");
}

/// Loads the configuration on a host of this name.
fn on_host(name: &str, text: &str, words: &[&str]) -> Result<Config, String> {
    let sources = Sources { host_name: Some(name.to_owned()), ..sources("t.conf", &[], words) };
    Config::load(&sources, &files(&[("t.conf", text), ("p", "hunter2\n")]))
        .map(|(config, _)| config)
        .map_err(|report| report.to_string())
}

#[test]
fn a_server_id_may_be_the_number_of_its_pod() {
    let (auto, line) = ("server-id auto-ordinal\n", "id-generator server-id AUTO-ORDINAL id-range 2\n");
    for text in [auto.to_owned(), line.to_owned(), format!("{STORE}{auto}")] {
        let config = on_host("getid-3", &text, &[]).unwrap();
        assert_eq!((config.server_id, config.server_id_from), (3, ServerIdSource::HostName));
        assert_eq!(shown(&config, "server-id"), "3");
        assert!(shown(&config, "id-generator").starts_with("server-id 3 id-range "));
        // A stronger source has precedence, in both directions.
        assert_eq!(on_host("getid-3", &text, &["--server-id", "1"]).unwrap().server_id, 1);
        assert_eq!(on_host("getid-3", "server-id 1", &["--server-id", "auto-ordinal"]).unwrap().server_id, 3);
    }
    // A tool that needs no number needs no host name.
    let (config, _) = load(auto, &[]);
    assert_eq!((config.server_id, config.shown_server_id()), (0, "auto-ordinal".to_owned()));
    assert!(!config.server_id_from.is_known());
}

#[test]
fn a_host_name_without_a_number_or_with_one_too_large_is_refused() {
    let refused = |name: &str| on_host(name, "port 1\nserver-id auto-ordinal\n", &[]).unwrap_err();
    let place = "Reading the configuration file, at line 2\n>>> 'server-id auto-ordinal'\nt.conf:2: ";
    let report = refused("getid");
    assert!(
        report.contains(&format!(
            "{place}server-id is auto-ordinal, but the host name is 'getid'; must end in a dash and a number, as in getid-3"
        )) && report.contains("run it in a StatefulSet"),
        "{report}"
    );
    for name in ["getid-4", "getid-2097152", "getid-99999999999999999999"] {
        let report = refused(name);
        assert!(
            report.contains(&format!(
                "{place}server-id is auto-ordinal, and the host name is '{name}'; the number at its end must be 0 to 3: \
                 id-range is 2"
            )) && report.contains("run fewer replicas"),
            "{report}"
        );
    }
    // One mistake, one line.
    assert!(!refused("getid-4").contains("errors"), "{}", refused("getid-4"));
}

/// The number of one pod must not get into a file that all pods may share.
#[test]
fn a_rewritten_file_keeps_the_word_for_the_number() {
    for (path, text) in [("t.conf", "server-id auto-ordinal\n"), ("t.toml", "server-id = \"auto-ordinal\"\n")] {
        let given = files(&[(path, text)]);
        let all = Sources { host_name: Some("getid-2".to_owned()), ..sources(path, &[], &[]) };
        let (config, _) = Config::load(&all, &given).unwrap();
        let rewritten = config.rewritten(path.as_ref(), &all, &given).unwrap();
        assert_eq!((String::from_utf8(rewritten.text).unwrap().as_str(), rewritten.overridden.len()), (text, 0));
        let reloaded = config.reloaded(&all, &given).unwrap();
        assert_eq!((reloaded.config.server_id, reloaded.kept.len()), (2, 0));
    }
}
