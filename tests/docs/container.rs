//! Checks `Dockerfile` and `compose.yaml` against the binary. `packaging/checks` builds the image and runs it.

use std::path::Path;
use std::process::Command;

use crate::support::{self, Server, getid};
use getid_config::directive::Directive;

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect(name)
}

/// Returns the Dockerfile's instructions without comments, with continuation lines joined.
fn instructions() -> Vec<String> {
    let text: String =
        read("Dockerfile").lines().filter(|line| !line.starts_with('#')).flat_map(|l| [l, "\n"]).collect();
    text.replace("\\\n", " ").lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// A stage of the Dockerfile: its base, its name, and its instructions.
struct Stage {
    from: String,
    name: String,
    instructions: Vec<String>,
}

impl Stage {
    /// Returns the rest of each instruction that begins with `word`.
    fn all(&self, word: &str) -> Vec<String> {
        self.instructions.iter().filter_map(|line| Some(line.strip_prefix(word)?.trim().to_owned())).collect()
    }

    /// Returns the paths in the build context that the stage copies.
    fn sources(&self) -> Vec<String> {
        let copied = self.all("COPY ");
        let here = copied.iter().filter(|words| !words.starts_with("--from"));
        let paths =
            here.map(|words| words.split_whitespace().filter(|word| !word.starts_with("--")).collect::<Vec<_>>());
        paths.flat_map(|paths| paths[..paths.len() - 1].iter().map(ToString::to_string).collect::<Vec<_>>()).collect()
    }

    /// Returns the paths in the image that the stage copies to.
    fn destinations(&self) -> Vec<String> {
        self.all("COPY ").iter().filter_map(|words| Some(words.split_whitespace().last()?.to_owned())).collect()
    }
}

fn stages() -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    for line in instructions() {
        if let Some(words) = line.strip_prefix("FROM ") {
            let (from, name) = words.split_once(" AS ").unwrap_or((words, ""));
            stages.push(Stage { from: from.to_owned(), name: name.to_owned(), instructions: Vec::new() });
        } else {
            stages.last_mut().expect("a stage").instructions.push(line);
        }
    }
    stages
}

/// Returns the rest of the only instruction in the shared stage `settings` that begins with `word`.
fn the_one(word: &str) -> String {
    let [one] = stages()[0].all(word).try_into().unwrap_or_else(|found: Vec<_>| panic!("{word}: {found:?}"));
    one
}

/// Returns the environment variables that the image sets for the server.
fn variables() -> Vec<(String, String)> {
    let mut rest = the_one("ENV ");
    let mut pairs = Vec::new();
    while let Some((name, behind)) = rest.split_once('=') {
        let name = name.trim().to_owned();
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("a closing quote"),
            None => behind.split_once(' ').unwrap_or((behind, "")),
        };
        pairs.push((name, value.to_owned()));
        rest = behind.trim().to_owned();
    }
    pairs
}

/// Asserts that every `GETID_NAME` in a file is a directive.
fn check_names(file: &str) {
    for name in read(file).split(|char: char| !(char.is_ascii_alphanumeric() || char == '_')) {
        let Some(name) = name.strip_prefix("GETID_") else { continue };
        let directive = name.to_ascii_lowercase().replace('_', "-");
        assert!(name.is_empty() || Directive::find(&directive).is_some(), "{file}: GETID_{name} sets no directive");
    }
}

/// The HTTP port of the image, of compose and of the systemd unit.
const HTTP_PORT: &str = "7880";

#[test]
fn every_variable_sets_a_directive() {
    check_names("Dockerfile");
    check_names("compose.yaml");
    for part in ["base/statefulset.yaml", "overlays/claims/statefulset.yaml", "overlays/auto/deployment.yaml"] {
        check_names(&format!("deploy/kubernetes/{part}"));
    }
}

#[test]
fn the_image_keeps_its_promises_to_operators() {
    // The user is a number: Kubernetes refuses a name if it must check that the user is not root.
    assert_eq!(the_one("USER "), "999:999");
    assert_eq!(the_one("STOPSIGNAL "), "SIGTERM");
    assert_eq!(the_one("ENTRYPOINT "), r#"["getid"]"#);
    // A file mounted over the image's configuration file is read.
    assert_eq!(the_one("CMD [\"serve\""), r#", "/etc/getid/getid.conf"]"#);
    assert!(variables().contains(&("GETID_DIR".to_owned(), "/data".to_owned())));
    let port = Directive::find("port").expect("the directive").default;
    assert_eq!(the_one("EXPOSE "), format!("{port} {HTTP_PORT}"));
    assert!(variables().contains(&("GETID_HTTP_PORT".to_owned(), HTTP_PORT.to_owned())));
    let labels = the_one("LABEL ");
    assert!(labels.contains(&format!("image.version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{labels}");
}

/// The image of a prebuilt program equals the image built from the sources.
#[test]
fn both_ways_make_one_image() {
    let stages = stages();
    let [settings, runtime, build, last] = &stages[..] else { panic!("{} stages", stages.len()) };
    assert_eq!((&*settings.from, &*settings.name), ("scratch", "settings"));
    // This stage comes before the Rust image, so that buildah does not fetch that image for it.
    assert_eq!((&*runtime.from, &*runtime.name), ("settings", "runtime"));
    assert_eq!((&*build.name, &*last.from), ("build", "settings"));
    assert_eq!(runtime.destinations(), last.destinations());
    for image in [runtime, last] {
        assert_eq!(image.all("VOLUME "), ["/data"]);
        assert_eq!(image.all("COPY ").iter().filter(|line| line.contains("--chown=999:999")).count(), 1);
    }
}

#[test]
fn the_build_context_has_the_copied_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ignored = read(".dockerignore");
    for stage in stages() {
        for path in stage.sources() {
            if stage.name == "runtime" {
                assert!(read("packaging/image").contains(&path), "packaging/image does not lay {path} out");
                continue;
            }
            assert!(root.join(&path).exists(), "COPY {path}");
            assert!(ignored.lines().all(|line| !path.starts_with(line)), "{path} is in .dockerignore");
        }
    }
    assert!(stages().iter().any(|stage| stage.sources().iter().any(|path| path == "src")));
}

/// Runs the real binary with the variables of the image, and its health check.
#[test]
fn the_image_serves_on_all_addresses_and_is_healthy() {
    let dir = tempfile::tempdir().expect("a folder");
    let http = support::free_port();
    let with_variables = |command: &mut Command| {
        // The test sets the folder on the command line, and its own HTTP port, because another test may use the
        // image's.
        command.envs(variables().into_iter().filter(|(name, _)| name != "GETID_DIR")).env("GETID_SERVER_ID", "3");
        command.env("GETID_HTTP_PORT", http.to_string());
    };
    // The image's configuration file with an additional line.
    let mounted = dir.path().join("getid.conf");
    std::fs::write(&mounted, read("config/getid.conf") + "\ntimeout 77\n").expect("written");
    let file = ["--config", mounted.to_str().expect("text")];
    let mut server = Server::try_start_in(dir.path(), &file, with_variables).expect("a server");
    assert_eq!(support::config_get(&server, "timeout"), "77");
    // The test sets the port on the command line.
    server.wait_log(" port: not in force: command line (--port ");
    let mut wire = server.connect();
    assert_eq!(wire.id() >> 19 & 3, 3, "GETID_SERVER_ID is in force");
    assert_eq!(wire.info("server_id"), "3");
    wire.send("CONFIG GET protected-mode\r\nCONFIG GET bind\r\n");
    let lines: Vec<String> = (0..10).map(|_| wire.line()).collect();
    assert_eq!(lines[4], "guarded", "{lines:?}");
    assert_eq!(lines[9], "0.0.0.0 -::", "{lines:?}");

    #[cfg(feature = "http")]
    assert_eq!(support::http::Http::connect(http).ask("GET /readyz", &[], "").text(), "ready\n");

    let check = the_one("HEALTHCHECK ");
    let words = check.split_once("CMD ").expect("a command").1;
    assert_eq!(words, r#"["getid", "ping", "--ids"]"#);
    let ping = |port: u16| {
        let status = getid()
            .args(["ping", "--ids"])
            .env("GETID_PORT", port.to_string())
            .output()
            .expect("the program runs")
            .status;
        status.code()
    };
    support::eventually("the server is healthy", || ping(server.port) == Some(0));
    let port = server.port;
    assert!(server.stop().success());
    assert_eq!(ping(port), Some(1));
}

#[test]
fn compose_starts_four_servers_that_differ() {
    let text = read("compose.yaml");
    for id in 0..4 {
        let service = format!("  getid-{id}:\n    <<: *getid\n");
        let (_, behind) = text.split_once(&service).unwrap_or_else(|| panic!("no service getid-{id}"));
        let block: Vec<&str> = behind.lines().take(3).collect();
        assert_eq!(
            block,
            [
                format!(
                    "    environment: {{ GETID_SERVER_ID: \"{id}\", GETID_HTTP_HOST: \"getid-{id}\", GETID_HTTP_OPEN: \
                     \"probes metrics\" }}"
                ),
                format!("    ports: [\"127.0.0.1:{}:7890\", \"127.0.0.1:{}:{HTTP_PORT}\"]", 7890 + id, 7880 + id),
                format!("    volumes: [\"getid-{id}:/data\"]"),
            ]
        );
    }
    assert_eq!(text.matches("GETID_SERVER_ID").count(), 4);

    // A stop must have as much time as the server takes for it.
    let grace = text.lines().find_map(|line| line.trim().strip_prefix("stop_grace_period: ")).expect("a grace period");
    let grace: u64 = grace.trim_end_matches('s').parse().expect("seconds");
    let timeout = Directive::find("shutdown-timeout").expect("the directive").default;
    assert!(grace > timeout.parse().expect("seconds"));
}

/// Checks the files that the service `prometheus` mounts, in one folder.
#[test]
#[ignore = "needs promtool"]
fn compose_has_a_prometheus_that_scrapes_all_servers() {
    let text = read("compose.yaml");
    let (_, service) = text.split_once("\n  prometheus:\n").expect("the service");
    assert!(service.contains("profiles: [\"monitoring\"]"), "{service}");
    let dir = tempfile::tempdir().expect("a folder");
    for line in service.lines().filter_map(|line| line.trim().strip_prefix("- ./")) {
        let (own, there) = line.trim_end_matches(":ro").split_once(":/etc/prometheus/").expect(line);
        std::fs::write(dir.path().join(there), read(own)).expect("written");
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "config"]).arg(dir.path().join("prometheus.yml"));
    let output = promtool.output().expect("promtool is installed (Debian: prometheus)");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 rule files found"), "{output:?}");
    for id in 0..4 {
        assert!(read("examples/prometheus.yml").contains(&format!("\"getid-{id}:{HTTP_PORT}\"")), "getid-{id}");
    }
}

/// GitHub's workflows run the scripts that a contributor runs, and use the names of the release's files.
#[test]
fn github_runs_the_gate_and_makes_the_release() {
    let commands = |name: &str| {
        let text = read(&format!(".github/workflows/{name}.yml"));
        let runs = text.lines().filter_map(|line| line.trim().strip_prefix("- run: ").map(str::to_owned));
        (runs.collect::<Vec<_>>(), text)
    };
    let (gate, _) = commands("ci");
    assert_eq!(gate, [".ci/run"]);
    let (made, text) = commands("release");
    assert_eq!(made, ["packaging/release", "packaging/checks/release"]);
    for script in gate.iter().chain(&made) {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(script).is_file(), "{script}");
    }
    let release = read("packaging/release");
    for (place, word) in [
        ("RELEASE=target/dist/release-$version", "release=target/dist/release-$version"),
        ("release/NOTES.md", "NOTES.md"),
    ] {
        assert!(text.contains(place) && release.contains(word), "{place}");
    }
}
