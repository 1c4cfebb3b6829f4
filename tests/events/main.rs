//! What others see: replication, events, WATCH, scripts, INFO.

mod effects;
mod events;
mod info;
mod observation;
mod scripts;
mod watch;
