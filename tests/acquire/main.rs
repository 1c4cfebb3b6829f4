//! Acquiring, renewing and releasing without waiting.

mod acquire;
mod binary;
mod errors;
mod fenced;
mod forcerelease;
mod names;
mod options;
mod refusals;
mod release;
mod renew;
mod shapes;
