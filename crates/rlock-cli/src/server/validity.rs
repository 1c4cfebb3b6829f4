//! When the certificate of a server ends: before that day nothing else shows it.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::ConnectionAddr;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use super::link::Link;
use super::target::Target;

/// How long each step of the look may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The year 10000, which no certificate reaches, in seconds since 1970.
const AFTER_ALL: Duration = Duration::from_secs(253_402_300_800);

/// How long the certificate of a server is valid still; `None` without TLS, or where it shows none that can be read.
pub(crate) fn certificate_left(link: &Link) -> Option<Duration> {
    let end = shown_by(link.target()).as_ref().and_then(end_of)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(end.saturating_sub(now))
}

/// The end of a certificate, since 1970. Its validity is checked before its issuer, which is unknown here.
fn end_of(certificate: &CertificateDer<'_>) -> Option<Duration> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let then = UnixTime::since_unix_epoch(AFTER_ALL);
    let checked = verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &RootCertStore::empty(),
        &[],
        then,
        algorithms().all,
    );
    match checked {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

/// The certificate that a server shows. The connection ends there: it is trusted with nothing.
fn shown_by(target: &Target) -> Option<CertificateDer<'static>> {
    let ConnectionAddr::TcpTls { host, port, .. } = target.connection_address() else { return None };
    let address = (host.as_str(), *port).to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let onlooker = Arc::new(Onlooker::default());
    let config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(onlooker.clone())
        .with_no_client_auth();
    let name = ServerName::try_from(host.clone()).ok()?;
    let mut connection = ClientConnection::new(Arc::new(config), name).ok()?;
    // It fails as soon as the certificate is seen.
    let _ = connection.complete_io(&mut stream);
    onlooker.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Sees a certificate, and refuses it.
#[derive(Debug, Default)]
struct Onlooker {
    seen: Mutex<Option<CertificateDer<'static>>>,
}

fn refused() -> Error {
    Error::General("the certificate was only read".to_string())
}

impl ServerCertVerifier for Onlooker {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let seen = Some(certificate.clone().into_owned());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Err(refused())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(refused())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(refused())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
