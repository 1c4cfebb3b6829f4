//! Other versions of the module, and its removal.

mod removal;
mod upgrade;
