//! A Prometheus that scrapes servers and evaluates the shipped rules.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::http::Http;
use super::{eventually, folder, free_port};

/// A Prometheus in a temporary folder.
pub struct Prometheus {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Scrapes these targets (job name, port, path), each as a separate job, four times a second.
    pub fn start(jobs: &[(&str, u16, &str)]) -> Prometheus {
        let folder = folder();
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/alerts.yml");
        let mut config = format!(
            "global:\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\n  evaluation_interval: 200ms\n\
             rule_files: ['{}']\nscrape_configs:\n",
            rules.display()
        );
        for (job, port, more) in jobs {
            write!(config, "  - job_name: {job}\n    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n{more}")
                .unwrap();
        }
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let port = free_port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is installed");
        let prometheus = Prometheus { child, port, _folder: folder };
        eventually("Prometheus answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        eventually("Prometheus is ready", || Http::connect(port).ask("GET /-/ready", &[], "").status == 200);
        prometheus
    }

    /// Returns labels and value of each result of a query.
    pub fn query(&self, query: &str) -> Vec<(serde_json::Value, f64)> {
        let encoded: String = query.bytes().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "%{byte:02x}");
            text
        });
        let response = Http::connect(self.port).ask(&format!("GET /api/v1/query?query={encoded}"), &[], "");
        let json = response.json();
        assert_eq!(json["status"], "success", "{query}: {json}");
        let results = json["data"]["result"].as_array().unwrap();
        results.iter().map(|one| (one["metric"].clone(), one["value"][1].as_str().unwrap().parse().unwrap())).collect()
    }

    /// Returns the single value of a query; `None` without one.
    pub fn one(&self, query: &str) -> Option<f64> {
        let results = self.query(query);
        assert!(results.len() < 2, "{query}: {results:?}");
        results.first().map(|(_, value)| *value)
    }
}
