package rlock

import "time"

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	Acquired      EventKind = "acquired"
	Denied        EventKind = "denied"
	TimedOut      EventKind = "timed_out"
	Released      EventKind = "released"
	Renewed       EventKind = "renewed"
	RenewalFailed EventKind = "renewal_failed"
	Lost          EventKind = "lost"
	Disconnected  EventKind = "disconnected"
	Reconnected   EventKind = "reconnected"
)

// Event is what happened to a lock, or to the connections.
type Event struct {
	Kind EventKind
	Lock string // not of Disconnected and Reconnected
	// Took is the wait of acquired and timed_out, the hold time of released and lost, the outage of reconnected.
	Took time.Duration
	Why  Why   // of lost
	Err  error // of renewal_failed and disconnected
}

// tell queues an event for the hook, which runs in a goroutine of its own: it may be slow, and use locks.
func (c *Client) tell(event Event) {
	if c.onEvent != nil {
		c.events = append(c.events, event)
		poke(c.told)
	}
}

func (c *Client) tellEvents() {
	defer close(c.allTold)
	for over := false; !over; {
		select {
		case <-c.told:
		case <-c.ended.Done():
			over = true
		}
		var events []Event
		c.do(func() { events, c.events = c.events, nil })
		for _, event := range events {
			c.onEvent(event)
		}
	}
}

// poke wakes the reader of a channel with room for one.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
