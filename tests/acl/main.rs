//! Users with rights for some commands and keys.

mod acl;
mod acl_keys;
mod acl_selectors;
mod reach;
