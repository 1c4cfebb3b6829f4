//! The web configuration file: of its keys those that the exporter follows. Another key is an error, not ignored: a file that
//! asks for more protection than there is must not pass.

use std::fs;
use std::path::{Path, PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

use super::login::User;
use crate::error::Error;

/// What the file says.
#[derive(Default)]
pub(super) struct Content {
    pub(super) tls: Option<Tls>,
    /// The users; if the list is empty, no request needs a login.
    pub(super) users: Vec<User>,
}

/// `tls_server_config`: where the files are.
pub(super) struct Tls {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) clients: Clients,
}

/// Which certificates clients show.
pub(super) enum Clients {
    /// None.
    Unknown,
    /// One of these authorities, if they show any.
    IfGiven(PathBuf),
    /// One of these authorities.
    Required(PathBuf),
}

/// An error that names the file.
pub(super) fn wrong(path: &Path, what: impl std::fmt::Display) -> Error {
    let advice = "correct the web configuration file: `man rlock-exporter` has the keys that it can have";
    Error::Usage(format!("{}: {what}", path.display()), advice)
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Content, Error> {
    let text = fs::read_to_string(path).map_err(|cause| wrong(path, cause))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, folder).map_err(|what| wrong(path, what))
}

/// Paths in the file begin at its folder.
fn parse(text: &str, folder: &Path) -> Result<Content, String> {
    let documents = YamlLoader::load_from_str(text).map_err(|error| format!("it is not YAML: {error}"))?;
    let mut content = Content::default();
    match documents.as_slice() {
        [] => {}
        [document] => {
            for (key, value) in entries(document, "the file")? {
                match key.as_str() {
                    "tls_server_config" => content.tls = Some(tls(value, folder)?),
                    "basic_auth_users" => content.users = users(value)?,
                    _ => return Err(unsupported(&key)),
                }
            }
        }
        _ => return Err("it has more than one document".to_string()),
    }
    // A file that is being written is empty at first: it must not take the protection away.
    if content.tls.is_none() && content.users.is_empty() {
        return Err("it has neither tls_server_config nor basic_auth_users".to_string());
    }
    Ok(content)
}

fn unsupported(key: &str) -> String {
    format!("the key {key} is not supported: remove it, and let a proxy do what it asks for")
}

fn entries<'a>(value: &'a Yaml, of: &str) -> Result<Vec<(String, &'a Yaml)>, String> {
    let Yaml::Hash(map) = value else { return Err(format!("{of} is not a mapping (key: value)")) };
    map.iter()
        .map(|(key, value)| Ok((word(key).ok_or(format!("{of} has a key that is not a word"))?, value)))
        .collect()
}

/// A scalar as it is written.
fn word(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) | Yaml::Real(text) => Some(text.clone()),
        Yaml::Integer(number) => Some(number.to_string()),
        Yaml::Boolean(is) => Some(is.to_string()),
        _ => None,
    }
}

fn tls(value: &Yaml, folder: &Path) -> Result<Tls, String> {
    let (mut certificate, mut key_file, mut authorities) = (None, None, None);
    let mut policy = String::new();
    for (key, value) in entries(value, "tls_server_config")? {
        let name = format!("tls_server_config.{key}");
        let text = || word(value).filter(|text| !text.is_empty()).ok_or(format!("{name} has no value"));
        match key.as_str() {
            "cert_file" => certificate = Some(folder.join(text()?)),
            "key_file" => key_file = Some(folder.join(text()?)),
            "client_ca_file" => authorities = Some(folder.join(text()?)),
            "client_auth_type" => policy = text()?,
            _ => return Err(unsupported(&name)),
        }
    }
    let (Some(certificate), Some(key)) = (certificate, key_file) else {
        return Err("tls_server_config needs cert_file and key_file".to_string());
    };
    Ok(Tls { certificate, key, clients: clients(&policy, authorities)? })
}

fn clients(policy: &str, authorities: Option<PathBuf>) -> Result<Clients, String> {
    let name = "tls_server_config.client_auth_type";
    match (policy, authorities) {
        ("" | "NoClientCert", None) => Ok(Clients::Unknown),
        ("" | "NoClientCert", Some(_)) => Err(format!(
            "with client_ca_file {name} is RequireAndVerifyClientCert or VerifyClientCertIfGiven"
        )),
        ("RequireAndVerifyClientCert", Some(file)) => Ok(Clients::Required(file)),
        ("VerifyClientCertIfGiven", Some(file)) => Ok(Clients::IfGiven(file)),
        ("RequireAndVerifyClientCert" | "VerifyClientCertIfGiven", None) => {
            Err(format!("{name} {policy} needs tls_server_config.client_ca_file"))
        }
        _ => Err(format!("{name} {policy} is not supported: it does not verify certificates")),
    }
}

fn users(value: &Yaml) -> Result<Vec<User>, String> {
    let read = |(name, value): (String, &Yaml)| {
        let user = word(value).and_then(|hash| User::new(&name, &hash));
        // The value may be the password itself: it is not shown.
        user.ok_or(format!(
            "the value of basic_auth_users.{name} is not a hash of bcrypt with a cost up to {}: make one with `htpasswd -nB {name}`",
            User::HIGHEST_COST
        ))
    };
    entries(value, "basic_auth_users")?.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$04$7OHZ9xQ8uVZk5rGbT1v2EuB1tMZ1tW1J1cW1B1b1Z1h1a1c1e1g1i";

    fn fault(text: &str) -> String {
        parse(text, Path::new("/etc")).err().expect("a fault")
    }

    #[test]
    fn the_supported_keys_are_read_and_paths_begin_at_the_folder() {
        let content = parse(
            &format!(
                "tls_server_config:\n  cert_file: web.crt\n  key_file: /keys/web.key\n  client_ca_file: ca.crt\n  \
                 client_auth_type: RequireAndVerifyClientCert\nbasic_auth_users:\n  alice: {HASH}\n  7: {HASH}\n"
            ),
            Path::new("/etc"),
        )
        .unwrap_or_else(|error| panic!("{error}"));
        let tls = content.tls.expect("TLS");
        assert_eq!(tls.certificate, Path::new("/etc/web.crt"));
        assert_eq!(tls.key, Path::new("/keys/web.key"));
        assert!(matches!(tls.clients, Clients::Required(file) if file == Path::new("/etc/ca.crt")));
        assert_eq!(content.users.len(), 2);
    }

    #[test]
    fn what_is_not_supported_is_an_error_that_names_the_key() {
        let tls = "tls_server_config: {cert_file: a, key_file: b, ";
        let cases = [
            ("http_server_config: {http2: true}".to_string(), "the key http_server_config is not supported"),
            ("rate_limit: {}".to_string(), "the key rate_limit"),
            (format!("{tls}min_version: TLS13}}"), "the key tls_server_config.min_version is not supported"),
            (format!("{tls}client_allowed_sans: [a]}}"), "tls_server_config.client_allowed_sans"),
            (format!("{tls}client_ca_file: c}}"), "RequireAndVerifyClientCert or"),
            (
                format!("{tls}client_auth_type: RequireAndVerifyClientCert}}"),
                "needs tls_server_config.client_ca_file",
            ),
            (
                format!("{tls}client_auth_type: RequireAnyClientCert}}"),
                "RequireAnyClientCert is not supported",
            ),
            (format!("{tls}client_auth_type: }}"), "client_auth_type has no value"),
            ("tls_server_config: {cert_file: a}".to_string(), "needs cert_file and key_file"),
            ("tls_server_config: [a]".to_string(), "tls_server_config is not a mapping"),
            (
                "basic_auth_users: {alice: secret}".to_string(),
                "basic_auth_users.alice is not a hash of bcrypt",
            ),
            ("basic_auth_users: {alice: }".to_string(), "basic_auth_users.alice is not a hash"),
            (String::new(), "it has neither tls_server_config nor basic_auth_users"),
            ("# nothing".to_string(), "it has neither"),
            ("{}".to_string(), "it has neither"),
            ("tls_server_config:".to_string(), "tls_server_config is not a mapping"),
            ("basic_auth_users:".to_string(), "basic_auth_users is not a mapping"),
            ("just a text".to_string(), "the file is not a mapping"),
            ("a: b\n---\nc: d\n".to_string(), "more than one document"),
            ("a: [".to_string(), "it is not YAML"),
        ];
        for (text, expected) in cases {
            let fault = fault(&text);
            assert!(fault.contains(expected) && !fault.contains("secret"), "{text}: {fault}");
        }
    }
}
