//! TLS of the exporter.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::file::{Clients, Tls, read, wrong};
use crate::error::Error;

/// Reads the file and those that it names; `None` where it does not ask for TLS.
pub(super) fn acceptor(path: &Path) -> Result<Option<TlsAcceptor>, Error> {
    let Some(tls) = read(path)?.tls else { return Ok(None) };
    let config = config(&tls).map_err(|what| wrong(path, what))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn config(tls: &Tls) -> Result<ServerConfig, String> {
    let chain = certificates(&tls.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unread(&tls.key, "key", &error))?;
    let builder = ServerConfig::builder().with_client_cert_verifier(verifier(&tls.clients)?);
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        format!("{} and {} do not belong together: {error}", tls.certificate.display(), tls.key.display())
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(clients: &Clients) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let (Clients::IfGiven(file) | Clients::Required(file)) = clients else {
        return Ok(Arc::new(NoClientAuth));
    };
    let mut roots = RootCertStore::empty();
    let bad = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| bad(&error))?;
    }
    let mut builder = WebPkiClientVerifier::builder(Arc::new(roots));
    if matches!(clients, Clients::IfGiven(_)) {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map(|verifier| verifier as _).map_err(|error| bad(&error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unread = |error: pem::Error| unread(path, "certificate", &error);
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unread)?.collect();
    match read.map_err(unread)? {
        none if none.is_empty() => Err(unread(pem::Error::NoItemsFound)),
        read => Ok(read),
    }
}

fn unread(path: &Path, what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Io(cause) => format!("{}: {cause}", path.display()),
        pem::Error::NoItemsFound => format!("{} has no {what} in PEM", path.display()),
        other => format!("{}: {other}", path.display()),
    }
}
