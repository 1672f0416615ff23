//! Facts about a server, gathered for [`crate::metrics`].

use std::sync::Arc;

use super::Server;
use super::registry::ConnectionAddr;
use crate::metrics::{ClientFacts, CpuFacts, Facts, Lazy, MemoryFacts, ProcessFacts, TlsFacts};
use getid_core::server::SequenceStatus;
use getid_engine::generators::NamedStatus;
use getid_engine::generators::sequence::BUSIEST_MAX;
use getid_redis::session::Pause;
use getid_system::clock::Clock as _;
use getid_system::usage;

impl Server {
    /// Returns the current facts for INFO.
    pub fn facts(&self) -> Facts<'_> {
        self.facts_with(BUSIEST_MAX)
    }

    /// Returns the current facts, with at most this many sequences one by one.
    pub fn facts_with(&self, sequences_max: usize) -> Facts<'_> {
        let identity = self.issuer().identity();
        let claim = self.claim().map(|claim| claim.status());
        Facts {
            metrics: &self.metrics,
            config: self.config.get(),
            server_id: match &claim {
                Some(claim) => claim.server_id,
                None => Some(identity.server_id),
            },
            claim,
            layout: identity.layout,
            generator: Lazy::new(Box::new(|| self.issuer().status())),
            generators: Lazy::new(Box::new(|| self.named_generators())),
            sequences: Lazy::new(Box::new(move || {
                let mut status = self.generators.sequences()?.status(sequences_max);
                status.busiest.iter_mut().for_each(|(name, status)| self.hide_sealed_values(name, status));
                Some(status)
            })),
            ledgers: Lazy::new(Box::new(|| self.ledgers.all())),
            workers: Lazy::new(Box::new(|| self.workers().map(|own| own.pools()).unwrap_or_default())),
            process: ProcessFacts {
                run_id: &self.process.run_id,
                executable: &self.process.executable,
                config_file: &self.process.config_file,
                tcp_port: self.process.tcp_port,
                wall_unix_us: self.issuer().clock().wall_unix_us(),
            },
            memory: Lazy::new(Box::new(|| MemoryFacts {
                resident_bytes: self.metrics.sample_memory(),
                machine_bytes: usage::machine_memory_bytes(),
            })),
            cpu: Lazy::new(Box::new(|| CpuFacts { own: usage::cpu(), of_children: usage::cpu_of_children() })),
            clients: Lazy::new(Box::new(|| self.client_facts())),
            tls: self.tls_facts(),
            log_lines_dropped: self.log.dropped(),
        }
    }

    /// Removes the values from the status of a sequence that answers with sealed texts: the readers of INFO, metrics
    /// and the status page may not all open them.
    fn hide_sealed_values(&self, name: &str, status: &mut SequenceStatus) {
        let settings = self.settings.get();
        if settings.sealers.answering(name).is_some() && settings.counters.find(name.as_bytes()).is_some() {
            (status.last_given, status.reserved_until) = (None, None);
        }
    }

    /// Returns the status of the sequence that the counter of this name draws from, with its key, as the status page
    /// shows it.
    pub fn shown_counter_status(&self, name: &str) -> Option<(Arc<str>, SequenceStatus)> {
        let (key, mut status) = self.generators.counter_status(name)?;
        self.hide_sealed_values(name, &mut status);
        Some((key, status))
    }

    /// Returns the status of the named generators.
    pub fn named_generators(&self) -> Vec<NamedStatus> {
        self.generators.named()
    }

    /// Returns the status of the generators with these names; `None` for an unknown name.
    pub fn generators_named(&self, names: &[String]) -> Vec<Option<NamedStatus>> {
        self.generators.of_names(names)
    }

    fn client_facts(&self) -> ClientFacts {
        let clients = self.clients.all();
        ClientFacts {
            connected: self.clients.len(),
            max: self.clients_max(),
            on_unix_socket: clients.iter().filter(|client| matches!(client.peer, ConnectionAddr::Unix(_))).count(),
            waiting: self.clients.waiting(),
            input_bytes_max: clients.iter().map(|client| client.input_bytes()).max().unwrap_or(0),
            output_bytes_max: clients.iter().map(|client| client.output_bytes()).max().unwrap_or(0),
            held_bytes: self.clients.held_bytes(),
            held_bytes_max: self.clients.held_bytes_max(),
            monitors: self.monitors.count(),
            monitors_dropped: self.monitors.dropped(),
            pause: self.pauses.remaining().map(|(pause, left_ms)| match pause {
                Pause::Write => ("write", left_ms),
                Pause::All => ("all", left_ms),
            }),
        }
    }

    fn tls_facts(&self) -> TlsFacts {
        let under_way = self.handshakes.count();
        let Some(tls) = &self.tls else { return TlsFacts { under_way, ..TlsFacts::default() } };
        TlsFacts {
            handshakes: tls.handshakes(),
            failures: tls.failures(),
            resumed: tls.resumed(),
            under_way,
            ends_s: tls.ends_s(),
        }
    }
}
