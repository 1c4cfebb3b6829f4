package rlock

import (
	"cmp"
	"context"
	"time"
)

// While locks are held, the deadlines are checked each second: timers stand still while the machine is suspended.
const nap = time.Second

// acquisition is one owner, from its first request to its last: the shell of a machine. The client's mutex guards all of it but
// channels and contexts.
type acquisition struct {
	client  *Client
	order   order
	named   bool // its owner is one of the caller's
	machine *machine
	began   time.Duration
	link    *link         // to the server that has the lock, as far as it is known
	tied    *link         // of the last ENQUEUE, or command that the server confirmed
	channel string        // of the last ENQUEUE
	heard   bool          // the server has answered a command
	moved   time.Duration // when it last followed its lock to another server
	untied  int           // the number of the last command that was refused as UNTIED
	timer   *time.Timer
	// How long the holder's lease can last, as far as it is known.
	holderLease time.Duration
	token       int64
	guards      int  // that were not released yet
	served      bool // a caller had a guard, and has released it

	settled  chan struct{} // it has the lock, or refused says why not
	refused  error
	loss     context.Context // ends when the lock is lost
	lose     context.CancelCauseFunc
	released chan struct{} // the release has ended, as outcome says
	outcome  error
	gone     chan struct{} // nothing is left of it
	levels   chan struct{} // commands that change the number of holds, one at a time
}

func (c *Client) acquisition(o order, named bool) *acquisition {
	a := &acquisition{
		client: c, order: o, named: named, began: cmp.Or(o.began, now()), guards: 1, holderLease: longestLook,
		settled: make(chan struct{}), released: make(chan struct{}), gone: make(chan struct{}), levels: make(chan struct{}, 1),
	}
	plan := o.plan
	plan.confirmFirst = named
	plan.response = c.patience / 2 // asking once ends after two of them
	a.machine = newMachine(plan)
	a.loss, a.lose = context.WithCancelCause(context.Background())
	return a
}

// begin makes the first request, as soon as the links are there.
func (a *acquisition) begin() {
	a.client.enter(a)
	a.link = a.client.linkFor(a.order.lock)
	if !a.link.up() {
		a.machine.linkDown()
	}
	if a.order.adopts {
		a.feed(a.machine.adopt)
	} else {
		a.feed(a.machine.start)
	}
}

func (a *acquisition) linkUp() { a.feed(a.machine.linkUp) }

func (a *acquisition) linkDown() { a.feed(a.machine.linkDown) }

// cancel ends the wait, for this reason.
func (a *acquisition) cancel(why error) {
	if a.machine.undecided() {
		a.feed(func() { a.machine.cancel(why) })
	}
}

// follow goes to the server that has the lock by now: for the machine that is another connection.
func (a *acquisition) follow() {
	if l := a.client.linkFor(a.order.lock); l != a.link {
		a.linkDown()
		a.link, a.moved = l, now()
		if l.up() {
			a.linkUp()
		}
	}
}

// feed gives the machine an input, and carries out what it decides.
func (a *acquisition) feed(input func()) {
	for _, what := range a.machine.take(now(), input) {
		if what.kind == outSend {
			a.send(what)
		} else {
			a.told(what)
		}
	}
	a.setTimer()
}

func (a *acquisition) send(what output) {
	c, o, l := a.client, &a.order, a.link
	if what.look && !c.unreadable {
		l.send([]string{"PTTL", o.lock}, o.response, func(reply any, _ time.Duration) {
			a.holderLease = readLease(reply)
			c.unreadable = c.unreadable || denies(reply)
		})
	}
	if what.command == cmdEnqueue {
		a.channel, a.tied = l.listen(o.lock), l
	}
	l.send(o.words(what, a.channel), o.response, a.receiver(what, l))
}

// receiver takes the reply to a command that went by this link.
func (a *acquisition) receiver(what output, l *link) receiver {
	c, o, channel := a.client, &a.order, a.channel
	return func(reply any, sentAt time.Duration) {
		told := c.failure(reply, o.lock, l)
		refused, _ := reply.(serverError)
		moved, once := c.redirected(refused, o.lock, l)
		waits := a.machine.pending == what.number
		if moved {
			told.kind = failedPassing
		}
		switch {
		case !told.failed():
			told = readAnswer(what.command, reply, a.holderLease)
		case moved && !waits:
		case once != nil:
			// Only a command that the machine waits for: a request behind its CANCEL would leave a lock behind. The node that gets the
			// slot sends no grants before it has it.
			if what.command == cmdEnqueue {
				what.command = cmdAcquire
			}
			a.machine.tied = false
			once.send([]string{"ASKING"}, o.response, ignore)
			once.send(o.words(what, ""), o.response, a.receiver(what, once))
			return
		case refused.code() == "UNTIED" && waits && l == a.link && a.untied != what.number:
			a.untied = what.number
			l.send(o.words(output{command: cmdKeep, lease: what.lease}, ""), o.response, func(reply any, sentAt time.Duration) {
				if c.failure(reply, o.lock, l).failed() {
					a.receiver(what, l)(reply, sentAt)
				} else if a.machine.pending == what.number && l == a.link {
					// A closed connection, against which the server protects the hold, receives no answer: only now the tie.
					a.send(what)
				}
			})
			return
		case moved && now()-a.moved > settles:
			if a.follow(); a.link != l {
				return
			}
		case refused.ofChannel() && channel == l.channel:
			l.unsubscribed()
		}
		switch {
		case what.command == cmdAcquire && told.kind == answeredNull && l != a.link && o.wait != 0:
			told.kind = failedPassing // it asks for a place in the queue
		case told.kind == answeredQueued && channel != l.channel && l.refused != nil:
			a.cancel(l.refused) // no grant would arrive
			return
		case told.kind == answeredQueued && channel != l.channel:
			told.kind = failedPassing
		}
		a.heard = a.heard || !told.failed()
		if waits && (told.kind == answeredHeld || told == one) {
			a.tied = l
		} else if waits && told.kind == failedUnanswered && a.tied != l {
			// It may have tied the session, and the end of this connection ends the tie.
			a.tied, a.machine.tied, a.machine.proven = l, false, min(a.machine.proven, sentAt)
		}
		a.feed(func() { a.machine.reply(what.number, sentAt, told) })
	}
}

func (a *acquisition) told(what output) {
	c, lock, at := a.client, a.order.lock, now()
	switch what.kind {
	case outHeld:
		a.token = what.token
		if a.named {
			c.named[a.order.claim()] = a
		}
		c.tell(Event{Kind: Acquired, Lock: lock, Took: at - a.began})
		close(a.settled)
	case outTimedOut:
		c.tell(Event{Kind: TimedOut, Lock: lock, Took: at - a.began})
		a.refuse(timedOut(lock, at-a.began, a.kept(what.err)))
	case outDenied:
		c.tell(Event{Kind: Denied, Lock: lock})
		a.refuse(denied(lock))
	case outNotAdopted:
		a.refuse(a.order.lost(WhyTaken))
	case outRefused:
		if what.err == nil {
			what.err = a.link.kept()
		}
		a.refuse(what.err)
	case outRenewed:
		c.tell(Event{Kind: Renewed, Lock: lock})
	case outRenewalFailed:
		c.tell(Event{Kind: RenewalFailed, Lock: lock, Err: what.err})
	case outLost:
		a.lost(what.why)
	case outReleased:
		c.tell(Event{Kind: Released, Lock: lock, Took: at - a.machine.heldAt})
		a.end(nil)
	case outReleaseLost:
		a.lost(WhyTaken)
		a.end(context.Cause(a.loss))
	case outReleaseUnknown:
		if what.err == nil {
			what.err = a.link.kept()
		}
		a.end(outcomeUnknown(lock, what.err))
	case outReleaseRefused:
		a.end(what.err)
	case outEnded:
		if a.machine.kept() {
			c.keep(a.order.claim())
		}
		c.leave(a)
		close(a.gone)
	}
}

// kept is what has kept the server from answering, or nil if it has answered.
func (a *acquisition) kept(last error) error {
	switch {
	case !a.link.up():
		return a.link.kept()
	case last != nil:
		return last
	case !a.heard || a.link.silent():
		return a.link.kept()
	}
	return nil
}

func (a *acquisition) refuse(err error) {
	a.refused = err
	close(a.settled)
}

func (a *acquisition) end(err error) { a.outcome = err; close(a.released) }

func (a *acquisition) lost(why Why) {
	a.client.tell(Event{Kind: Lost, Lock: a.order.lock, Why: why, Took: now() - a.machine.heldAt})
	if why == WhyExpired || why == WhyOverdue {
		// A lost lock needs no release. Its release would enter it again.
		a.client.leave(a)
		if a.order.atLeast > 0 {
			a.client.keep(a.order.claim())
		}
	}
	a.lose(a.order.lost(why))
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
