package rlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// LockAll is several locks of a client as one. Free locks take one round trip. If another owner holds one of them, the locks before it
// by name stay held, those after it are released, and the client waits in the queue of that one. So two LockAlls never wait for each
// other. Code that holds one of the locks and waits for an earlier one can wait for ever: set a limit with Wait or a context. Locks
// that are released before you have all are free at once, also with AtLeast.
type LockAll struct {
	client *Client
	locks  []*Lock
}

// LockAll is all the locks with these names as one. Each has these options; Wait is the limit for all of them together.
func (c *Client) LockAll(names []string, options ...LockOption) *LockAll {
	names = slices.Clone(names)
	slices.Sort(names)
	all := &LockAll{client: c}
	for _, name := range slices.Compact(names) {
		all.locks = append(all.locks, c.Lock(name, options...))
	}
	return all
}

// Acquire waits for the locks. The limit for all of them together is ctx, and Wait; without both it waits for ever.
func (l *LockAll) Acquire(ctx context.Context) (*AllHeld, error) { return l.acquire(ctx, false) }

// TryAcquire asks for the locks once. The error is ErrDenied if another owner holds one of them. In this case none stays held:
// the others are released in the background. The limit is ctx, and ResponseTimeout.
func (l *LockAll) TryAcquire(ctx context.Context) (*AllHeld, error) { return l.acquire(ctx, true) }

// Run is Lock.Run.
func (l *LockAll) Run(ctx context.Context, work func(ctx context.Context, held *AllHeld) error) error {
	held, err := l.Acquire(ctx)
	return run(ctx, held, err, work)
}

func (l *LockAll) acquire(ctx context.Context, once bool) (*AllHeld, error) {
	if len(l.locks) == 0 {
		return nil, invalid("LockAll needs the name of a lock")
	}
	all := &AllHeld{locks: make([]*Held, len(l.locks))}
	err := l.fill(ctx, all.locks, once)
	if err == nil {
		_, err = all.Check()
	}
	if err != nil {
		giveBack(all.locks)
		return nil, err
	}
	all.loss, all.lose = context.WithCancelCause(context.Background())
	all.over, all.end = context.WithCancelCause(all.loss)
	for _, each := range all.locks {
		loss := each.acquisition.loss
		context.AfterFunc(loss, func() { all.lose(context.Cause(loss)) })
	}
	return all, nil
}

func (l *LockAll) fill(ctx context.Context, held []*Held, once bool) error {
	for began := now(); ; {
		for i, each := range held {
			if each == nil {
				continue
			} else if _, err := each.Check(); err != nil {
				giveBack(held[i : i+1]) // it was lost during the wait for another one
			}
		}
		left := max(1, l.locks[0].order.wait-(now()-began))
		limited, cancel := context.WithTimeout(ctx, left)
		err := l.try(limited, held)
		cancel()
		missing := slices.Index(held, nil)
		if missing < 0 || once {
			return err
		}
		// Only the locks before it may be held while it is waited for. The wait meets an error again, and knows whether it passes.
		giveBack(held[missing+1:])
		next := l.locks[missing].handle
		next.order.began = began
		if held[missing], err = next.acquire(ctx, false); err != nil {
			return err
		}
	}
}

// try asks for all that are not held, in one batch. The error is that of the first one that was not acquired.
func (l *LockAll) try(ctx context.Context, held []*Held) (failed error) {
	attempts, outcomes := make([]*acquisition, len(held)), make([]error, len(held))
	l.client.do(func() {
		for i, lock := range l.locks {
			o := lock.order
			o.wait = 0
			if outcomes[i] = lock.err; held[i] != nil || lock.err != nil {
				continue
			}
			a, before, err := l.client.begin(o)
			if outcomes[i] = err; before == nil {
				attempts[i] = a
			} else { // of a named owner
				outcomes[i] = denied(o.lock)
			}
		}
	})
	for i, a := range attempts {
		if a != nil {
			if outcomes[i] = a.await(ctx); outcomes[i] == nil {
				held[i] = newHeld(a)
			}
		}
		if failed == nil {
			failed = outcomes[i]
		}
	}
	return failed
}

// giveBack releases, in the background, what the caller did not get.
func giveBack(held []*Held) {
	for _, each := range held {
		if each != nil {
			each.acquisition.giveBack()
		}
	}
	clear(held)
}

// releaseAll says that a lock was lost before it says anything else.
func releaseAll(ctx context.Context, held []*Held) (err error) {
	outcomes := make(chan error, len(held))
	for _, each := range held {
		go func() {
			if each == nil {
				outcomes <- nil
			} else {
				outcomes <- each.Release(ctx)
			}
		}()
	}
	for range held {
		if outcome := <-outcomes; err == nil || errors.Is(outcome, ErrLost) {
			err = outcome
		}
	}
	return err
}

// AllHeld are several held locks. They are lost as soon as one is; the others stay held until the release.
type AllHeld struct {
	locks      []*Held
	loss, over context.Context
	lose, end  context.CancelCauseFunc
	once       sync.Once
	outcome    error
}

// Locks are the guards of the locks, by name.
func (h *AllHeld) Locks() []*Held { return slices.Clone(h.locks) }

// Lost is closed as soon as one of the locks is lost.
func (h *AllHeld) Lost() <-chan struct{} { return h.loss.Done() }

// Context is Held.Context: it ends at the first loss.
func (h *AllHeld) Context(parent context.Context) context.Context { return workContext(parent, h.over) }

// Check is Held.Check of all: the error is that of the first lock that fails.
func (h *AllHeld) Check() (left time.Duration, err error) {
	left = forever
	for _, each := range h.locks {
		one, err := each.Check()
		if err != nil {
			return 0, err
		}
		left = min(left, one)
	}
	return left, nil
}

// Release is Held.Release of all, at the same time.
func (h *AllHeld) Release(ctx context.Context) error {
	h.once.Do(func() {
		h.end(h.locks[0].acquisition.order.lost(WhyReleased))
		h.outcome = releaseAll(ctx, h.locks)
	})
	return h.outcome
}
