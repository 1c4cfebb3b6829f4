//! Wake-ups and traps of waiting, for every kind of lock.

mod kinds;
mod kinds_clock;
mod kinds_departures;
mod kinds_pauses;
mod kinds_wakeups;
