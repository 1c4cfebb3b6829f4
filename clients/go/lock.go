package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

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
	} else if len(name) < 1 || len(name) > 1024 {
		h.err = invalid("the name of a lock has 1 to 1024 bytes, not %d", len(name))
	}
	// The lease on the wire is in whole ms.
	h.order.lease = h.order.lease.Truncate(time.Millisecond)
	h.order.grace = h.order.grace.Truncate(time.Millisecond)
	h.order.response = min(c.response, max(50*time.Millisecond, h.order.lease/6))
	return h
}

// Lock is a lock by its name. Each acquisition has a new owner.
type Lock struct{ handle }

// WriteLock is the write side of a read/write lock.
type WriteLock struct{ handle }

// ReadWriteLock is held by many readers together, or by one writer alone.
type ReadWriteLock struct {
	client *Client
	name   string
}

// Lock is the lock with this name. The name is the key in the server.
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
func (l *ReadWriteLock) Read(options ...Option) *Lock {
	return &Lock{l.client.readers(l.name, modeRead, options)}
}

func (c *Client) readers(name string, mode mode, options []Option) handle {
	return c.handle(name, mode, func(o *order) {
		for _, each := range options {
			each.ofAll(o)
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

// Semaphore is held by at most permits owners at once. The server does not store the number: use the same number everywhere.
func (c *Client) Semaphore(name string, permits int, options ...Option) *Lock {
	h := c.readers(name, modePermit, options)
	if h.order.permits = permits; permits < 1 || permits > math.MaxInt32 {
		h.err = invalid("a semaphore has from 1 to %d permits, not %d", math.MaxInt32, permits)
	}
	return &Lock{h}
}

// Acquire waits for the lock. When ctx is done, the wait ends, but not a hold; after a deadline, with ErrTimeout. The limit is ctx, and
// Wait; without both it waits for ever.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) { return l.acquire(ctx, false) }

// TryAcquire asks for the lock once. The error is ErrDenied if another owner holds it. The limit is ctx, and ResponseTimeout.
func (l *Lock) TryAcquire(ctx context.Context) (*Held, error) { return l.acquire(ctx, true) }

// Adopt takes over the hold of an owner that another process has detached, and renews it. It does not wait for the lock: the error
// is ErrLost if the owner does not hold it. A fencing token stays with the other process: Token is 0. The limit is ctx, and ResponseTimeout.
func (l *Lock) Adopt(ctx context.Context, owner string) (*Held, error) { return l.adopt(ctx, owner) }

// Run holds the lock while work runs. The context of work ends when the lock is lost, with the cause ErrLost. Run returns that loss
// unless work has failed otherwise. When ctx is done, both the wait and the context of work end. The limits are those of Acquire and
// of Held.Release; the only limit of work is ctx.
func (l *Lock) Run(ctx context.Context, work func(ctx context.Context, held *Held) error) error {
	held, err := l.Acquire(ctx)
	return run(ctx, held, err, work)
}

// Acquire is Lock.Acquire.
func (l *WriteLock) Acquire(ctx context.Context) (*WriteHeld, error) {
	return writeHeld(l.acquire(ctx, false))
}

// TryAcquire is Lock.TryAcquire.
func (l *WriteLock) TryAcquire(ctx context.Context) (*WriteHeld, error) {
	return writeHeld(l.acquire(ctx, true))
}

// Adopt is Lock.Adopt.
func (l *WriteLock) Adopt(ctx context.Context, owner string) (*WriteHeld, error) {
	return writeHeld(l.adopt(ctx, owner))
}

// Run is Lock.Run.
func (l *WriteLock) Run(ctx context.Context, work func(ctx context.Context, held *WriteHeld) error) error {
	held, err := l.Acquire(ctx)
	return run(ctx, held, err, work)
}

func writeHeld(held *Held, err error) (*WriteHeld, error) {
	if err != nil {
		return nil, err
	}
	return &WriteHeld{held}, nil
}

// Name is the key in the server.
func (h *handle) Name() string { return h.order.lock }

// Locked is whether the lock is held. The limit is ctx, and ResponseTimeout.
func (h *handle) Locked(ctx context.Context) (bool, error) {
	info, err := h.Info(ctx)
	return err == nil && info.Kind != "none", err
}

// Info is the lock, as the server sees it. The limit is ctx, and ResponseTimeout.
func (h *handle) Info(ctx context.Context) (Info, error) {
	reply, err := h.client.request(ctx, h.order.lock, "RLOCK.INFO", h.order.lock)
	if err != nil {
		return Info{}, err
	}
	return readInfo(reply)
}

// ForceRelease removes all holds; the holders notice it at their next renewal. It reports whether there were any. The limit
// is ctx, and ResponseTimeout.
func (h *handle) ForceRelease(ctx context.Context) (bool, error) {
	reply, err := h.client.request(ctx, h.order.lock, "RLOCK.FORCERELEASE", h.order.lock)
	return reply == int64(1), err
}

func (h *handle) acquire(ctx context.Context, once bool) (*Held, error) {
	if h.err != nil {
		return nil, h.err
	}
	o := h.order
	o.began = cmp.Or(o.began, now())
	deadline, bounded := ctx.Deadline()
	if left := time.Until(deadline) + now() - o.began; bounded && left < o.wait {
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

func (h *handle) adopt(ctx context.Context, owner string) (*Held, error) {
	o := h.order
	o.owner, o.adopts, o.wait = owner, true, 0
	if h.err != nil || owner == "" || len(owner) > 512 {
		return nil, cmp.Or(h.err, error(invalid("an owner has 1 to 512 bytes")))
	}
	var a *acquisition
	var next <-chan struct{}
	var err error
	h.client.do(func() { a, next, err = h.client.begin(o) })
	if err == nil && next != nil {
		err = invalid("this client has an acquisition of this owner; use its guard")
	} else if err == nil {
		err = a.await(ctx)
	}
	if err != nil {
		return nil, err
	}
	return newHeld(a), nil
}

// guard is one held lock, or several.
type guard interface {
	Context(parent context.Context) context.Context
	Release(ctx context.Context) error
}

func run[G guard](ctx context.Context, held G, err error, work func(context.Context, G) error) error {
	if err != nil {
		return err
	}
	defer func() { _ = held.Release(ctx) }() // work may panic
	err = work(held.Context(ctx), held)
	released := held.Release(ctx)
	if err == nil || errors.Is(err, context.Canceled) && errors.Is(released, ErrLost) {
		return released
	}
	return err
}

// acquire is for a new owner, or for one of the caller's: that has one acquisition of a lock at a time, which a later one re-enters.
func (c *Client) acquire(ctx context.Context, o order) (*acquisition, error) {
	began, wait := cmp.Or(o.began, now()), o.wait
	for {
		waited := now() - began
		if err := ctx.Err(); wait != 0 && (waited >= wait || errors.Is(err, context.DeadlineExceeded)) {
			return nil, timedOut(o.lock, waited, c.trouble(o.lock))
		} else if err != nil {
			return nil, interrupted(ctx)
		}
		o.wait = wait - min(waited, wait)
		var a *acquisition
		var next <-chan struct{}
		var err error
		c.do(func() { a, next, err = c.begin(o) })
		switch {
		case err != nil:
			return nil, err
		case a != nil && next != nil:
			if err = a.reenter(ctx); !errors.Is(err, ErrLost) || a.loss.Err() != nil {
				return a, err
			} // else its last guard was released meanwhile
		case a != nil:
			return a, a.await(ctx)
		case wait == 0:
			return nil, denied(o.lock)
		}
		wake, cancel := context.WithTimeout(ctx, o.wait)
		select {
		case <-next:
		case <-wake.Done():
		}
		cancel()
	}
}

// trouble is why the server of a lock cannot be reached, or nil.
func (c *Client) trouble(lock string) (err error) {
	c.do(func() {
		if link := c.linkFor(lock); !link.up() {
			err = link.trouble
		}
	})
	return err
}

// begin begins an acquisition. If its owner has another one, that is returned instead, or what must end before. While a lost one
// has guards, there is no next: their release would end its hold. The caller holds the mutex.
func (c *Client) begin(o order) (a *acquisition, next <-chan struct{}, err error) {
	named := o.owner != ""
	if c.closing {
		return nil, nil, closed()
	} else if !named {
		c.numbers++
		o.owner = fmt.Sprintf("%s:%d", c.identity, c.numbers)
	}
	if other := c.acquisitions[o.claim()]; other != nil {
		other.feed(other.machine.tick) // a deadline that has passed unseen is a loss
	}
	if before := c.named[o.claim()]; before != nil && before.loss.Err() != nil {
		return nil, nil, context.Cause(before.loss)
	}
	other := c.acquisitions[o.claim()]
	switch {
	case other == nil:
		a = c.acquisition(o, named)
		a.begin()
	case other.machine.undecided():
		next = other.settled
	case other.machine.phase == phaseHeld:
		a, next = other, other.gone
	default:
		next = other.gone
	}
	return a, next, nil
}

// await waits until the lock is held, or refused. The machine removes the rest from the server.
func (a *acquisition) await(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		if _, bounded := ctx.Deadline(); bounded && a.order.wait != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return // that is the end of the wait, and so a time-out
		}
		a.client.do(func() { a.cancel(a.link.overdue(ctx)) })
	})
	defer stop()
	<-a.settled
	return a.refused
}
