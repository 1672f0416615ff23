//! The crate `fred`, with its defaults (RESP2), and with RESP3.

use fred::error::{Error, ErrorKind};
use fred::prelude::*;
use fred::rustls::pki_types::CertificateDer;
use fred::rustls::pki_types::pem::PemObject;
use fred::rustls::{ClientConfig, RootCertStore};
use fred::types::client::ClientKillFilter;
use fred::types::config::TlsConnector;
use fred::types::{CustomCommand, RespVersion};

use crate::{EACH, POOL, ascending, distinct, exact, port, variable};

/// Returns a command that fred does not know, by its name and without a key.
fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, None::<u16>, false)
}

async fn id(client: &impl ClientLike) -> Result<i64, Error> {
    client.custom(command("GETID"), Vec::<String>::new()).await
}

async fn mgetid(client: &impl ClientLike, count: &str) -> Result<Vec<i64>, Error> {
    client.custom(command("MGETID"), vec![count.to_owned()]).await
}

fn builder(port_name: &str, version: RespVersion) -> Builder {
    let config =
        Config { server: ServerConfig::new_centralized("127.0.0.1", port(port_name)), version, ..Config::default() };
    Builder::from_config(config)
}

/// Returns a connected client.
async fn open(builder: &Builder) -> Result<Client, Error> {
    let client = builder.build()?;
    client.init().await?;
    Ok(client)
}

#[track_caller]
fn is_refused<T>(result: Result<T, Error>, text: &str) {
    let error = result.err().expect("an error");
    assert!(error.details().contains(text), "{error:?}");
}

async fn thousand(client: &Client) -> i64 {
    let pipeline = client.pipeline();
    for _ in 0..1000 {
        let _: () = pipeline.custom(command("GETID"), Vec::<String>::new()).await.expect("queued");
    }
    let ids: Vec<i64> = pipeline.all().await.expect("IDs");
    assert_eq!(ids.len(), 1000);
    ascending(&ids, -1);
    ids[999]
}

pub async fn check(name: &str, version: RespVersion) {
    let plain = builder("MATRIX_PORT", version.clone());
    match name {
        "connect" => {
            let mut third = plain.clone();
            third.with_config(|config| config.database = Some(3));
            let client = open(&third).await.expect("connected");
            assert_eq!(client.ping::<String>(None).await.expect("a reply"), "PONG");
            let _: () = client.client_setname("matrix").await.expect("OK");
            let me: String = client.client_info().await.expect("a text");
            let resp = if version == RespVersion::RESP3 { "resp=3" } else { "resp=2" };
            for field in ["name=matrix", "db=3", resp] {
                assert!(me.contains(field), "no {field}: {me}");
            }
            let listed = client.client_list::<String, String>(None, None).await.expect("a text");
            assert!(listed.contains("name=matrix"));
            client.quit().await.expect("closed");
        }
        "getid" => {
            let client = open(&plain).await.expect("connected");
            let mut ids = Vec::new();
            for _ in 0..1024 {
                ids.push(id(&client).await.expect("an ID"));
            }
            ascending(&ids, -1);
            exact(&ids);
        }
        "mgetid" => {
            let client = open(&plain).await.expect("connected");
            let last = id(&client).await.expect("an ID");
            let many = mgetid(&client, "100").await.expect("IDs");
            assert_eq!(many.len(), 100);
            ascending(&many, last);
        }
        "error" => {
            let client = open(&plain).await.expect("connected");
            let before: i64 = client.client_id().await.expect("an integer");
            is_refused(mgetid(&client, "101").await, "ERR parameters error! argv[1] = 101");
            is_refused(mgetid(&client, "x").await, "ERR value is not an integer or out of range");
            let unknown: Result<(), Error> = client.custom(command("NOSUCH"), Vec::<String>::new()).await;
            is_refused(unknown, "ERR unknown command 'NOSUCH'");
            assert!(id(&client).await.expect("an ID") > 0);
            assert_eq!(client.client_id::<i64>().await.expect("an integer"), before, "the connection was not kept");
        }
        "pipeline" => {
            let client = open(&plain).await.expect("connected");
            let last = thousand(&client).await;
            // A failed command has an error in its place, and the others are answered.
            let mixed = client.pipeline();
            for (name, words) in [("GETID", vec![]), ("MGETID", vec!["0"]), ("GETID", vec![])] {
                let _: () = mixed.custom(command(name), words).await.expect("queued");
            }
            let mut replies = mixed.try_all::<i64>().await;
            assert_eq!(replies.len(), 3);
            is_refused(replies.remove(1), "argv[1] = 0");
            let ids: Vec<i64> = replies.into_iter().map(|reply| reply.expect("an ID")).collect();
            ascending(&ids, last);
        }
        "multi" => {
            let client = open(&plain).await.expect("connected");
            let transaction = client.multi();
            for _ in 0..1000 {
                let _: () = transaction.custom(command("GETID"), Vec::<String>::new()).await.expect("queued");
            }
            let ids: Vec<i64> = transaction.exec(true).await.expect("IDs");
            assert_eq!(ids.len(), 1000);
            ascending(&ids, -1);
            // A command that cannot be queued aborts the transaction.
            let broken = client.multi();
            let _: () = broken.custom(command("GETID"), Vec::<String>::new()).await.expect("queued");
            let _: () = broken.custom(command("MGETID"), Vec::<String>::new()).await.expect("queued");
            let result: Result<Vec<i64>, Error> = broken.exec(true).await;
            is_refused(result, "wrong number of arguments");
            ascending(&[id(&client).await.expect("an ID")], ids[999]);
        }
        "pool" => {
            let pool = plain.build_pool(POOL).expect("a pool");
            pool.init().await.expect("connected");
            let tasks: Vec<_> = pool
                .clients()
                .iter()
                .cloned()
                .map(|client| {
                    tokio::spawn(async move {
                        let mut ids = Vec::new();
                        for _ in 0..EACH {
                            ids.push(id(&client).await.expect("an ID"));
                        }
                        ids
                    })
                })
                .collect();
            assert_eq!(tasks.len(), POOL);
            let mut drawn = Vec::new();
            for task in tasks {
                drawn.push(task.await.expect("drawn"));
            }
            distinct(&drawn);
            pool.quit().await.expect("closed");
        }
        "reconnect" => {
            // With a policy the client reconnects automatically, by default one second between two attempts.
            let mut patient = plain.clone();
            patient.set_policy(ReconnectPolicy::default());
            let (client, other) = (open(&patient).await.expect("connected"), open(&plain).await.expect("connected"));
            let before: i64 = client.client_id().await.expect("an integer");
            let last = id(&client).await.expect("an ID");
            let killed: i64 = other.client_kill(vec![ClientKillFilter::ID(before.to_string())]).await.expect("a count");
            assert_eq!(killed, 1);
            ascending(&[id(&client).await.expect("reconnected")], last);
            assert_ne!(client.client_id::<i64>().await.expect("an integer"), before);
        }
        "password" => {
            let with = |username: Option<&str>, password: Option<&str>| {
                let mut builder = builder("MATRIX_PASSWORD_PORT", version.clone());
                builder.with_config(|config| {
                    config.username = username.map(str::to_owned);
                    config.password = password.map(str::to_owned);
                });
                builder
            };
            for builder in [with(None, Some("wrong")), with(Some("default"), Some("wrong")), with(None, None)] {
                let error = match open(&builder).await {
                    Err(error) => error,
                    Ok(client) => id(&client).await.expect_err("it has no right to an ID"),
                };
                assert_eq!(error.kind(), &ErrorKind::Auth, "{error:?}");
            }
            let password = variable("MATRIX_PASSWORD");
            for builder in [with(None, Some(&password)), with(Some("default"), Some(&password))] {
                let client = open(&builder).await.expect("connected");
                assert!(id(&client).await.expect("an ID") > 0);
            }
        }
        "tls" => {
            let with = |roots: RootCertStore| {
                let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
                let mut builder = builder("MATRIX_TLS_PORT", version.clone());
                builder.with_config(|whole| whole.tls = Some(TlsConnector::from(config).into()));
                builder
            };
            let mut roots = RootCertStore::empty();
            let authority = CertificateDer::from_pem_file(variable("MATRIX_CA")).expect("the file of authorities");
            roots.add(authority).expect("a certificate");
            thousand(&open(&with(roots)).await.expect("connected")).await;
            let error = open(&with(RootCertStore::empty())).await.expect_err("an unknown authority");
            assert!(error.to_string().contains("ertificate"), "{error:?}");
        }
        other => panic!("no such check: {other}"),
    }
}
