//! Encrypted connections to the database.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use heartline_engines::Postgres;
use heartline_runtime::{Clock, Random};

use super::scratch::{ask, group, send};
use crate::postgres::{PostgresConfig, PostgresStore};

/// The certificates of one test, removed on drop.
struct Certificates(PathBuf);

impl Certificates {
    fn new() -> Self {
        let name = format!("heartline-certificates-{:032x}", Random::system().draw::<u128>());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn openssl(&self, arguments: &str) {
        let mut openssl = Command::new("openssl");
        let output = openssl.current_dir(&self.0).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Creates a certificate authority.
    fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -subj /CN={name} -keyout {name}.key -out {name}.pem \
             -addext basicConstraints=critical,CA:TRUE"
        ));
    }

    /// Creates a server certificate that an authority has signed.
    fn server(&self, authority: &str, name: &str, subject: &str) {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} \
             -keyout {name}.key -out {name}.csr"
        ));
        fs::write(self.0.join("extensions"), format!("subjectAltName={subject}\n")).unwrap();
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -days 2 \
             -CAcreateserial -extfile extensions -out {name}.pem"
        ));
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.join(file)).unwrap()
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn open(url: &str) -> Result<PostgresStore, String> {
    let config = PostgresConfig::from_url(url).unwrap();
    PostgresStore::open(&config, Clock::system(), Random::system())
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn connections_are_encrypted_and_the_server_is_verified() {
    let certificates = Certificates::new();
    certificates.authority("ours");
    certificates.authority("theirs");
    certificates.server("ours", "server", "DNS:localhost");
    let postgres = Postgres::start();
    let certificate = postgres.put_file("server.pem", &certificates.read("server.pem"));
    let key = postgres.put_file("server.key", &certificates.read("server.key"));
    postgres.restart_with(&[
        ("ssl", "on"),
        ("ssl_cert_file", certificate.to_str().unwrap()),
        ("ssl_key_file", key.to_str().unwrap()),
    ]);
    let port = postgres.port();
    let url = |host: &str, parameters: &str| {
        format!("postgres://postgres@{host}:{port}/postgres?{parameters}")
    };
    let (ours, theirs) = (certificates.path("ours.pem"), certificates.path("theirs.pem"));
    let verified = format!("sslmode=verify-full&sslrootcert={ours}");
    for parameters in ["", "sslmode=require", &verified] {
        let store = open(&url("localhost", parameters)).await.unwrap();
        let is_encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert!(ask::<bool>(&store, is_encrypted).await, "{parameters}");
        let chat_id = group(&store, "ana", &[]).await;
        assert_eq!(send(&store, chat_id, "ana", "m").await.unwrap().message.sequence, 1);
        store.close().await;
    }
    let plain = open(&url("localhost", "sslmode=disable")).await.unwrap();
    let is_encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert!(!ask::<bool>(&plain, is_encrypted).await);

    let by_them = format!("sslmode=verify-full&sslrootcert={theirs}");
    let refused = open(&url("localhost", &by_them)).await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    let refused = open(&url("localhost", "sslmode=verify-full")).await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "browsers do not trust it either: {refused}");
    let refused = open(&url("127.0.0.1", &verified)).await.unwrap_err();
    assert!(refused.contains("not valid for name"), "another name: {refused}");
    let missing = format!("sslmode=verify-full&sslrootcert={ours}.missing");
    let refused = open(&url("localhost", &missing)).await.unwrap_err();
    assert!(refused.contains("sslrootcert=") && refused.contains("cannot be read"), "{refused}");
}
