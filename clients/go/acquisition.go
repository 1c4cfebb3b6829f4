package rlock

import (
	"context"
	"errors"
	"time"
)

// While locks are held, the deadlines are checked each second: timers stand still while the machine is suspended.
const nap = time.Second

// acquisition is one owner, from its first request to its last: the shell of a machine. The client's mutex guards all of it but
// channels and contexts.
type acquisition struct {
	client  *Client
	order   order
	machine *machine
	began   time.Duration
	heldAt  time.Duration
	link    *link // of the last command
	tied    *link // of the last command that the server confirmed
	asking  *link // where the next command goes, in a cluster whose slot moves
	timer   *time.Timer
	// How long the holder's lease can last, as far as it is known.
	holderLease time.Duration
	token       int64
	guards      int // that were not released yet

	settled  chan struct{} // it has the lock, or refused says why not
	refused  error
	loss     context.Context // ends when the lock is lost
	lose     context.CancelCauseFunc
	released chan struct{} // the release has ended, as outcome says
	outcome  error
	gone     chan struct{} // nothing is left of it
	levels   chan struct{} // commands that change the number of holds, one at a time
}

func (c *Client) acquisition(o order) *acquisition {
	a := &acquisition{
		client: c, order: o, machine: newMachine(o.plan), began: now(), guards: 1, holderLease: longestLook,
		settled: make(chan struct{}), released: make(chan struct{}), gone: make(chan struct{}), levels: make(chan struct{}, 1),
	}
	a.loss, a.lose = context.WithCancelCause(context.Background())
	return a
}

// begin makes the first request, as soon as the links are there.
func (a *acquisition) begin() {
	c := a.client
	c.enter(a)
	a.link = c.linkFor(a.order.lock)
	if a.waits() {
		c.listen()
	}
	if !a.link.up() || a.waits() && c.hearing != hears {
		a.machine.linkDown()
	}
	a.feed(a.machine.start)
}

func (a *acquisition) waits() bool { return a.machine.waits() }

func (a *acquisition) linkUp() { a.feed(a.machine.linkUp) }

func (a *acquisition) linkDown() { a.feed(a.machine.linkDown) }

// feed gives the machine an input, and carries out what it decides.
func (a *acquisition) feed(input func()) {
	for _, what := range a.machine.take(now(), input) {
		if what.kind == outSend {
			a.send(what)
		} else {
			a.told(what)
		}
	}
	if a.machine.down && !a.waits() && a.link.up() && a.machine.phase != phaseEnded {
		// It lacked the subscription, which it needs no more.
		a.linkUp()
		return
	}
	a.setTimer()
}

func (a *acquisition) send(what output) {
	c, o := a.client, &a.order
	link := a.asking
	if link == nil {
		link = c.linkFor(o.lock)
	} else {
		link.send([]string{"ASKING"}, o.response, ignore)
	}
	a.link, a.asking = link, nil
	if what.look {
		link.send([]string{"PTTL", o.lock}, o.response, func(reply any, _ time.Duration) { a.holderLease = readLease(reply) })
	}
	link.send(o.words(what, c.channel), o.response, func(reply any, sentAt time.Duration) {
		told := c.failure(reply, o.lock, link, a)
		if !told.failed() {
			told = readAnswer(what.command, reply, a.holderLease)
		}
		if told.kind == answeredHeld || told == one {
			a.tied = link
		}
		a.feed(func() { a.machine.reply(what.number, sentAt, told) })
	})
}

func (a *acquisition) told(what output) {
	c, lock, at := a.client, a.order.lock, now()
	switch what.kind {
	case outHeld:
		a.token, a.heldAt = what.token, at
		c.tell(Event{Kind: Acquired, Lock: lock, Took: at - a.began})
		close(a.settled)
	case outTimedOut:
		c.tell(Event{Kind: TimedOut, Lock: lock, Took: at - a.began})
		a.refuse(timedOut(lock, at-a.began, what.err))
	case outDenied:
		c.tell(Event{Kind: Denied, Lock: lock})
		a.refuse(denied(lock))
	case outRefused:
		if what.err == nil {
			what.err = unreachable(errors.New("no answer in time"))
		}
		a.refuse(what.err)
	case outRenewed:
		c.tell(Event{Kind: Renewed, Lock: lock})
	case outRenewalFailed:
		c.tell(Event{Kind: RenewalFailed, Lock: lock, Err: what.err})
	case outLost:
		a.lost(what.why)
	case outReleased:
		c.tell(Event{Kind: Released, Lock: lock, Took: at - a.heldAt})
		a.end(nil)
	case outReleaseLost:
		a.lost(WhyTaken)
		a.end(context.Cause(a.loss))
	case outReleaseUnknown:
		a.end(outcomeUnknown(lock, what.err))
	case outReleaseRefused:
		a.end(what.err)
	case outEnded:
		c.leave(a)
		close(a.gone)
	}
}

func (a *acquisition) refuse(err error) {
	a.refused = err
	close(a.settled)
}

func (a *acquisition) end(err error) {
	a.outcome = err
	close(a.released)
}

func (a *acquisition) lost(why Why) {
	a.client.tell(Event{Kind: Lost, Lock: a.order.lock, Why: why, Took: now() - a.heldAt})
	if why != WhyClosed {
		// A lost lock needs no release. Its release would enter it again.
		a.client.leave(a)
	}
	a.lose(lost(a.order.lock, why))
}

// abandon: the client is closed, and no answer will come any more.
func (a *acquisition) abandon() {
	a.machine.phase = phaseEnded
	a.setTimer()
	a.client.leave(a)
	close(a.gone)
	select {
	case <-a.released:
	default:
		a.end(outcomeUnknown(a.order.lock, closed()))
	}
}

func (a *acquisition) setTimer() {
	at, m := a.machine.timer(), a.machine
	if a.timer != nil {
		a.timer.Stop()
	}
	if at >= forever {
		return
	}
	delay := at - now()
	if m.phase == phaseHeld {
		window := max(1, min(renewalWindow, a.order.lease/30))
		// Renewals that are due at nearly the same time go in one piece.
		if early := delay - at%window; at < m.deadline() && early > 0 {
			delay = early
		}
		delay = min(delay, nap)
	}
	if a.timer == nil {
		a.timer = time.AfterFunc(delay, func() { a.client.do(func() { a.feed(a.machine.tick) }) })
	} else {
		a.timer.Reset(delay)
	}
}

// check is how much longer the lock is held without another renewal.
func (a *acquisition) check() (left time.Duration, err error) {
	a.client.do(func() {
		if left = a.machine.deadline() - now(); a.machine.phase == phaseHeld && left > 0 {
			return
		}
		a.feed(a.machine.tick)
		left, err = 0, context.Cause(a.loss)
		if err == nil {
			err = lost(a.order.lock, WhyReleased)
		}
	})
	return left, err
}

// leave releases one of the guards.
func (a *acquisition) leave(ctx context.Context) error {
	left := 0
	a.client.do(func() {
		a.feed(a.machine.tick) // a deadline that has passed unseen is a loss
		a.drop()
		left = a.guards
	})
	if err := context.Cause(a.loss); err != nil {
		return err
	}
	if left > 0 {
		return a.leaveOthers(ctx)
	}
	select {
	case <-a.released:
		return a.outcome
	case <-ctx.Done():
	}
	// The release is on its way, and is repeated in the background if necessary.
	select {
	case <-a.released:
		return a.outcome
	case <-time.After(a.order.response):
		return outcomeUnknown(a.order.lock, context.Cause(ctx))
	}
}

func (a *acquisition) release() {
	if a.machine.phase == phaseLost {
		a.client.enter(a)
		if a.link = a.client.linkFor(a.order.lock); a.link.up() {
			a.linkUp()
		} else {
			a.linkDown()
		}
	}
	a.feed(a.machine.release)
}

// level waits for its turn to change the number of holds.
func (a *acquisition) level(ctx context.Context) (done func(), err error) {
	select {
	case a.levels <- struct{}{}:
		return func() { <-a.levels }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reenter adds a hold, for one more guard.
func (a *acquisition) reenter(ctx context.Context) error {
	done, err := a.level(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err := a.check(); err != nil {
		return err
	}
	o, holds := a.order, 0
	o.fair = false // it holds the lock already
	a.client.do(func() {
		a.guards++
		holds = a.guards
	})
	var told answer
	// The server counts one permit, however many guards there are here.
	if o.mode != modePermit {
		var reply any
		reply, err = a.client.request(ctx, o.lock, o.acquire(holds)...)
		if told = readAnswer(cmdAcquire, reply, 0); err == nil && told.failed() {
			err = told.err
		}
	}
	a.client.do(func() {
		switch {
		case err != nil || o.mode == modePermit:
		case told.kind == answeredHeld:
			a.token = max(a.token, told.value)
		default:
			a.feed(func() { a.machine.lose(WhyTaken) })
		}
	})
	if err == nil {
		_, err = a.check()
	}
	if err != nil {
		a.client.do(a.drop)
	}
	return err
}

// drop ends a guard, and the hold with the last one.
func (a *acquisition) drop() {
	a.guards--
	if a.guards == 0 {
		a.release()
	}
}

// leaveOthers releases one of several holds. Whatever comes of it: the last one removes all.
func (a *acquisition) leaveOthers(ctx context.Context) error {
	done, err := a.level(ctx)
	if err != nil {
		return err
	}
	defer done()
	holds := 0
	a.client.do(func() { holds = a.guards })
	if holds > 0 && a.order.mode != modePermit {
		_, _ = a.client.request(ctx, a.order.lock, a.order.releaseBut(holds)...)
	}
	return nil
}
