//! The module's section in the server's INFO, while it is written.

use std::ffi::CStr;

use redis_module::raw;

use super::api::{api, optional_api};

/// The section being written.
pub(crate) struct InfoPage(pub(super) *mut raw::RedisModuleInfoCtx);

/// Fields are refused only outside a section that was asked for, which `on_info` makes sure of.
impl InfoPage {
    /// A field with a number; the server puts `rlock_` before the name.
    pub(crate) fn number(&self, field: &CStr, value: u64) {
        // SAFETY: the context is valid for the callback under way.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.0, field.as_ptr(), value) };
    }

    /// A field with a text.
    pub(crate) fn text(&self, field: &CStr, value: &CStr) {
        // SAFETY: as above; the server copies the text.
        unsafe { api!(RedisModule_InfoAddFieldCString)(self.0, field.as_ptr(), value.as_ptr()) };
    }
}
