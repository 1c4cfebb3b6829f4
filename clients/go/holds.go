package rlock

import (
	"context"
	"time"
)

// How long a release whose context is done waits for an answer that is on its way.
const lastMoment = 50 * time.Millisecond

// check is how much longer the lock is held without another renewal.
func (a *acquisition) check() (left time.Duration, err error) {
	a.client.do(func() {
		if left = a.machine.deadline() - now(); a.machine.phase == phaseHeld && left > 0 {
			return
		}
		a.feed(a.machine.tick)
		left, err = 0, context.Cause(a.loss)
		if err == nil {
			err = a.order.lost(WhyReleased)
		}
	})
	return left, err
}

// leave releases one of the guards, or detaches the only one.
func (a *acquisition) leave(ctx context.Context, detaches bool) error {
	left := 0
	a.client.do(func() {
		a.feed(a.machine.tick) // a deadline that has passed unseen is a loss
		if detaches {
			a.drop(a.machine.detach)
		} else {
			a.drop(a.machine.release)
		}
		left, a.served = a.guards, true
	})
	if err := context.Cause(a.loss); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, a.client.patience)
	defer cancel()
	if left > 0 {
		a.leaveOthers(limited)
		if detaches {
			return invalid("the lock %s has other guards; release them before you detach it", shown(a.order.lock))
		}
		return nil
	}
	select {
	case <-a.released:
		return a.outcome
	case <-limited.Done():
	}
	// The release goes on in the background. Where ctx was done before, it is just being sent.
	select {
	case <-a.released:
		return a.outcome
	case <-time.After(lastMoment):
	}
	var kept error
	a.client.do(func() { kept = a.link.overdue(ctx) })
	return outcomeUnknown(a.order.lock, kept)
}

// giveBack releases a guard that its caller did not get, without a wait for the answer.
func (a *acquisition) giveBack() {
	a.client.do(func() {
		a.feed(a.machine.tick)
		end := func() { a.machine.cancel(nil) }
		if a.served {
			end = a.machine.release
		}
		if a.drop(end); a.guards > 0 {
			go func() {
				limited, cancel := context.WithTimeout(a.client.ended, a.client.patience)
				defer cancel()
				a.leaveOthers(limited)
			}()
		}
	})
}

// release ends the hold, by this input of the machine.
func (a *acquisition) release(end func()) {
	if a.machine.phase == phaseLost {
		a.client.enter(a)
		if a.link = a.client.linkFor(a.order.lock); a.link.up() {
			a.linkUp()
		} else {
			a.linkDown()
		}
	}
	a.feed(end)
}

// level waits for its turn to change the number of holds.
func (a *acquisition) level(ctx context.Context) (done func(), err error) {
	select {
	case a.levels <- struct{}{}:
		return func() { <-a.levels }, nil
	case <-ctx.Done():
		return nil, interrupted(ctx)
	}
}

// reenter adds a hold, for one more guard.
func (a *acquisition) reenter(ctx context.Context) error {
	done, err := a.level(ctx)
	if err != nil {
		return err
	}
	defer done()
	o, holds := a.order, 0
	o.fair = false // it holds the lock already
	a.client.do(func() {
		// The last guard may just have been released: a hold that is added now would stay until the lease ends.
		if a.guards > 0 {
			a.guards++
			holds = a.guards
		}
	})
	if holds == 0 {
		return o.lost(WhyReleased)
	}
	// The server counts one permit, however many guards there are here.
	if _, err = a.check(); err == nil && o.mode != modePermit {
		var reply any
		reply, err = a.client.requestFor(ctx, a.tiedBeside, o.lock, o.acquire(holds)...)
		told := readAnswer(cmdAcquire, reply, 0)
		if err == nil && told.failed() {
			err = told.err
		}
		a.client.do(func() {
			if told.kind == answeredHeld {
				a.token = max(a.token, told.value)
			} else if err == nil {
				a.feed(func() { a.machine.lose(WhyTaken) })
			}
		})
	}
	if err == nil {
		_, err = a.check()
	}
	if err != nil {
		a.client.do(func() { a.drop(a.machine.release) })
	}
	return err
}

// tiedBeside: a command that is not the machine's has tied the session to this link, or may have. The end of its connection ends the tie
// from now on, and a renewal ties the session anew.
func (a *acquisition) tiedBeside(l *link, sentAt time.Duration, told answer) {
	m := a.machine
	if a.order.grace == 0 || a.tied == l || m.phase != phaseHeld || told.failed() && told.kind != failedUnanswered {
		return
	}
	a.tied, m.proven = l, min(m.proven, sentAt)
	a.linkDown()
	if a.link.up() {
		a.linkUp()
	}
}

// drop ends a guard, and the hold with the last one.
func (a *acquisition) drop(end func()) {
	a.guards--
	if a.guards == 0 {
		delete(a.client.named, a.order.claim())
		a.release(end)
	}
}

// leaveOthers releases one of several holds. Whatever comes of it: the last one removes all.
func (a *acquisition) leaveOthers(ctx context.Context) {
	done, err := a.level(ctx)
	if err != nil {
		return
	}
	defer done()
	holds := 0
	a.client.do(func() { holds = a.guards })
	if holds > 0 && a.order.mode != modePermit {
		_, _ = a.client.request(ctx, a.order.lock, a.order.releaseBut(holds)...)
	}
}
