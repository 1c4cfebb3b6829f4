//! What TLS needs beside the URL.

use std::fs;
use std::path::{Path, PathBuf};

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};
use rlock_client::Builder;

use crate::args::TlsArgs;
use crate::error::Error;

/// The authorities to trust in place of the platform's, and the certificate and key of this client; all in PEM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Certificates {
    roots: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// Reads the files.
    pub(crate) fn read(arguments: &TlsArgs) -> Result<Certificates, Error> {
        let file = |path: &Option<PathBuf>| path.as_deref().map(content).transpose();
        let client = file(&arguments.cert)?.zip(file(&arguments.key)?);
        Ok(Certificates { roots: file(&arguments.cacert)?, client })
    }

    /// The settings with these certificates.
    pub(super) fn on(&self, info: ConnectionInfo) -> Result<ConnectionInfo, Error> {
        if self.roots.is_none() && self.client.is_none() {
            return Ok(info);
        }
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            let what = "certificates are for TLS, and the URL has none".to_string();
            return Err(Error::Usage(
                what,
                "write rediss:// in the URL, or leave --cacert, --cert and --key out",
            ));
        }
        let client = self.client.clone();
        let client_tls = client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        let certificates = TlsCertificates { client_tls, root_cert: self.roots.clone() };
        let with = Client::build_with_tls(info, certificates).map_err(|error| {
            let what = format!("the certificates cannot be used: {error}");
            Error::Usage(what, "--cacert, --cert and --key are files in PEM: -----BEGIN …")
        });
        with.map(|client| client.get_connection_info().clone())
    }

    /// A client of the client crate with these certificates.
    pub(super) fn of(&self, builder: Builder) -> Builder {
        let builder = match &self.roots {
            Some(roots) => builder.root_certificates(roots),
            None => builder,
        };
        match &self.client {
            Some((chain, key)) => builder.client_certificate(chain, key),
            None => builder,
        }
    }
}

/// The content of a file that an argument names.
pub(crate) fn content(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|cause| {
        let what = format!("{} cannot be read: {cause}", path.display());
        Error::Usage(what, "correct the path, or the rights of the file")
    })
}
