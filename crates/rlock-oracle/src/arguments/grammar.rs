//! The grammar of docs/COMMANDS.md as a table that is matched word by word.

/// The commands of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Acquire,
    Release,
    Renew,
    Cancel,
    Info,
    List,
    Hot,
    ForceRelease,
}

/// The kinds of arguments.
#[derive(Clone, Copy)]
enum Argument {
    Owner,
    Channel,
    Cursor,
    /// A canonical integer in this range, both ends included.
    Number(u64, u64),
    /// A grace period; 0 counts as 1.
    Grace,
}

/// An option: its word, and the arguments that must follow it.
type Words = (&'static [u8], &'static [Argument]);

const LEASE: Argument = Argument::Number(1, 8_796_093_022_208);
const WAIT: Argument = Argument::Number(0, 8_796_093_022_208);
const MOST_HOLDS: u64 = 9_007_199_254_740_992;
const MOST_PERMITS: u64 = 2_147_483_647;

impl Command {
    pub(super) const ALL: [Self; 8] = [
        Self::Acquire,
        Self::Release,
        Self::Renew,
        Self::Cancel,
        Self::Info,
        Self::List,
        Self::Hot,
        Self::ForceRelease,
    ];

    /// The arguments that must come first, and how many of them may be left out.
    fn positions(self) -> (&'static [Argument], usize) {
        match self {
            Self::Acquire | Self::Renew => (&[Argument::Owner, LEASE], 0),
            Self::Release | Self::Cancel => (&[Argument::Owner], 0),
            Self::ForceRelease => (&[Argument::Owner], 1),
            Self::Info | Self::Hot => (&[], 0),
            Self::List => (&[Argument::Cursor], 0),
        }
    }

    /// The options, in the order in which they are written canonically.
    fn options(self) -> &'static [Words] {
        match self {
            Self::Acquire => &[
                (b"READ", &[]),
                (b"WRITE", &[]),
                (b"PERMITS", &[Argument::Number(1, MOST_PERMITS)]),
                (b"FAIR", &[]),
                (b"HOLDS", &[Argument::Number(1, MOST_HOLDS)]),
                (b"FENCED", &[]),
                (b"SESSION", &[Argument::Grace]),
                (b"BLOCK", &[WAIT]),
                (b"ENQUEUE", &[WAIT, Argument::Channel]),
            ],
            Self::Release => &[
                (b"READ", &[]),
                (b"WRITE", &[]),
                (b"ALL", &[]),
                (b"HOLDS", &[Argument::Number(0, MOST_HOLDS)]),
                (b"LEASE", &[LEASE]),
            ],
            Self::Renew => &[(b"READ", &[]), (b"WRITE", &[]), (b"SESSION", &[Argument::Grace])],
            Self::Info => &[(b"LIMIT", &[Argument::Number(0, 4_294_967_295)])],
            Self::List => &[(b"LIMIT", &[Argument::Number(1, 4_294_967_295)])],
            Self::Hot => &[(b"LIMIT", &[Argument::Number(1, 4_294_967_295)]), (b"RESET", &[])],
            Self::Cancel | Self::ForceRelease => &[],
        }
    }

    /// Pairs of options that exclude each other.
    fn exclusive(self) -> &'static [[&'static [u8]; 2]] {
        match self {
            Self::Acquire => &[
                [b"READ", b"WRITE"],
                [b"READ", b"FENCED"],
                [b"READ", b"FAIR"],
                [b"WRITE", b"FAIR"],
                [b"PERMITS", b"READ"],
                [b"PERMITS", b"WRITE"],
                [b"PERMITS", b"FAIR"],
                [b"PERMITS", b"FENCED"],
                [b"BLOCK", b"ENQUEUE"],
            ],
            Self::Release => &[[b"READ", b"WRITE"], [b"ALL", b"HOLDS"]],
            Self::Renew => &[[b"READ", b"WRITE"]],
            Self::Hot => &[[b"LIMIT", b"RESET"]],
            _ => &[],
        }
    }
}

impl Argument {
    fn fits(self, word: &[u8]) -> bool {
        match self {
            Self::Owner => (1..=512).contains(&word.len()) && word != b"mode" && !word.ends_with(b":write"),
            Self::Channel => (1..=512).contains(&word.len()),
            Self::Cursor => word == b"0" || word.starts_with(b">"),
            Self::Grace => WAIT.fits(word),
            Self::Number(least, most) => number(word).is_some_and(|n| (least..=most).contains(&n)),
        }
    }
}

/// Decimal digits without a sign or a leading zero.
fn number(word: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}

/// The arguments in their canonical form; `None` where the contract does not allow them.
pub(super) fn read(command: Command, words: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let (positions, optional) = command.positions();
    if words.len() + optional < positions.len() {
        return None;
    }
    let here = positions.len().min(words.len());
    let (first, mut rest) = words.split_at(here);
    if !first.iter().zip(positions).all(|(word, kind)| kind.fits(word)) {
        return None;
    }
    let options = command.options();
    let mut given: Vec<Option<&[&[u8]]>> = vec![None; options.len()];
    while let Some((word, after)) = rest.split_first() {
        let known = options.iter().position(|(name, _)| name.eq_ignore_ascii_case(word))?;
        let kinds = options[known].1;
        let values = after.get(..kinds.len())?;
        let fit = values.iter().zip(kinds).all(|(value, kind)| kind.fits(value));
        if !fit || given[known].replace(values).is_some() {
            return None;
        }
        rest = &after[kinds.len()..];
    }
    let value = |name: &[u8]| options.iter().zip(&given).find(|((o, _), _)| *o == name).and_then(|(_, g)| *g);
    for two in command.exclusive() {
        if two.iter().all(|name| value(name).is_some()) {
            return None;
        }
    }
    // A permit is held once.
    if value(b"PERMITS").is_some() && value(b"HOLDS").is_some_and(|holds| holds != [b"1"]) {
        return None;
    }
    let mut written: Vec<Vec<u8>> = first.iter().map(|word| word.to_vec()).collect();
    for ((name, _), values) in options.iter().zip(given) {
        written.extend(option(command, name, values));
    }
    Some(written)
}

/// An option in its canonical form. The contract: ALL is HOLDS 0, SESSION 0 is SESSION 1, LIMIT is at most 10,000, and 100 if it is
/// not given, except that HOT shows all.
fn option(command: Command, name: &[u8], values: Option<&[&[u8]]>) -> Vec<Vec<u8>> {
    let (name, values): (&[u8], &[&[u8]]) = match (name, values) {
        (b"SESSION", Some([b"0"])) => (name, &[b"1"]),
        (b"ALL", Some(_)) => (b"HOLDS", &[b"0"]),
        (b"LIMIT", Some([limit])) if number(limit) > Some(10_000) => (name, &[b"10000"]),
        (b"LIMIT", None) if command != Command::Hot => (name, &[b"100"]),
        (_, None) => return Vec::new(),
        (_, Some(values)) => (name, values),
    };
    [name].iter().chain(values).map(|word| word.to_vec()).collect()
}

/// The canonical form, and every rotation of its options, with every second option in lower case.
pub(super) fn ways_to_write(command: Command, written: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let here = command.positions().0.len().min(written.len());
    let (first, mut rest) = written.split_at(here);
    let mut groups: Vec<Vec<Vec<u8>>> = Vec::new();
    while let Some(word) = rest.first() {
        let values =
            command.options().iter().find(|(name, _)| name == word).map_or(0, |(_, kinds)| kinds.len());
        let (group, after) = rest.split_at(values + 1);
        let mut group = group.to_vec();
        if groups.len() % 2 == 1 {
            group[0].make_ascii_lowercase();
        }
        groups.push(group);
        rest = after;
    }
    let mut ways = vec![written.to_vec()];
    for _ in 0..groups.len() {
        groups.rotate_left(1);
        ways.push(first.iter().chain(groups.iter().flatten()).cloned().collect());
    }
    ways
}
