//! Whom a connection trusts.
//!
//! The system's roots, where its distribution keeps them, and beside them the certificates that the settings name: a cluster's own
//! authority is in one of the two. `SSL_CERT_FILE` takes the place of the system's roots, as for other programs. Nothing is compiled in,
//! and nothing switches the check off: a server that nobody vouches for can be asked by `http`, where everybody sees that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::small;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Where distributions keep the roots.
const PLACES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
];

/// No connection can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// A file cannot be read.
    #[error("cannot read the certificates in {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds no certificate.
    #[error("{path} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// There are none at all.
    #[error(
        "no roots of trust for https: none of {} is there; install ca-certificates, or name a file by ca_file or SSL_CERT_FILE",
        PLACES.join(", ")
    )]
    None,
}

/// TLS that trusts the system, or `instead` of it, and `beside`.
pub fn config(instead: Option<&Path>, beside: Option<&Path>) -> Result<TlsConfig, RootsError> {
    let mut certificates = Vec::new();
    if let Some(path) = beside {
        certificates.extend(read(path)?);
    }
    if let Some(path) = instead {
        certificates.extend(read(path)?);
    } else if let Some(place) = PLACES.iter().map(Path::new).find(|place| place.exists()) {
        certificates.extend(read(place)?);
    }
    if certificates.is_empty() {
        return Err(RootsError::None);
    }
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .build())
}

fn read(path: &Path) -> Result<Vec<Certificate<'static>>, RootsError> {
    let text = small::bytes(path, small::CERTIFICATES).map_err(|source| RootsError::Read {
        path: path.to_owned(),
        source,
    })?;
    // What is in such a file beside certificates, or damaged, is of no use and does no harm.
    let certificates: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(RootsError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "-----BEGIN NOTHING-----\n").unwrap();
        let error = config(None, Some(&path)).unwrap_err().to_string();
        assert!(error.contains("ca.pem holds no certificate"), "{error}");
        let error = config(Some(&folder.path().join("none.pem")), None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("none.pem"), "{error}");
    }
}
