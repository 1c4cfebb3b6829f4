//! The directory a server keeps its data, its configuration and its log in.

use std::fs::{DirBuilder, remove_dir_all};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A server's directory, removed with this value.
///
/// It outlives its server ([`crate::TestServer::shutdown`]), so that the next one can be started
/// on the same data with [`crate::ServerBuilder::dir`].
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// Creates an empty directory of its own below the system's temporary directory.
    pub fn temporary() -> DataDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("rlock-testkit-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return DataDir { path },
                // Left behind by a killed process that had the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot create {}: {error}; set TMPDIR", path.display()),
            }
        }
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // A snapshot child of a killed server may still be creating its file: try again.
        for _ in 0..10 {
            if remove_dir_all(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("cannot remove {}: remove it by hand", self.path.display());
    }
}
