package rlock

import (
	"context"
	"sync"
	"time"
)

// Held is a held lock. It is renewed until it is released or lost; a forgotten Held keeps the lock while the process lives.
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
	return workContext(parent, h.over)
}

func workContext(parent, over context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(over, func() { cancel(context.Cause(over)) })
	context.AfterFunc(ctx, func() { stop() })
	return ctx
}

// Check fails with ErrLost unless the lock is held by the local clock; it sends nothing. It returns how long the hold lasts unrenewed.
func (h *Held) Check() (time.Duration, error) {
	if h.over.Err() != nil {
		return 0, context.Cause(h.over)
	}
	return h.acquisition.check()
}

// Reenter adds a hold for the same owner. The lock is free when all its guards are released. The limit is ctx, and ResponseTimeout.
func (h *Held) Reenter(ctx context.Context) (*Held, error) {
	if _, err := h.Check(); err != nil {
		return nil, err
	}
	if err := h.acquisition.reenter(ctx); err != nil {
		return nil, err
	}
	return newHeld(h.acquisition), nil
}

// Release releases the lock, and is sent even if ctx is done: ctx and ResponseTimeout bound the wait for the answer, and the release
// continues in the background. The error is ErrLost if the lock was lost before, ErrOutcomeUnknown if that cannot be known. Another
// call returns the same error.
func (h *Held) Release(ctx context.Context) error {
	h.once.Do(func() {
		h.end(h.acquisition.order.lost(WhyReleased))
		h.outcome = h.acquisition.leave(ctx, false)
	})
	return h.outcome
}

// Detach leaves the lock to another process, which calls Adopt with Owner: it renews the lock once, without a session, and ends this
// guard without a release. Nothing renews the lock until it is adopted; the result is how long it is held at least. For a guard that
// is not the only one, the error is ErrInvalid, and the guard is released. ctx and ResponseTimeout bound the wait for the answer.
func (h *Held) Detach(ctx context.Context) (left time.Duration, err error) {
	if _, err := h.Check(); err != nil {
		return 0, err
	}
	a := h.acquisition
	h.once.Do(func() {
		h.end(a.order.lost(WhyReleased))
		h.outcome = a.leave(ctx, true)
	})
	if h.outcome == nil {
		a.client.do(func() { left = max(0, a.machine.lease-now()) })
	}
	return left, h.outcome
}

// WriteHeld is a held write lock.
type WriteHeld struct{ *Held }

// Downgrade turns the write hold into a read hold, without another writer in between. This guard is released.
// The limit is ctx, and ResponseTimeout for each of the two.
func (h *WriteHeld) Downgrade(ctx context.Context) (*Held, error) {
	if _, err := h.Check(); err != nil {
		return nil, err
	}
	writer := h.acquisition
	o := writer.order
	o.mode, o.wait, o.fenced, o.adopts, o.began = modeRead, 0, false, false, 0
	// What is left of these times is the reader's.
	since := now() - writer.machine.heldAt
	if o.atLeast = max(0, o.atLeast-since); o.maxHold > 0 {
		o.maxHold = max(1, o.maxHold-since)
	}
	a, err := writer.client.acquire(ctx, o)
	if err != nil {
		return nil, err
	}
	writer.client.do(func() { writer.machine.plan.atLeast = 0 })
	reader := newHeld(a)
	if err := h.Release(ctx); err != nil {
		_ = reader.Release(ctx)
		return nil, err
	}
	return reader, nil
}
