package rlock

import (
	"errors"
	"time"
)

// LockOption is an option of a plain lock.
type LockOption interface{ ofLock(*order) }

// WriteOption is an option of a write lock; plain locks have it too.
type WriteOption interface {
	LockOption
	ofWrite(*order)
}

// ReadOption is an option that locks of all kinds have.
type ReadOption interface {
	WriteOption
	ofRead(*order)
}

type option func(*order)

func (set option) ofLock(o *order)  { set(o) }
func (set option) ofWrite(o *order) { set(o) }
func (set option) ofRead(o *order)  { set(o) }

// Lease is how long a hold lasts unless it is renewed; that of the client by default.
func Lease(lease time.Duration) ReadOption {
	return option(func(o *order) { o.lease = lease })
}

// Wait is how long Acquire and Run wait at most, beside their context; that of the client by default.
func Wait(wait time.Duration) ReadOption {
	return option(func(o *order) { o.wait = wait })
}

// NoRenewal: the lock ends with its lease.
func NoRenewal() ReadOption {
	return option(func(o *order) { o.renew = false })
}

// SessionGrace is how long the lock outlives the connection of its process, from 100 ms. The client proves four times in it that
// it lives; the lock is lost if the connection is away for longer. The server frees the lock when it notices the end of the
// connection: a stopped process or a cut network keeps the lock until its lease ends.
func SessionGrace(grace time.Duration) ReadOption {
	return option(func(o *order) { o.grace = grace })
}

// Owner is the owner, instead of a new one for each acquisition: acquiring a lock that it holds in this client re-enters it.
func Owner(owner string) ReadOption {
	return option(func(o *order) { o.owner = owner })
}

// Fenced gives each guard a token that is larger than those of all earlier holders.
func Fenced() WriteOption {
	return option(func(o *order) { o.fenced = true })
}

// Fair keeps one order with Redisson fair waiters of that name. Without Redisson clients, a lock is fair already.
func Fair() LockOption {
	return option(func(o *order) { o.fair = true })
}

func checkTime(what string, time, least time.Duration) error {
	if time < least || time > longestTime {
		return invalid("%s is from %v to %v, not %v", what, least, longestTime, time)
	}
	return nil
}

func (o *order) check() error {
	least := 100 * time.Millisecond
	if o.grace == 0 {
		least = 0
	}
	wait := o.wait
	if wait == forever {
		wait = longestTime
	}
	return errors.Join(checkTime("a lease", o.lease, time.Millisecond), checkTime("a wait", wait, time.Nanosecond),
		checkTime("a session grace", o.grace, least))
}
