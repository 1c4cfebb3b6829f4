//! Owners that lead to a process.

use wildmatch::WildMatch;

use crate::names;

/// The owners that a pattern means: `*` is any text, `?` any character.
#[derive(Debug)]
pub(crate) struct Owners(WildMatch);

impl Owners {
    pub(crate) fn matching(pattern: &[u8]) -> Owners {
        Owners(WildMatch::new(&names::shown(pattern)))
    }

    pub(crate) fn contain(&self, owner: &[u8]) -> bool {
        self.0.matches(&names::shown(owner))
    }
}

/// The client that an owner names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client of rlock: `<name>@<host>:<pid>:<random>:<number>`.
    Process(Process),
    /// A Redisson client: `<uuid of the client>:<thread id>`.
    Redisson {
        /// The client.
        client: String,
        /// The thread; none where the owner is the client alone.
        thread: Option<String>,
    },
    /// Another client, which names its owners as it likes.
    Other,
}

/// The process of a client of rlock.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Process {
    /// The client's name, by default that of the program.
    pub(crate) name: String,
    /// The machine or container.
    pub(crate) host: String,
    /// The process id there.
    pub(crate) pid: u32,
}

impl Origin {
    /// Reads an owner.
    pub(crate) fn of(owner: &[u8]) -> Origin {
        let text = std::str::from_utf8(owner).unwrap_or_default();
        process(text).map(Origin::Process).or_else(|| redisson(text)).unwrap_or(Origin::Other)
    }

    /// The process, if the owner names one.
    pub(crate) fn process(&self) -> Option<&Process> {
        match self {
            Origin::Process(process) => Some(process),
            Origin::Redisson { .. } | Origin::Other => None,
        }
    }
}

/// The client in a few words, for people: `web on app-3, process 4711`.
pub(crate) fn described(owner: &[u8]) -> Option<String> {
    match Origin::of(owner) {
        Origin::Process(Process { name, host, pid }) => Some(format!("{name} on {host}, process {pid}")),
        Origin::Redisson { thread: Some(thread), .. } => {
            Some(format!("thread {thread} of a Redisson client"))
        }
        Origin::Redisson { thread: None, .. } => Some("a Redisson client".to_string()),
        Origin::Other => None,
    }
}

/// An owner in at most this number of characters: in a narrow column first the random part goes, then the middle.
pub(crate) fn fitted(owner: &[u8], width: usize) -> String {
    let whole = names::shown(owner);
    if whole.chars().count() <= width { whole } else { names::shortened(&short(owner), width) }
}

/// The owner where there is little room: `web@app-3:4711`, without the random part and the number.
pub(crate) fn short(owner: &[u8]) -> String {
    match Origin::of(owner) {
        Origin::Process(Process { name, host, pid }) => format!("{name}@{host}:{pid}"),
        Origin::Redisson { .. } | Origin::Other => names::shown(owner),
    }
}

/// `<name>@<host>:<pid>:<random>:<number>`; name and host are percent-encoded.
fn process(owner: &str) -> Option<Process> {
    let parts: Vec<&str> = owner.split(':').collect();
    let [place, pid, random, number] = parts[..] else { return None };
    let (name, host) = place.split_once('@')?;
    let is_random =
        (16..=32).contains(&random.len()) && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_random || !is_number || host.contains('@') {
        return None;
    }
    let word = |text: &str| Some(names::shown(&names::decoded(text)?)).filter(|word| !word.is_empty());
    Some(Process { name: word(name)?, host: word(host)?, pid: pid.parse().ok()? })
}

/// `<uuid>:<thread id>`, or the UUID alone.
fn redisson(owner: &str) -> Option<Origin> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let (uuid, rest) = owner.split_at_checked(36)?;
    let fits = |(place, byte): (usize, u8)| match DASHES.contains(&place) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    let is_uuid = uuid.bytes().enumerate().all(fits);
    let thread = match rest.strip_prefix(':') {
        Some(thread) => Some(names::shown(thread.as_bytes())),
        None if rest.is_empty() => None,
        None => return None,
    };
    is_uuid.then(|| Origin::Redisson { client: uuid.to_string(), thread })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_lead_to_their_clients() {
        let process = |name: &str, host: &str, pid| {
            Origin::Process(Process { name: name.to_string(), host: host.to_string(), pid })
        };
        let redisson = |thread: Option<&str>| Origin::Redisson {
            client: "0f8fad5b-d9cb-469f-a165-70867728950e".to_string(),
            thread: thread.map(str::to_string),
        };
        let cases = [
            ("job@host:1234:0f8fad5bd9cb469f:1", process("job", "host", 1234)),
            ("job@host:1234:0f8fad5bd9cb469fa16570867728950e:1", process("job", "host", 1234)),
            ("a%20b@h%3A1:7:0f8fad5bd9cb469f:123", process("a b", "h:1", 7)),
            ("a%1bb@h:7:0f8fad5bd9cb469f:1", process("a\\x1bb", "h", 7)),
            ("job@host:1234:0f8fad5bd9cb469f:x", Origin::Other),
            ("job@host:x:0f8fad5bd9cb469f:1", Origin::Other),
            ("job@host:99999999999:0f8fad5bd9cb469f:1", Origin::Other),
            ("job@host:1234:0f8fad5b:1", Origin::Other),
            ("@host:1234:0f8fad5bd9cb469f:1", Origin::Other),
            ("job:1234:0f8fad5bd9cb469f:1", Origin::Other),
            ("0f8fad5b-d9cb-469f-a165-70867728950e:1", redisson(Some("1"))),
            ("0f8fad5b-d9cb-469f-a165-70867728950e", redisson(None)),
            ("0f8fad5b-d9cb-469f-a165-70867728950ex", Origin::Other),
            ("0f8fad5bxd9cb-469f-a165-70867728950e:1", Origin::Other),
            ("gf8fad5b-d9cb-469f-a165-70867728950e:1", Origin::Other),
            ("0f8fad5b-d9cb-469f-a165-7086772895", Origin::Other),
            ("alice:1", Origin::Other),
            ("", Origin::Other),
        ];
        for (owner, expected) in cases {
            assert_eq!(Origin::of(owner.as_bytes()), expected, "{owner}");
        }
        assert_eq!(Origin::of(b"\xff@h:7:0f8fad5bd9cb469f:1"), Origin::Other);
    }

    #[test]
    fn clients_are_described() {
        let owner = b"web@app-3:4711:0f8fad5bd9cb469f:5";
        assert_eq!(described(owner).as_deref(), Some("web on app-3, process 4711"));
        assert_eq!(short(owner), "web@app-3:4711");
        let redisson = "0f8fad5b-d9cb-469f-a165-70867728950e:42";
        let text = "thread 42 of a Redisson client";
        assert_eq!(
            (described(redisson.as_bytes()).as_deref(), short(redisson.as_bytes())),
            (Some(text), redisson.to_string())
        );
        assert_eq!((described(b"alice:1"), short(b"alice\n")), (None, "alice\\x0a".to_string()));
    }
}
