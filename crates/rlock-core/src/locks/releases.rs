//! Releases beside many readers.

/// One in this number of releases beside many readers checks a few of the readers: each check costs more than the release.
const RELEASES_PER_LOOK: u8 = 8;

/// How many releases beside many readers there were.
#[derive(Clone, Debug, Default)]
pub struct Releases(u8);

impl Releases {
    /// Counts a release beside many readers. Returns whether it must check some of them.
    pub fn count_one(&mut self) -> bool {
        self.0 = self.0.wrapping_add(1);
        self.0.is_multiple_of(RELEASES_PER_LOOK)
    }
}
