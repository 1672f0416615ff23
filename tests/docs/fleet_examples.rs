//! The files of `examples/fleet`. `tests/fleet` runs HAProxy; no test runs Envoy.

use std::path::Path;

use getid_config::directive::Directive;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fleet").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn ports_and_probes_are_the_servers() {
    let port = Directive::find("port").expect("the directive").default;
    for (name, probe) in [("haproxy.cfg", "httpchk GET /readyz"), ("envoy.yaml", "http_health_check: { path: /readyz")]
    {
        let text = read(name);
        for part in [probe, port, "7891", "7880", "7881", "7899"] {
            assert!(text.contains(part), "{name}: {part}");
        }
    }
}
