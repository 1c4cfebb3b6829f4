package rlock

import (
	"errors"
	"time"
)

// Option is an option of locks of all kinds: plain locks, both sides of read/write locks, and semaphores.
type Option interface {
	WriteOption
	ofAll(*order)
}

// WriteOption is what a write lock takes: each Option, and Fenced.
type WriteOption interface {
	LockOption
	ofWrite(*order)
}

// LockOption is what a plain lock takes: each Option, Fenced, and Fair.
type LockOption interface{ ofLock(*order) }

type lockOption func(*order)

func (set lockOption) ofLock(o *order) { set(o) }

type writeOption struct{ lockOption }

func (set writeOption) ofWrite(o *order) { set.lockOption(o) }

type option struct{ writeOption }

func (set option) ofAll(o *order) { set.lockOption(o) }

func optionOf(set func(*order)) Option { return option{writeOption{set}} }

// Lease is how long a hold lasts unless it is renewed, from 100 ms; that of the client by default.
func Lease(lease time.Duration) Option {
	return optionOf(func(o *order) { o.lease = lease })
}

// Wait is how long Acquire and Run wait at most, beside their context; that of the client by default.
func Wait(wait time.Duration) Option {
	return optionOf(func(o *order) { o.wait = wait })
}

// NoRenewal: the lock ends with its lease.
func NoRenewal() Option {
	return optionOf(func(o *order) { o.renew = false })
}

// AtLeast keeps the lock held for this time from its acquisition on, also if you release it sooner: for a job that must not run twice
// a minute. The release leaves the lock to a lease that is as long as the rest of the time, and Close does not end that.
func AtLeast(time time.Duration) Option {
	return optionOf(func(o *order) { o.atLeast = time })
}

// MaxHold ends the renewals this time after the acquisition, so that a job that hangs loses the lock a lease later at the latest, with
// WhyOverdue.
func MaxHold(time time.Duration) Option {
	return optionOf(func(o *order) { o.maxHold = time })
}

// SessionGrace is how long the lock outlives the connection of its process, from 100 ms. In this time the client proves four
// times that it is alive; the lock is lost if the connection is down for longer. The server frees the lock when it notices the
// end of the connection: a stopped process or a cut network keeps the lock until its lease ends.
func SessionGrace(grace time.Duration) Option {
	return optionOf(func(o *order) { o.grace = grace })
}

// Owner is the owner, instead of a new one for each acquisition: acquiring a lock that this owner holds in this client re-enters the lock.
func Owner(owner string) Option {
	return optionOf(func(o *order) { o.owner = owner })
}

// Fenced gives each guard a token that is larger than those of all earlier holders.
func Fenced() WriteOption {
	return writeOption{func(o *order) { o.fenced = true }}
}

// Fair keeps one order with Redisson fair waiters of that name. Without Redisson clients, a lock is fair already.
func Fair() LockOption {
	return lockOption(func(o *order) { o.fair = true })
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
	return errors.Join(checkTime("a lease, which needs room for its renewals,", o.lease, 100*time.Millisecond),
		checkTime("a wait", wait, time.Nanosecond), checkTime("a session grace", o.grace, least),
		checkTime("the time of AtLeast", o.atLeast, 0), checkTime("the time of MaxHold", o.maxHold, 0))
}
