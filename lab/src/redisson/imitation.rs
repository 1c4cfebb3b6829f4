//! What the load generator sends in place of a release of Redisson: the same bytes but for names.

use super::Release;
use super::recording::{Command, Recording};
use crate::wire::Wire;

/// The lease in ms that Redisson asks for by itself.
pub(crate) const LEASE: &str = "30000";

/// How long the result of an unlock is kept, in ms: as in 3.45. The newest adds a random part.
const LATCH_MS: &str = "13500";

/// The publishing command, which is an argument of a release.
const PUBLISH: &str = "PUBLISH";

/// The channel on which a lock's release is announced.
pub(crate) fn channel(lock: &str) -> String {
    format!("redisson_lock__channel:{{{lock}}}")
}

/// The key of the result of one unlock.
fn latch(lock: &str, request: &str) -> String {
    format!("redisson_unlock_latch:{{{lock}}}:{request}")
}

/// The id of a request, of the length that Redisson uses.
pub(crate) fn request(number: usize) -> String {
    format!("{number:032x}")
}

/// A release of Redisson, with the texts of its scripts.
#[derive(Debug, Clone)]
pub(crate) struct Imitation {
    pub(crate) release: Release,
    acquire: Script,
    unlock: Script,
    reader: Reader,
}

/// A script's text, and what names it in a call.
#[derive(Debug, Clone)]
struct Script {
    text: String,
    call: [String; 2],
}

/// A reader's acquire and release as recorded.
#[derive(Debug, Clone)]
struct Reader {
    lock: String,
    owner: String,
    request: String,
    acquire: Command,
    release: Vec<Command>,
    texts: Vec<String>,
}

impl Imitation {
    /// Takes the texts from a recording; an error that shows both if anything else differs.
    pub(super) fn of(release: Release, recording: &Recording) -> Result<Imitation, String> {
        let (lock, pair) = recording.pair();
        let script = |index: usize| {
            let call = pair.get(index).ok_or("an acquire and a release were not recorded")?;
            let text = recording.text(call).ok_or_else(|| format!("no script is called by {call:?}"))?;
            let call = [call[0].clone(), call[1].clone()];
            Ok::<_, String>(Script { text, call })
        };
        let of_release = |error: String| format!("Redisson {}: {error}", release.version());
        let (acquire, unlock) = (script(0).map_err(of_release)?, script(1).map_err(of_release)?);
        let reader = Reader::of(recording).map_err(of_release)?;
        let imitation = Imitation { release, acquire, unlock, reader };
        compare("an acquire and a release", &lock, &pair, &imitation.pair(&lock)).map_err(of_release)?;
        let (lock, hand_off) = recording.hand_off();
        compare("a hand-off", &lock, &hand_off, &imitation.hand_off(&lock)).map_err(of_release)?;
        Ok(imitation)
    }

    /// Makes a server know its scripts, as it does after their first use.
    pub(crate) fn load(&self, wire: &mut Wire) {
        if self.release.uses_digests() {
            for text in [&self.acquire.text, &self.unlock.text].into_iter().chain(&self.reader.texts) {
                wire.text(&["SCRIPT", "LOAD", text]);
            }
        }
    }

    /// The answer is null, or what is left of the lock.
    pub(crate) fn acquire(&self, lock: &str, owner: &str) -> Command {
        self.acquire.call(&["1", lock, LEASE, owner])
    }

    /// The answer is 1.
    pub(crate) fn release(&self, lock: &str, owner: &str, request: &str) -> Command {
        let (channel, latch) = (channel(lock), latch(lock, request));
        let (keys, latch_ms) = if self.release.has_latch() { ("3", Some(LATCH_MS)) } else { ("2", None) };
        let latch = self.release.has_latch().then_some(latch.as_str());
        let mut words = vec![keys, lock, &channel];
        words.extend(latch);
        words.extend(["0", LEASE, owner, PUBLISH]);
        words.extend(latch_ms);
        self.unlock.call(&words)
    }

    /// The command that follows a release; the answer is 1.
    pub(crate) fn forget(&self, lock: &str, request: &str) -> Option<Command> {
        self.release.has_latch().then(|| vec!["DEL".into(), latch(lock, request)])
    }

    /// A reader's acquire, whose answer is null.
    pub(crate) fn read(&self, lock: &str, owner: &str, request: &str) -> Command {
        self.reader.renamed(&self.reader.acquire, lock, owner, request)
    }

    /// A reader's release while others read, whose answer is 0, and what follows it, whose answer is 1.
    pub(crate) fn unread(&self, lock: &str, owner: &str, request: &str) -> Vec<Command> {
        self.reader.release.iter().map(|words| self.reader.renamed(words, lock, owner, request)).collect()
    }

    /// All of an acquire and a release.
    fn pair(&self, lock: &str) -> Vec<Command> {
        let (owner, request) = (owner(1), request(1));
        let mut commands = vec![self.acquire(lock, &owner), self.release(lock, &owner, &request)];
        commands.extend(self.forget(lock, &request));
        commands
    }

    /// All of what two do, of which one waits for the other.
    fn hand_off(&self, lock: &str) -> Vec<Command> {
        let denied = [self.acquire(lock, &owner(1)), self.acquire(lock, &owner(1))];
        let words = |name: &str| vec![name.to_string(), channel(lock)];
        let mut commands = [self.pair(lock), self.pair(lock), denied.into()].concat();
        commands.extend([words("SUBSCRIBE"), words("UNSUBSCRIBE")]);
        commands
    }
}

impl Script {
    fn call(&self, words: &[&str]) -> Command {
        self.call.iter().cloned().chain(words.iter().map(ToString::to_string)).collect()
    }
}

impl Reader {
    fn of(recording: &Recording) -> Result<Reader, String> {
        let (lock, commands) = recording.read();
        let [_, acquire, release @ ..] = &commands[..] else {
            return Err("a reader's acquire and release were not recorded".into());
        };
        let owner = acquire.iter().find_map(|word| owner_in(word)).ok_or("a reader has no owner")?;
        let request = release.iter().flatten().find_map(|word| request_in(word)).unwrap_or_default();
        let texts = [Some(acquire), release.first()].into_iter().flatten();
        let texts = texts.map(|call| recording.text(call)).collect::<Option<Vec<String>>>();
        Ok(Reader {
            texts: texts.ok_or_else(|| format!("a reader calls no script: {commands:?}"))?,
            lock,
            owner: owner.into(),
            request: request.into(),
            acquire: acquire.clone(),
            release: release.to_vec(),
        })
    }

    fn renamed(&self, words: &[String], lock: &str, owner: &str, request: &str) -> Command {
        let renamed = |word: &String| {
            let word = word.replace(&self.lock, lock).replace(&self.owner, owner);
            if self.request.is_empty() { word } else { word.replace(&self.request, request) }
        };
        words.iter().map(renamed).collect()
    }
}

fn owner(number: usize) -> String {
    format!("285475da-9152-4c83-822a-67ee2f116a79:{number}")
}

/// Fails with both if they are not the same commands, whatever their order and the names in them.
fn compare(what: &str, lock: &str, recorded: &[Command], imitated: &[Command]) -> Result<(), String> {
    let normal = |commands: &[Command]| {
        let mut commands: Vec<Command> = commands.iter().map(|words| normalised(words, lock)).collect();
        commands.sort();
        commands
    };
    let (recorded, imitated) = (normal(recorded), normal(imitated));
    if recorded == imitated {
        return Ok(());
    }
    let shown = |commands: &[Command]| {
        commands.iter().map(|words| format!("  {}\n", shown(words))).collect::<String>()
    };
    Err(format!(
        "the imitation of {what} is not what Redisson sends.\nRedisson sends:\n{}the load generator sends:\n{}\
         Change lab/src/redisson/imitation.rs until both are the same.",
        shown(&recorded),
        shown(&imitated)
    ))
}

fn shown(words: &[String]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ")
}

/// With the names that differ from run to run replaced.
fn normalised(words: &[String], lock: &str) -> Command {
    let renamed = |word: &String| {
        let mut word = word.replace(lock, "LOCK");
        for (name, find) in [("OWNER", owner_in as fn(&str) -> Option<&str>), ("REQUEST", request_in)] {
            if let Some(found) = find(&word).map(String::from) {
                word = word.replace(&found, name);
            }
        }
        word
    };
    let mut renamed: Command = words.iter().map(renamed).collect();
    // The time of a latch follows the publishing command.
    if let [.., publish, latch_ms] = &mut renamed[..]
        && publish == PUBLISH
        && latch_ms.len() == 5
        && latch_ms.bytes().all(|byte| byte.is_ascii_digit())
    {
        *latch_ms = "LATCH-MS".into();
    }
    renamed
}

/// The first owner in a word: a UUID, a colon and a number.
fn owner_in(word: &str) -> Option<&str> {
    let is_uuid = |text: &str| {
        let dashes = [8, 13, 18, 23];
        let is_right = |(at, byte): (usize, u8)| {
            if dashes.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        };
        text.len() == 36 && text.bytes().enumerate().all(is_right)
    };
    word.match_indices(':').find_map(|(colon, _)| {
        let start = colon.checked_sub(36)?;
        word.get(start..colon).filter(|uuid| is_uuid(uuid))?;
        let digits = word.get(colon + 1..)?.bytes().take_while(u8::is_ascii_digit).count();
        word.get(start..=colon + digits).filter(|_| digits > 0)
    })
}

/// The id of a request at the end of a word: 32 hexadecimal digits after a colon.
fn request_in(word: &str) -> Option<&str> {
    let (_, id) = word.rsplit_once(':')?;
    Some(id).filter(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Command {
        line.split(' ').map(String::from).collect()
    }

    #[test]
    fn names_may_differ_and_nothing_else() {
        let owners = [owner(7), "0a0b0c0d-1111-2222-3333-444455556666:52".to_string()];
        let [one, other] = owners.map(|owner| {
            vec![
                words(&format!("EVALSHA 0123 1 lock:a 30000 {owner}")),
                words(&format!("DEL {}", latch("lock:a", &request(owner.len())))),
            ]
        });
        compare("a pair", "lock:a", &one, &other).unwrap();
        let backwards: Vec<Command> = other.iter().rev().cloned().collect();
        compare("a pair", "lock:a", &one, &backwards).unwrap();
        let mut later = other.clone();
        later[0][4] = "30001".into();
        let error = compare("a pair", "lock:a", &one, &later).unwrap_err();
        for part in ["\"30000\" \"OWNER\"", "\"30001\" \"OWNER\"", "a pair is not what Redisson sends"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(compare("a pair", "lock:a", &one, &other[..1]).is_err());
    }

    #[test]
    fn owners_and_requests_are_found_in_keys() {
        let lease_key = format!("{{lock}}:{}:rwlock_timeout:1", owner(12));
        assert_eq!(owner_in(&lease_key), Some(owner(12).as_str()));
        assert_eq!(owner_in("lock:invoice:7"), None);
        assert_eq!(request_in(&latch("lock:a:7", &request(3))), Some(request(3).as_str()));
        assert_eq!(request_in("redisson_lock__channel:{lock:a}"), None);
    }
}
