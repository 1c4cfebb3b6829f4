//! What to do about an error.

use crate::error::Error;

impl Error {
    /// What to do next.
    pub(crate) fn advice(&self) -> String {
        let text = match self {
            Error::Usage(_, advice) => advice,
            Error::Mismatch { advice, .. } => advice.as_str(),
            Error::Url(_) => "correct --url or REDIS_URL",
            Error::NoAnswer { address, cause } => return no_answer(address, cause),
            Error::Tls { cause, .. } => tls(cause),
            Error::Unknown { .. } => "it may have worked: check `rlock status`, then try again",
            Error::Other(error) => error.advice().unwrap_or("check --url or REDIS_URL"),
            Error::NoModule { .. } => {
                "add `loadmodule /path/to/librlock.so` to its configuration file and restart it, or use \
                 MODULE LOAD; `rlock ping` also checks its replicas"
            }
            Error::Refused { text, .. } => refused(text),
            Error::Nested { .. } => {
                "remove the inner `rlock run`, or give it another lock; if the outer one does not wait for it, \
                 start it with `env -u RLOCK_HELD`"
            }
            Error::Unexpected { .. } => {
                "compare the versions: `rlock ping` shows the module's, `rlock --version` the command's"
            }
            Error::NotFound { program } => {
                return format!("check the spelling and PATH, or write the path of '{program}'");
            }
            Error::NotExecutable { program, .. } => {
                return format!("make it executable (chmod +x), or name the interpreter: -- sh {program}");
            }
            Error::System { .. } => "check the limits of this user and of the container (ulimit -a)",
            Error::LeadFile { .. } => {
                "name a file in a folder that exists and has space, in which this user may write and remove files"
            }
            Error::Listen { .. } => {
                "choose an address of this machine and a free port: --listen 127.0.0.1:9821"
            }
            Error::Output(_) => "check the file or the program that receives the output",
        };
        text.to_string()
    }
}

/// What to do about a server that does not answer, by the words of the system.
fn no_answer(address: &str, cause: &str) -> String {
    if cause.contains("lookup") || cause.contains("not known") {
        return "check the host name in --url or REDIS_URL".to_string();
    }
    if cause.contains("No such file") {
        return "check the path in --url or REDIS_URL, and the server's option `unixsocket`".to_string();
    }
    if cause.contains("Permission denied") {
        return "allow this user to use the socket: set the server's option `unixsocketperm`".to_string();
    }
    if cause.contains("refused") {
        return format!(
            "check that a server runs at {address}, and that --url or REDIS_URL names the right one"
        );
    }
    format!(
        "check that a server runs at {address}, that --url or REDIS_URL names the right one, that no firewall \
         blocks it, and that it is not overloaded (`redis-cli --latency`)"
    )
}

/// What to do about a TLS connection that failed, by the words of rustls.
fn tls(cause: &str) -> &'static str {
    if cause.contains("CertificateRequired") {
        return "the server asks for a certificate of this client: name it with --cert and --key, in PEM, of an authority in the \
                server's `tls-ca-cert-file`";
    }
    if cause.contains("not valid for name") {
        return "use a host name of the server's certificate in the URL";
    }
    if cause.contains("Expired") || cause.contains("expired") {
        return "renew the server's certificate, and check this machine's clock";
    }
    "check the host name in the URL, and that this system trusts the authority of the server's certificate \
     (--cacert names another, SSL_CERT_FILE adds authorities)"
}

/// What to do about an error that the server answers, by its first word.
fn refused(text: &str) -> &'static str {
    match text.split(' ').next().unwrap_or_default() {
        "WRONGLOCK" if text.contains("holds a read/write lock") => {
            "this lock is in use as a read/write lock: add --read or --write"
        }
        "WRONGLOCK" if text.contains("holds a plain lock") => {
            "this lock is in use as a plain lock: leave out --read and --write"
        }
        "WRONGTYPE" | "WRONGLOCK" => {
            "choose another key: this one holds something else, and nothing was changed"
        }
        "QUEUEFULL" => "try again later, or raise the option that the error names on the server",
        "UNBLOCKED" => "try again: another server now serves the lock",
        "NOAUTH" => {
            "the server requires a password: write redis://user:password@host or redis://:password@host into REDIS_URL or the \
             file of --url-file, which ps does not show"
        }
        "WRONGPASS" => {
            "correct the user and the password in --url or REDIS_URL (percent-encoded); the user must exist and be on"
        }
        "NOPERM" => permission(text),
        _ if text.contains("no permissions to run") => permission(text),
        "READONLY" => "this server is a replica: use the URL of the primary, which `rlock ping` shows",
        "LOADING" => "the server is still loading its data: try again soon",
        "OOM" => "the server's memory is full: raise maxmemory or remove keys; releasing still works",
        "MASTERDOWN" => "this server is a replica without its primary: use the URL of the primary",
        "CLUSTERDOWN" => {
            "the cluster serves no locks now: check CLUSTER INFO, and give every slot to a node (redis-cli --cluster fix)"
        }
        "MISCONF" | "NOREPLICAS" => {
            "the server accepts no writes now: fix the cause that it names, then try again"
        }
        _ if text.contains("max number of clients") => {
            "raise the server's option `maxclients`, or end idle clients (CLIENT LIST)"
        }
        _ => "this is the server's own text; docs/COMMANDS.md describes the commands",
    }
}

/// What to allow a user, by what the server refused.
fn permission(text: &str) -> &'static str {
    let command = text.split('\'').nth(1).unwrap_or_default();
    match command {
        _ if text.contains("keys") || text.contains(" a key") => {
            "allow the user the lock's key: ACL SETUSER <user> ~<key>; for --read, --fair and --fence-env also the \
             keys in docs/SECURITY.md"
        }
        "select" => {
            "allow the user to choose a database: ACL SETUSER <user> +select; or remove the database from the URL"
        }
        "info" | "scan" | "hlen" | "hexists" | "zrange" | "pttl" | "cluster" | "cluster|nodes"
        | "rlock.list" => {
            "allow the user these commands: ACL SETUSER <user> +info for `rlock ping` and `rlock ls`; for `ls` also \
             +scan +hlen +hexists +zrange +pttl, for `ls --waiting` +rlock.list; in a cluster also +cluster|nodes"
        }
        "rlock.hot" => {
            "allow the user these commands: ACL SETUSER <user> +rlock.hot +info; for `rlock top` also +rlock.info ~*, in a \
             cluster +cluster|nodes; `rlock exporter` does without +rlock.hot with --hot-locks 0"
        }
        _ => {
            "allow the user the commands and the key: ACL SETUSER <user> ~<keys> +@rlock; on servers without this \
             category +rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info"
        }
    }
}
