//! Raw arguments of a client: the parsers accept exactly what the contract allows, and never panic.

mod grammar;
mod names;

use rlock_core::request::{Acquire, Cancel, DownTo, ForceRelease, Hot, Info, List, Release, Renew, Wait};
use rlock_core::{Error, LeaseMs, Mode, Wanted};

use grammar::Command;

/// Checks everything that reads a client's bytes: the words, parted by blanks, as the arguments after the
/// key of every command, and all of it as a key, an owner or a channel.
pub fn check(line: &[u8]) {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    check_words(&words);
    names::check(line);
    for word in words {
        names::check(word);
    }
}

/// Checks the parser of every command with these arguments after the key.
pub fn check_words(words: &[&[u8]]) {
    for command in Command::ALL {
        let parsed = parse(command, words);
        let expected = grammar::read(command, words);
        match &parsed {
            Ok(rendered) => {
                assert_eq!(Some(rendered), expected.as_ref(), "{command:?} {}", shown(words));
                check_rendering(command, rendered);
            }
            Err(error) => {
                assert_eq!(expected, None, "{command:?} {}: {error}", shown(words));
                check_error(error);
            }
        }
    }
}

/// The parsed request in its one canonical form: each part once, options in the contract's order.
fn parse(command: Command, words: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
    let args = words.iter().copied();
    Ok(match command {
        Command::Acquire => acquire(&Acquire::parse(b"lock", args)?),
        Command::Release => release(&Release::parse(args)?),
        Command::Renew => {
            let Renew { owner, lease, mode, session } = Renew::parse(args)?;
            let mut words = vec![owner.bytes().to_vec(), decimal(lease.get())];
            words.extend(mode.map(mode_word));
            words.extend(session_words(session));
            words
        }
        Command::Cancel => vec![Cancel::parse(b"lock", args)?.owner.bytes().to_vec()],
        Command::Info => vec![b"LIMIT".to_vec(), decimal(i64::from(Info::parse(args)?.limit))],
        Command::List => {
            let List { cursor, limit } = List::parse(args)?;
            vec![cursor.bytes(), b"LIMIT".to_vec(), decimal(i64::from(limit))]
        }
        Command::Hot => match Hot::parse(args)? {
            Hot::Reset => vec![b"RESET".to_vec()],
            Hot::Show { limit } => {
                let limit = limit.map(|limit| [b"LIMIT".to_vec(), decimal(limit.into())]);
                limit.into_iter().flatten().collect()
            }
        },
        Command::ForceRelease => {
            let owner = ForceRelease::parse(args)?.owner;
            owner.into_iter().map(|owner| owner.bytes().to_vec()).collect()
        }
    })
}

fn acquire(request: &Acquire<'_>) -> Vec<Vec<u8>> {
    let mut words = vec![request.owner.bytes().to_vec(), decimal(request.lease.get())];
    match request.wanted {
        Wanted::Mutex => {}
        Wanted::Permit(limit) => words.extend([b"PERMITS".to_vec(), decimal(limit.get().into())]),
        Wanted::Read | Wanted::Write => words.push(mode_word(request.mode())),
    }
    if request.fair {
        words.push(b"FAIR".to_vec());
    }
    if let Some(holds) = request.arrive_at {
        words.extend([b"HOLDS".to_vec(), decimal(holds.get())]);
    }
    if request.fenced {
        words.push(b"FENCED".to_vec());
    }
    words.extend(session_words(request.session));
    if let Some(wait) = request.wait {
        // A wait has only an end: counted from 0, that is its length; a wait for ever is written 0.
        let ms = wait.wait().until(rlock_core::MonoMs(0)).map_or(0, |end| end.0);
        let ms = ms.to_string().into_bytes();
        match wait {
            Wait::Block(_) => words.extend([b"BLOCK".to_vec(), ms]),
            Wait::Enqueue(_, channel) => words.extend([b"ENQUEUE".to_vec(), ms, channel.to_vec()]),
        }
    }
    words
}

fn release(request: &Release<'_>) -> Vec<Vec<u8>> {
    let mut words = vec![request.owner.bytes().to_vec()];
    words.extend(request.mode.map(mode_word));
    if let DownTo::AtMost(holds) = request.down_to {
        words.extend([b"HOLDS".to_vec(), decimal(holds)]);
    }
    if let Some(lease) = request.lease {
        words.extend([b"LEASE".to_vec(), decimal(lease.get())]);
    }
    words
}

/// The canonical form means the same, and so does each way to write it.
fn check_rendering(command: Command, rendered: &[Vec<u8>]) {
    for written in grammar::ways_to_write(command, rendered) {
        let words: Vec<&[u8]> = written.iter().map(Vec::as_slice).collect();
        let again = parse(command, &words);
        assert_eq!(again.as_deref(), Ok(rendered), "{command:?} {}", shown(&words));
    }
}

/// An error is one line of printable ASCII, not much longer than the module's own text, with `ERR`, the prefix of
/// wrong arguments.
fn check_error(error: &Error) {
    let line = error.to_string();
    assert!(line.starts_with("ERR "), "{line:?}");
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    assert!(line.len() < 400, "{} bytes: {line}", line.len());
}

fn mode_word(mode: Mode) -> Vec<u8> {
    if mode == Mode::Read { b"READ".to_vec() } else { b"WRITE".to_vec() }
}

fn session_words(grace: Option<LeaseMs>) -> impl Iterator<Item = Vec<u8>> {
    grace.into_iter().flat_map(|grace| [b"SESSION".to_vec(), decimal(grace.get())])
}

fn decimal(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn shown(words: &[&[u8]]) -> String {
    words.iter().map(|word| format!("'{}' ", word.escape_ascii())).collect()
}
