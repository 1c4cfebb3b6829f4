//! The arguments of a command, borrowed for the time of the call.

use redis_module::raw;

use super::string::StringRef;

/// The argument vector, the command's name first.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a>(&'a [*mut raw::RedisModuleString]);

impl<'a> Args<'a> {
    /// Wraps an argument vector as the server passes it.
    ///
    /// # Safety
    /// `argv` must point to `argc` strings that live unchanged for all of `'a`.
    pub(super) unsafe fn from_raw(argv: *mut *mut raw::RedisModuleString, argc: std::ffi::c_int) -> Self {
        match usize::try_from(argc) {
            // SAFETY: by the promise of this function.
            Ok(len) if !argv.is_null() => Self(unsafe { std::slice::from_raw_parts(argv, len) }),
            _ => Self(&[]),
        }
    }

    /// The argument at a position; 0 is the command's name.
    pub(crate) fn get(self, position: usize) -> Option<StringRef<'a>> {
        let raw = self.0.get(position)?;
        // SAFETY: a string of the vector lives for `'a` by the promise of `from_raw`.
        unsafe { StringRef::from_raw(*raw) }
    }

    /// The same command for another key, as the server takes an argument vector.
    pub(super) fn with_key(self, key: StringRef<'_>) -> Vec<*mut raw::RedisModuleString> {
        let (name, rest) = (self.0.iter().take(1), self.0.iter().skip(2));
        name.chain([&key.as_ptr()]).chain(rest).copied().collect()
    }

    /// The bytes of the arguments from a position on.
    pub(crate) fn from(self, position: usize) -> impl Iterator<Item = &'a [u8]> {
        let args = self.0.get(position..).unwrap_or_default().iter();
        // SAFETY: a string of the vector lives for `'a` and is not null, by the promise of `from_raw`: nothing is left out.
        args.filter_map(|raw| unsafe { StringRef::from_raw(*raw) }).map(StringRef::bytes)
    }
}
