//! The files of `examples/fleet`: what they set is a configuration that a server starts with, and what they probe is
//! there. `HAProxy` itself is tried in `tests/fleet`; no test has Kubernetes or Envoy.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use getid::config::directive::Directive;
use getid::config::{Config, Files, Sources};

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fleet").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where the examples mount the claim store's password.
struct Mounted;

impl Files for Mounted {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        let is_password = path == Path::new("/run/getid/password");
        if is_password { Ok(b"secret\n".to_vec()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn matching(&self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// The variables that a file sets, with what Kubernetes puts in from the pod.
fn variables(text: &str) -> Vec<(String, String)> {
    let of_pod = [("metadata.labels['apps.kubernetes.io/pod-index']", "2"), ("metadata.name", "getid-2")];
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some((_, rest)) = line.split_once("name: GETID_") {
            let (name, value) = rest.split_once(", value: ").unwrap_or((rest, ""));
            let value = value.trim_end_matches(" }").trim_matches('"');
            found.push((format!("GETID_{}", name.trim()), value.to_owned()));
        } else if let Some((_, path)) = line.split_once("fieldPath: ") {
            let path = path.trim_end_matches([' ', '}']).trim_matches('"');
            let value = of_pod.iter().find(|(known, _)| *known == path);
            let value = value.unwrap_or_else(|| panic!("{path}")).1;
            value.clone_into(&mut found.last_mut().expect("a name").1);
        } else if let Some(value) = line.trim_start().strip_prefix("value: ") {
            let last = found.last_mut().expect("a name");
            assert!(last.1.is_empty(), "{line}");
            value.trim_matches('"').clone_into(&mut last.1);
        }
    }
    found
}

#[test]
#[cfg(all(feature = "fleet", feature = "postgres"))]
fn what_kubernetes_sets_is_a_configuration() {
    for (name, is_auto) in [("kubernetes/statefulset.yaml", false), ("kubernetes/deployment-auto.yaml", true)] {
        let text = read(name);
        let variables = variables(&text);
        assert!(variables.len() >= 6 && variables.iter().all(|(_, value)| !value.is_empty()), "{name}: {variables:?}");
        let environment = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        // The image has the rest.
        let image = [("GETID_HTTP_PORT", "7880")].map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let sources = Sources { environment: environment.chain(image).collect(), ..Sources::default() };
        let (config, warnings) = Config::load(&sources, &Mounted).unwrap_or_else(|report| panic!("{name}: {report}"));
        assert_eq!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0], "{name}");
        assert!(config.claim.store.is_some() && config.server_id_auto == is_auto, "{name}");
        assert_eq!(config.claim.instance_name.as_deref(), Some("getid-2"), "{name}");
        assert_eq!(config.server_id, if is_auto { 0 } else { 2 }, "{name}");
        // As many servers as there are server-ids for.
        let replicas = text.lines().find_map(|line| line.trim().strip_prefix("replicas: ")).expect("replicas");
        assert!(replicas.parse::<u64>().unwrap() <= 1 << config.layout.server_bits(), "{name}");
        let grace_s = text.lines().find_map(|line| line.trim().strip_prefix("terminationGracePeriodSeconds: "));
        assert!(grace_s.unwrap().parse::<u64>().unwrap() > config.shutdown_timeout_s, "{name}");
    }
}

#[test]
fn ports_and_probes_are_the_servers() {
    let port = Directive::find("port").expect("the directive").default;
    for name in ["kubernetes/statefulset.yaml", "kubernetes/deployment-auto.yaml"] {
        let text = read(name);
        for line in [
            &format!("{{ name: redis, port: {port} }}"),
            &format!("{{ name: redis, containerPort: {port} }}"),
            "{ name: http, port: 7880 }",
            "{ name: http, containerPort: 7880 }",
            "readinessProbe: { httpGet: { path: /readyz, port: http }",
            "livenessProbe: { httpGet: { path: /livez, port: http }",
        ] {
            assert!(text.contains(line), "{name}: {line}");
        }
        // Somebody has to be able to reach it, and a pod to be told its name.
        assert!(text.contains("GETID_BIND, value: \"*\"") && text.contains("GETID_HTTP_BIND, value: \"*\""), "{name}");
    }
    for (name, probe) in [("haproxy.cfg", "httpchk GET /readyz"), ("envoy.yaml", "http_health_check: { path: /readyz")]
    {
        let text = read(name);
        for part in [probe, port, "7891", "7880", "7881", "7899"] {
            assert!(text.contains(part), "{name}: {part}");
        }
    }
}
