package rlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
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
// it lives; the lock is lost if the connection is away for longer.
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

// Fair keeps one order with the waiters of Redisson's fair lock of that name. Without Redisson clients, a lock is fair already.
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

// handle is what all locks are: a name and options. It does no I/O until it is acquired.
type handle struct {
	client *Client
	order  order
	err    error
}

func (c *Client) handle(name string, mode mode, set func(*order)) handle {
	h := handle{client: c, order: c.defaults}
	h.order.lock, h.order.mode = name, mode
	set(&h.order)
	h.err = h.order.check()
	if len(h.order.owner) > 512 {
		h.err = invalid("an owner has 1 to 512 bytes")
	}
	// The lease on the wire is in whole ms.
	h.order.lease = h.order.lease.Truncate(time.Millisecond)
	h.order.grace = h.order.grace.Truncate(time.Millisecond)
	h.order.response = min(c.response, max(50*time.Millisecond, h.order.lease/6))
	return h
}

// Lock is a lock by its name. Each acquisition is another owner.
type Lock struct{ handle }

// WriteLock is the write side of a read/write lock.
type WriteLock struct{ handle }

// ReadWriteLock is held by many readers together, or by one writer alone.
type ReadWriteLock struct {
	client *Client
	name   string
}

// Lock is the lock with this name: the key in the server.
func (c *Client) Lock(name string, options ...LockOption) *Lock {
	return &Lock{c.handle(name, "", func(o *order) {
		for _, each := range options {
			each.ofLock(o)
		}
	})}
}

// ReadWriteLock is the read/write lock with this name.
func (c *Client) ReadWriteLock(name string) *ReadWriteLock { return &ReadWriteLock{c, name} }

// Read is the side of the readers.
func (l *ReadWriteLock) Read(options ...ReadOption) *Lock {
	return &Lock{l.client.readers(l.name, modeRead, options)}
}

func (c *Client) readers(name string, mode mode, options []ReadOption) handle {
	return c.handle(name, mode, func(o *order) {
		for _, each := range options {
			each.ofRead(o)
		}
	})
}

// Write is the side of the writers.
func (l *ReadWriteLock) Write(options ...WriteOption) *WriteLock {
	return &WriteLock{l.client.handle(l.name, modeWrite, func(o *order) {
		for _, each := range options {
			each.ofWrite(o)
		}
	})}
}

// Semaphore is held by at most permits owners at once. The server does not store the number: use the same one everywhere.
func (c *Client) Semaphore(name string, permits int, options ...ReadOption) *Lock {
	h := c.readers(name, modePermit, options)
	if h.order.permits = permits; permits < 1 || permits > math.MaxInt32 {
		h.err = invalid("a semaphore has from 1 to %d permits, not %d", math.MaxInt32, permits)
	}
	return &Lock{h}
}

// Acquire waits for the lock. When ctx is done, the wait ends, and not the hold: a deadline is an ErrTimeout.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) { return l.acquire(ctx, false) }

// TryAcquire asks once. The error is ErrDenied if another owner holds the lock.
func (l *Lock) TryAcquire(ctx context.Context) (*Held, error) { return l.acquire(ctx, true) }

// Run holds the lock while work runs. The context of work ends when the lock is lost, with the cause ErrLost. Run returns that
// loss unless work has failed otherwise. When ctx is done, both the wait and the context of work end.
func (l *Lock) Run(ctx context.Context, work func(ctx context.Context, held *Held) error) error {
	held, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return held.run(ctx, func(ctx context.Context) error { return work(ctx, held) })
}

// Acquire is Lock.Acquire.
func (l *WriteLock) Acquire(ctx context.Context) (*WriteHeld, error) {
	return writeHeld(l.acquire(ctx, false))
}

// TryAcquire is Lock.TryAcquire.
func (l *WriteLock) TryAcquire(ctx context.Context) (*WriteHeld, error) {
	return writeHeld(l.acquire(ctx, true))
}

// Run is Lock.Run.
func (l *WriteLock) Run(ctx context.Context, work func(ctx context.Context, held *WriteHeld) error) error {
	held, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return held.run(ctx, func(ctx context.Context) error { return work(ctx, held) })
}

func writeHeld(held *Held, err error) (*WriteHeld, error) {
	if err != nil {
		return nil, err
	}
	return &WriteHeld{held}, nil
}

// Name is the key in the server.
func (h *handle) Name() string { return h.order.lock }

// Locked is whether the lock is held.
func (h *handle) Locked(ctx context.Context) (bool, error) {
	info, err := h.Info(ctx)
	return err == nil && info.Kind != "none", err
}

// Info is the lock, as the server sees it.
func (h *handle) Info(ctx context.Context) (Info, error) {
	reply, err := h.client.request(ctx, h.order.lock, "RLOCK.INFO", h.order.lock)
	if err != nil {
		return Info{}, err
	}
	return readInfo(reply)
}

// ForceRelease removes all holds; the holders notice it at their next renewal. It reports whether there were any.
func (h *handle) ForceRelease(ctx context.Context) (bool, error) {
	reply, err := h.client.request(ctx, h.order.lock, "RLOCK.FORCERELEASE", h.order.lock)
	return reply == int64(1), err
}

func (h *handle) acquire(ctx context.Context, once bool) (*Held, error) {
	if h.err != nil {
		return nil, h.err
	}
	o := h.order
	deadline, bounded := ctx.Deadline()
	if left := time.Until(deadline); bounded && left < o.wait {
		o.wait = left
	} else {
		bounded = false
	}
	if once {
		o.wait, bounded = 0, false
	}
	a, err := h.client.acquire(ctx, o)
	var timeout *Error
	if bounded && errors.As(err, &timeout) && timeout.kind == ErrTimeout {
		timeout.cause = errors.Join(context.DeadlineExceeded, timeout.cause)
	}
	if err != nil {
		return nil, err
	}
	return newHeld(a), nil
}

// acquire is for a new owner, or for one of the caller's: that has one acquisition of a lock at a time, which a later one re-enters.
func (c *Client) acquire(ctx context.Context, o order) (*acquisition, error) {
	began, wait := now(), o.wait
	for {
		waited := now() - began
		if err := ctx.Err(); wait != 0 && (waited >= wait || errors.Is(err, context.DeadlineExceeded)) {
			return nil, timedOut(o.lock, waited, nil)
		} else if err != nil {
			return nil, context.Cause(ctx)
		}
		o.wait = wait - min(waited, wait)
		a, next, err := c.begin(o)
		switch {
		case err != nil:
			return nil, err
		case a != nil && next != nil:
			return a, a.reenter(ctx)
		case a != nil:
			return a, a.await(ctx)
		case wait == 0:
			return nil, denied(o.lock)
		}
		select {
		case <-next:
		case <-ctx.Done():
		case <-time.After(o.wait):
		}
	}
}

// begin begins an acquisition. If its owner has another one, that is returned instead, or what must end before.
func (c *Client) begin(o order) (a *acquisition, next <-chan struct{}, err error) {
	c.do(func() {
		switch {
		case c.closing:
			err = closed()
			return
		case c.endpoint.cluster && o.wait != 0:
			err = unsupported("this client does not wait for locks in a cluster; use TryAcquire")
			return
		case c.endpoint.cluster && o.grace != 0:
			err = unsupported("this client has no sessions in a cluster; leave SessionGrace out")
			return
		case o.owner == "":
			c.numbers++
			o.owner = fmt.Sprintf("%s:%d", c.identity, c.numbers)
		}
		if other := c.acquisitions[o.claim()]; other != nil {
			other.feed(other.machine.tick) // a deadline that has passed unseen is a loss
		}
		if other := c.acquisitions[o.claim()]; other == nil {
			a = c.acquisition(o)
			a.begin()
		} else if other.machine.undecided() {
			next = other.settled
		} else if next = other.gone; other.machine.phase == phaseHeld {
			a = other
		}
	})
	return a, next, err
}

// await waits until the lock is held, or refused. The machine removes the rest from the server.
func (a *acquisition) await(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		if _, bounded := ctx.Deadline(); bounded && a.order.wait != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return // that is the end of the wait, and so a time-out
		}
		a.client.do(func() { a.feed(func() { a.machine.cancel(context.Cause(ctx)) }) })
	})
	defer stop()
	<-a.settled
	return a.refused
}

// Held is a held lock. It is renewed until it is released or lost; one that is forgotten stays held while the process lives.
type Held struct {
	acquisition *acquisition
	over        context.Context // it was lost or released
	end         context.CancelCauseFunc
	once        sync.Once
	outcome     error
}

func newHeld(a *acquisition) *Held {
	held := &Held{acquisition: a}
	held.over, held.end = context.WithCancelCause(a.loss)
	return held
}

// Name is the lock's name.
func (h *Held) Name() string { return h.acquisition.order.lock }

// Owner is the owner, as the server knows it.
func (h *Held) Owner() string { return h.acquisition.order.owner }

// Token is the fencing token of a fenced lock, the newest one; 0 for others.
func (h *Held) Token() (token int64) {
	h.acquisition.client.do(func() { token = h.acquisition.token })
	return token
}

// Lost is closed as soon as the lock is lost.
func (h *Held) Lost() <-chan struct{} { return h.acquisition.loss.Done() }

// Context is for the work that the lock protects: it ends with parent, at the loss of the lock, with the cause ErrLost, and at
// the release.
func (h *Held) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.over, func() { cancel(context.Cause(h.over)) })
	context.AfterFunc(ctx, func() { stop() })
	return ctx
}

// Check fails with ErrLost unless the lock is held by the local clock; it sends nothing. It returns for how long without a renewal.
func (h *Held) Check() (time.Duration, error) {
	if h.over.Err() != nil {
		return 0, context.Cause(h.over)
	}
	return h.acquisition.check()
}

// Reenter adds a hold for the same owner. The lock is free when all its guards are released.
func (h *Held) Reenter(ctx context.Context) (*Held, error) {
	if _, err := h.Check(); err != nil {
		return nil, err
	}
	if err := h.acquisition.reenter(ctx); err != nil {
		return nil, err
	}
	return newHeld(h.acquisition), nil
}

// Release releases the lock, and is sent even if ctx is done: ctx bounds the wait for the answer. The error is ErrLost if the lock
// was lost before, ErrOutcomeUnknown if that cannot be known. Another call returns the same again.
func (h *Held) Release(ctx context.Context) error {
	h.once.Do(func() {
		h.end(lost(h.Name(), WhyReleased))
		h.outcome = h.acquisition.leave(ctx)
	})
	return h.outcome
}

func (h *Held) run(ctx context.Context, work func(context.Context) error) error {
	defer func() { _ = h.Release(ctx) }() // work may panic
	err := work(h.Context(ctx))
	released := h.Release(ctx)
	if err == nil || errors.Is(err, context.Canceled) && errors.Is(released, ErrLost) {
		return released
	}
	return err
}

// WriteHeld is a held write lock.
type WriteHeld struct{ *Held }

// Downgrade reads instead of writing, without letting another writer in between. This guard is released.
func (h *WriteHeld) Downgrade(ctx context.Context) (*Held, error) {
	if _, err := h.Check(); err != nil {
		return nil, err
	}
	o := h.acquisition.order
	o.mode, o.wait, o.fenced = modeRead, 0, false
	a, err := h.acquisition.client.acquire(ctx, o)
	if err != nil {
		return nil, err
	}
	reader := newHeld(a)
	if err := h.Release(ctx); err != nil {
		_ = reader.Release(ctx)
		return nil, err
	}
	return reader, nil
}
