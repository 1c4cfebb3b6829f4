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
	// Dropped is how many earlier events the hook missed, because it was slow: of those that it has not received yet, the latest
	// 1000 are kept.
	Dropped int
}

const mostEvents = 1000

// tell queues an event for the hook, which runs in a goroutine of its own: it may be slow, and use locks.
func (c *Client) tell(event Event) {
	if c.onEvent == nil {
		return
	}
	if len(c.events) == mostEvents {
		select {
		case oldest := <-c.events:
			event.Dropped = oldest.Dropped + 1
		default:
		}
	}
	c.events <- event
}

func (c *Client) tellEvents() {
	defer close(c.allTold)
	for over := false; !over || len(c.events) > 0; {
		select {
		case event := <-c.events:
			c.onEvent(event)
		case <-c.ended.Done():
			over = true
		}
	}
}

// offer puts something into a channel that has room for it.
func offer[T any](to chan<- T, what T) {
	select {
	case to <- what:
	default:
	}
}
