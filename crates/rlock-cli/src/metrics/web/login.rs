//! Users of the exporter, and the passwords that they log in with.

use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::HeaderValue;
use ring::hmac;
use ring::rand::SystemRandom;

use crate::error::Error;

/// A user, and what its password is compared with.
pub(super) struct User {
    name: String,
    /// As it is written.
    text: String,
    hash: Hash,
}

/// A hash of bcrypt, in parts.
struct Hash {
    cost: u32,
    salt: [u8; 16],
    digest: [u8; 23],
}

/// The login that a client sends.
pub(super) struct Credentials {
    user: String,
    password: Vec<u8>,
}

impl User {
    /// The highest accepted cost of a hash, which takes a second or two to compare. The next one takes longer than a scrape may wait.
    pub(super) const HIGHEST_COST: u32 = 15;

    /// A user with this hash of bcrypt; `None` if it is not one, or takes too long.
    pub(super) fn new(name: &str, text: &str) -> Option<User> {
        Some(User { name: name.to_string(), text: text.to_string(), hash: Hash::read(text)? })
    }
}

impl Hash {
    /// `$2y$`, the cost, `$`, 22 digits of salt and 31 of the digest.
    fn read(text: &str) -> Option<Hash> {
        let (version, rest) = text.strip_prefix('$')?.split_once('$')?;
        let (cost, digits) = rest.split_once('$')?;
        let (salt, digest) = digits.split_at_checked(22)?;
        let cost = cost.parse().ok().filter(|cost| (4..=User::HIGHEST_COST).contains(cost))?;
        let salt = bcrypt::BASE_64.decode(salt).ok()?.try_into().ok()?;
        let digest = bcrypt::BASE_64.decode(digest).ok()?.try_into().ok()?;
        ["2a", "2b", "2y"].contains(&version).then_some(Hash { cost, salt, digest })
    }

    /// Whether it is that of a password. bcrypt reads 72 bytes of it and its end.
    fn is_of(&self, password: &[u8]) -> bool {
        let read: Vec<u8> = password.iter().copied().chain([0]).take(72).collect();
        bcrypt::bcrypt(self.cost, self.salt, &read).starts_with(&self.digest)
    }
}

impl Credentials {
    /// Reads `Basic <user:password in base64>`.
    pub(super) fn read(header: &HeaderValue) -> Option<Credentials> {
        let (scheme, encoded) = header.to_str().ok()?.split_once(' ')?;
        let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let (user, password) = decoded.split_at_checked(colon)?;
        let password = password.get(1..)?.to_vec();
        let user = String::from_utf8(user.to_vec()).ok()?;
        scheme.eq_ignore_ascii_case("Basic").then_some(Credentials { user, password })
    }

    /// The password with the user's name and hash, neither of which has a colon.
    fn against(&self, user: &User) -> Vec<u8> {
        [user.name.as_bytes(), user.text.as_bytes(), &self.password].join(&b':')
    }
}

/// The logins that were right: a scrape every few seconds must not cost the time of bcrypt each.
pub(super) struct Verified {
    /// Known to this process only: the memory has no passwords.
    key: hmac::Key,
    tags: Mutex<Vec<hmac::Tag>>,
}

/// The most logins that are remembered. With more users bcrypt verifies some of them again.
const MOST: usize = 100;

impl Verified {
    pub(super) fn new() -> Result<Verified, Error> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|_| {
            let cause = std::io::Error::other("the system has none");
            Error::System { what: "no random numbers", cause }
        })?;
        Ok(Verified { key, tags: Mutex::default() })
    }

    /// Whether this login was right before, and its user has the same hash still.
    pub(super) fn knows(&self, users: &[User], login: &Credentials) -> bool {
        let known = |user: &User| {
            let text = login.against(user);
            self.tags().iter().any(|tag| hmac::verify(&self.key, &text, tag.as_ref()).is_ok())
        };
        users.iter().find(|user| user.name == login.user).is_some_and(known)
    }

    /// Whether this is the login of one of the users. A name that no user has takes as long as a wrong password.
    pub(super) fn admits(&self, users: &[User], login: &Credentials) -> bool {
        let named = users.iter().find(|user| user.name == login.user);
        let Some(compared) = named.or(users.first()) else { return false };
        let right = compared.hash.is_of(&login.password) && named.is_some();
        if right && !self.knows(users, login) {
            let mut tags = self.tags();
            if tags.len() >= MOST {
                tags.clear();
            }
            tags.push(hmac::sign(&self.key, &login.against(compared)));
        }
        right
    }

    fn tags(&self) -> MutexGuard<'_, Vec<hmac::Tag>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first three are test vectors of jBCrypt, the others of the system's crypt(3): it reads 72 bytes, too.
    fn known() -> Vec<(String, &'static str)> {
        [
            ("", "$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s."),
            ("a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"),
            ("abcdefghijklmnopqrstuvwxyz", "$2a$06$.rCVZVOThsIa97pEDOxvGuRRgzG64bvtJ0938xuqzv18d3ZpQhstC"),
            ("päss:word", "$2b$04$abcdefghijklmnopqrstuuaAsth9Ne7VZq.6cUlrejgIqjkuzzL4W"),
            (&"x".repeat(80), "$2y$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i"),
        ]
        .map(|(password, hash)| (password.to_string(), hash))
        .to_vec()
    }

    fn login(text: &str) -> Option<Credentials> {
        let encoded = format!("Basic {}", BASE64_STANDARD.encode(text));
        Credentials::read(&HeaderValue::from_str(&encoded).unwrap())
    }

    #[test]
    fn passwords_are_compared_with_known_hashes() {
        for (password, hash) in known() {
            let user = User::new("alice", hash).unwrap_or_else(|| panic!("{hash}"));
            let users = [user];
            let verified = Verified::new().unwrap();
            for known in [false, true] {
                let right = login(&format!("alice:{password}")).unwrap();
                assert_eq!(verified.knows(&users, &right), known);
                assert!(verified.admits(&users, &right), "{hash}");
                assert!(!verified.admits(&users, &login(&format!("alice:y{password}")).unwrap()), "{hash}");
                assert!(!verified.admits(&users, &login(&format!("bob:{password}")).unwrap()), "{hash}");
            }
            assert_eq!(verified.tags().len(), 1);
        }
    }

    /// A removed user, and one with a new hash, is refused at once.
    #[test]
    fn what_was_verified_ends_with_its_hash() {
        let user = |name: &str, number: usize| User::new(name, known()[number].1).unwrap();
        let (one, other, bob) = (user("alice", 1), user("alice", 0), user("bob", 1));
        let verified = Verified::new().unwrap();
        let login = login("alice:a").unwrap();
        assert!(verified.admits(&[one], &login));
        for users in [&[other][..], &[bob], &[]] {
            assert!(!verified.knows(users, &login) && !verified.admits(users, &login));
        }
    }

    #[test]
    fn other_headers_and_hashes_are_refused() {
        for header in ["Basic", "Basic !", "Bearer YTpi", "Basic YWI=", ""] {
            assert!(Credentials::read(&HeaderValue::from_str(header).unwrap()).is_none(), "{header:?}");
        }
        let read = Credentials::read(&HeaderValue::from_static("basic YTpiOmM=")).unwrap();
        assert_eq!((read.user.as_str(), read.password.as_slice()), ("a", &b"b:c"[..]));
        let good = known()[1].1;
        for hash in [
            "",
            "a",
            "$2a$06$",
            &good[1..],
            &good[..59],
            &good.replace("$2a", "$1"),
            &good.replace("$06", "$16"),
            &good.replace("$06", "$99"),
        ] {
            assert!(Hash::read(hash).is_none(), "{hash:?}");
        }
    }
}
