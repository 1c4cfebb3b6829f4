//! What others see: replication, events, WATCH, scripts, INFO.

mod effects;
mod events;
mod info;
mod moves;
mod observation;
mod scripts;
mod watch;
