package rlock

import (
	"cmp"
	"math"
	"time"
)

// The machine is one acquisition, from its first request to its last: decisions only. It reads no clock and does no I/O; its
// shell feeds it inputs with the time, and carries out what it returns. Points in time are on the clock of now.

// forever is a wait, or a point in time, that never ends. It can be added to any other time.
const forever = time.Duration(math.MaxInt64 / 4)

// plan is what becomes of one acquisition.
type plan struct {
	lease, wait   time.Duration // a wait of 0 asks once
	renew, fenced bool
	// A grant by message is confirmed before the caller has the lock, whatever can be proved: the owner was used before.
	confirmFirst bool
	grace        time.Duration // of a session; 0 for none
	response     time.Duration // how long the server may take to answer a command
	// From the guard on: how long the lock stays held, also if the caller releases it; how long it is renewed, 0 for as long as it is held.
	atLeast, maxHold time.Duration
}

// The commands. ENQUEUE is an ACQUIRE that waits, KEEP a RENEW without a session: the hold then ends by itself.
const cmdEnqueue, cmdAcquire, cmdRenew = "ENQUEUE", "ACQUIRE", "RENEW"
const cmdKeep, cmdCancel, cmdRelease = "KEEP", "CANCEL", "RELEASE"

type outputKind string

const outSend, outHeld, outRenewed, outRenewalFailed, outLost outputKind = "send", "guard", "renewed", "renewal_failed", "lost"
const outTimedOut, outDenied, outRefused, outNotAdopted outputKind = "timeout", "denied", "error", "not adopted"
const outReleased, outReleaseLost, outReleaseUnknown outputKind = "released ok", "released lost", "released unknown"
const outReleaseRefused outputKind = "released error"

// outEnded: nothing is left here nor, as far as it is known, in the server.
const outEnded outputKind = "ended"

// output is what the machine wants of its shell.
type output struct {
	kind    outputKind
	number  int    // of a command
	command string // to send
	look    bool   // whether to ask for the holder's lease too, which is 30 s if it is unknown
	// In ms: of ENQUEUE, where 0 is for ever; of KEEP, and of RENEW where it is not the whole lease.
	wait, lease int64
	token       int64 // of a hold
	why         Why   // of a loss
	err         error // why, or the last failure before
}

type phase int

const phaseNew, phaseAsking, phaseQueued, phaseConfirming phase = 0, 1, 2, 3 // there is neither a lock nor a refusal
const phaseHeld, phaseReleasing, phaseLost, phaseCancelling, phaseEnded phase = 4, 5, 6, 7, 8

// A waiter that has heard nothing asks again after the first of these, and then as often as the holder's lease lasts.
const firstLook, longestLook = time.Second, 30 * time.Second

// The pause after a request that failed; each next one is twice as long.
const firstPause, longestPause = 20 * time.Millisecond, time.Second

// Renewals that are due so soon go along with those that are due now.
const renewalWindow = 100 * time.Millisecond

// After a renewal that failed, the first pause is doubled so often.
const doublings = 6

// How long after the last answer the effect of a stray request is undone.
const strayPause = time.Second

// endOf is when a lease or a grace ends by the local clock: before the server's, whose clock may run faster.
func endOf(sentAt, lasts time.Duration) time.Duration {
	return sentAt + lasts - lasts/100 - 2*time.Millisecond
}

// machine has one method for each input, which take calls.
type machine struct {
	plan  plan
	phase phase
	down  bool // the link

	out             []output
	now             time.Duration
	number, pending int // of the last command, and of the one whose reply counts; 0 for none
	// When the wait ends, the next request is due, the lease ends, a renewal is due, and a release is given up.
	end, next, lease, renewAt, giveUp time.Duration
	// When the first request was sent, than which no grant of this owner is older; when the caller got the lock; when the connection
	// lived that tied is about; until when the hold outlasts its release, for ever if it was detached.
	firstSent, heldAt, proven, keepUntil time.Duration
	unconfirmed                          time.Duration // the lease of a grant by message that no RENEW has confirmed, or 0
	pause                                time.Duration
	asks, looks, failures                int
	token                                int64
	// Whether all requests went by the present connection, or the hold was confirmed by it: a session ends with it.
	tied bool
	// Whether ENQUEUE was sent, a request was not answered, nor a release; whether a request was not answered yet when a message
	// ended the wait; whether the last release was answered; whether it begins with the hold of another process.
	queued, stray, unheard, overtaken, answered, adopts bool
	lastError                                           error
}

func newMachine(p plan) *machine {
	return &machine{plan: p, phase: phaseNew, next: forever, end: forever, pause: firstPause}
}

// take gives the machine one input, and returns the work for its shell.
func (m *machine) take(now time.Duration, input func()) []output {
	m.out, m.now = nil, now
	// Before anything else: a reply that comes too late must not bring a lost lock back.
	if now >= m.deadline() {
		m.lose(WhyExpired)
	}
	input()
	return m.out
}

// deadline is when the hold ends by the local clock: by its lease and, with a session, by the life of the connection.
func (m *machine) deadline() time.Duration {
	if m.plan.grace == 0 {
		return m.lease
	}
	return min(m.lease, endOf(m.proven, m.plan.grace))
}

// undecided is whether there is neither a lock nor a refusal.
func (m *machine) undecided() bool { return m.phase <= phaseConfirming }

// departs is whether the caller is done with the lock, and the server may not be.
func (m *machine) departs() bool { return m.phase == phaseReleasing || m.phase == phaseCancelling }

// kept is whether the hold outlasts its release: nothing may end it, whether or not the server has answered.
func (m *machine) kept() bool { return m.keepUntil > 0 }

func (m *machine) tell(o output) { m.out = append(m.out, o) }

func (m *machine) start() {
	m.end = m.now + cmp.Or(m.plan.wait, 2*m.plan.response)
	m.ask()
}

// adopt begins with the hold of another process.
func (m *machine) adopt() { m.adopts = true; m.start() }

// cancel: the caller is gone without the lock.
func (m *machine) cancel(err error) {
	if m.undecided() {
		m.refuse(outRefused, err, true)
	} else {
		m.endHold(0)
	}
}

// alive: a command that was sent on the link at this time was answered.
func (m *machine) alive(sentAt time.Duration) {
	if m.tied {
		m.proven = max(m.proven, sentAt)
	}
}

func (m *machine) send(o output) {
	m.number++
	m.pending = m.number
	o.kind, o.number = outSend, m.number
	m.tell(o)
}

func (m *machine) ask() {
	m.phase, m.next, m.pending = phaseAsking, forever, 0
	switch {
	case m.adopts:
		m.phase = phaseConfirming
		if !m.down {
			m.send(output{command: cmdRenew})
		}
		return
	case m.down:
		return
	case m.asks == 0:
		m.firstSent, m.proven, m.tied = m.now, m.now, true
	}
	m.asks++
	m.giveUp = m.now + m.plan.lease + strayPause
	if m.plan.wait == 0 {
		m.send(output{command: cmdAcquire})
		return
	}
	m.queued = true
	m.send(output{command: cmdEnqueue, wait: waitMS(m.end - m.now), look: m.looks > 0})
}

func (m *machine) confirm(token int64) {
	m.phase, m.token, m.next = phaseConfirming, token, forever
	m.giveUp = m.now + m.plan.lease + strayPause
	confirmation := cmdRenew
	if m.plan.fenced {
		// The token of the message may be one of an earlier grant.
		confirmation = cmdAcquire
	}
	m.send(output{command: confirmation})
}

// hold: a reply says that the owner holds the lock.
func (m *machine) hold(sentAt time.Duration) {
	m.lease, m.renewAt, m.proven, m.tied = endOf(sentAt, m.plan.lease), sentAt+m.plan.lease/3, sentAt, true
	if m.deadline() <= m.now {
		// The reply lay in a buffer for longer than the lease: only the server can tell.
		m.confirm(m.token)
		return
	}
	m.beginHold()
}

func (m *machine) beginHold() {
	m.phase, m.heldAt, m.pending, m.next = phaseHeld, m.now, 0, forever
	if m.adopts {
		// A RENEW of the process that detached the hold may be carried out late, with another lease.
		m.renewAt = min(m.renewAt, m.now+strayPause)
	}
	m.tell(output{kind: outHeld, token: m.token})
}

func (m *machine) reply(number int, sentAt time.Duration, a answer) {
	m.stray = m.stray || a.kind == failedUnanswered
	if number != m.pending {
		return
	}
	m.pending = 0
	switch m.phase {
	case phaseAsking, phaseConfirming:
		m.asked(sentAt, a)
	case phaseHeld:
		m.renewed(sentAt, a)
	case phaseReleasing, phaseCancelling:
		m.released(sentAt, a)
	}
}

func (m *machine) asked(sentAt time.Duration, a answer) {
	confirming := m.phase == phaseConfirming
	switch {
	case a.failed():
		m.failed(a)
	case a.kind == answeredHeld:
		m.token = a.value
		m.hold(sentAt)
	case confirming && a == one:
		m.hold(sentAt)
	case confirming && m.adopts:
		m.refuse(outNotAdopted, nil, false)
	case confirming:
		m.ask()
	case a.kind == answeredQueued:
		m.phase, m.pause, m.next, m.lastError = phaseQueued, firstPause, m.now+firstLook, nil
		if m.looks > 0 {
			m.next = m.now + min(max(a.holderLease, firstLook), longestLook)
		}
		m.alive(sentAt)
	default:
		m.refuse(outDenied, nil, false)
	}
}

// failed: a request for the lock failed. It is made again, unless that is pointless.
func (m *machine) failed(a answer) {
	m.lastError = a.err
	if !a.passes() || a.kind == failedDraining && m.plan.wait == 0 {
		// It was not carried out, but those before it may have been.
		m.refuse(outRefused, a.err, m.asks > 1 || m.phase == phaseConfirming)
		return
	}
	if !m.adopts {
		m.phase = phaseAsking
	}
	m.rest()
}

func (m *machine) rest() {
	m.next, m.pause = m.now+m.pause, min(2*m.pause, longestPause)
}

// message: current says that it came by the present subscription at the server of the last ENQUEUE, while the link to it was up.
func (m *machine) message(word string, token int64, lease time.Duration, current bool) {
	switch {
	case m.phase != phaseAsking && m.phase != phaseQueued:
	case word == "granted":
		// The owner was never used before, and all its requests went by one connection: the grant is not older than the first one.
		// Half of its lease must be left: a RENEW must reach the server before it ends.
		m.lease = endOf(m.firstSent, lease)
		proves := current && m.tied && m.asks > 0 && !m.plan.confirmFirst && (!m.plan.fenced || m.asks == 1)
		if !proves || m.lease-m.now < lease/2 || m.deadline() <= m.now {
			m.confirm(token)
			return
		}
		// A repeat without an answer may be carried out after this grant has ended.
		m.stray = m.stray || m.asks > 1 && (m.pending != 0 || m.overtaken)
		m.token, m.unconfirmed, m.renewAt = token, lease, m.now+lease/10
		m.beginHold()
	case word == "dropped" || word == "timeout":
		// Either may be about an earlier wait of this owner: only the clock ends this one.
		m.overtaken = m.overtaken || m.pending != 0
		m.phase, m.pending = phaseAsking, 0
		m.rest()
	}
}

// linkDown: what was under way has been answered.
func (m *machine) linkDown() { m.down, m.tied, m.pending = true, false, 0 }

func (m *machine) linkUp() {
	m.down, m.pause = false, firstPause
	switch {
	case m.undecided() && m.phase != phaseNew:
		m.ask()
	case m.phase == phaseHeld && (m.prolongs() || m.plan.grace > 0):
		m.sendRenewal()
	case m.departs():
		m.depart()
	}
}

func (m *machine) tick() {
	due := m.now >= m.next && !m.down
	switch {
	case m.undecided() && m.now >= m.end && m.plan.wait == 0:
		m.cancel(m.lastError)
	case m.undecided() && m.now >= m.end:
		m.refuse(outTimedOut, m.lastError, true)
	case m.undecided() && due:
		if m.phase == phaseQueued {
			m.looks++
		}
		m.ask()
	case m.phase == phaseHeld && m.mayRenew() && m.now >= m.renewAt-min(renewalWindow, m.plan.lease/30):
		m.sendRenewal()
	case m.phase == phaseReleasing && m.now >= m.giveUp:
		m.settle(outReleaseUnknown, m.lastError)
	case m.phase == phaseCancelling && m.now >= m.giveUp:
		m.finish()
	case m.departs() && due:
		m.depart()
	}
}

// overdue is whether the lock was held for as long as the plan allows.
func (m *machine) overdue() bool { return m.plan.maxHold > 0 && m.now >= m.heldAt+m.plan.maxHold }

// prolongs is whether a renewal moves the end of the lease: that of a fixed lease does not, once it is confirmed.
func (m *machine) prolongs() bool { return m.plan.renew && !m.overdue() || m.unconfirmed > 0 }

func (m *machine) mayRenew() bool {
	return m.pending == 0 && !m.down && (m.prolongs() || m.adopts || m.plan.grace > 0 && !m.tied)
}

// sendRenewal: a lease that is not renewed keeps its end, and only its tie is new.
func (m *machine) sendRenewal() {
	var lease int64
	if left := m.lease - m.now; !m.prolongs() {
		lease = int64((left+left/99)/time.Millisecond) + 4
	}
	m.send(output{command: cmdRenew, lease: lease})
}

func (m *machine) renewed(sentAt time.Duration, a answer) {
	switch {
	case a.failed() && a.kind != failedGone:
		// Short pauses first: most failures are over soon.
		m.renewAt = m.now + cmp.Or(m.unconfirmed, m.plan.lease)/12>>(doublings-min(m.failures, doublings))
		m.failures++
		m.tell(output{kind: outRenewalFailed, err: a.err})
	case a == one:
		if m.prolongs() {
			m.lease = max(m.lease, endOf(sentAt, m.plan.lease))
		}
		m.failures, m.unconfirmed, m.adopts, m.tied, m.proven = 0, 0, false, true, max(m.proven, sentAt)
		m.renewAt = sentAt + m.plan.lease/3
		m.tell(output{kind: outRenewed})
	default:
		m.lose(WhyTaken)
	}
}

func (m *machine) lose(why Why) {
	if m.phase != phaseHeld {
		return
	} else if why == WhyExpired && m.overdue() {
		why = WhyOverdue
	}
	m.phase, m.pending = phaseLost, 0
	m.tell(output{kind: outLost, why: why})
	if why == WhyTaken {
		// The server has nothing left to release.
		m.done()
	}
}

func (m *machine) release() {
	if until := m.heldAt + m.plan.atLeast; m.now < until {
		m.endHold(until)
		return
	}
	m.endHold(0)
}

// detach leaves the lock to another process, which adopts it.
func (m *machine) detach() { m.endHold(forever) }

// endHold: the caller has the lock no longer.
func (m *machine) endHold(keepUntil time.Duration) {
	switch {
	case m.phase == phaseLost && keepUntil > 0:
		// Its lease will end, and that is not too soon.
		m.keepUntil = keepUntil
		m.finish()
	case m.phase == phaseLost:
		// The server may have the hold still, and others wait for it.
		m.phase, m.queued, m.giveUp = phaseCancelling, false, m.now+m.plan.lease
		m.depart()
	case m.phase == phaseHeld:
		m.phase, m.keepUntil, m.giveUp = phaseReleasing, keepUntil, m.lease
		m.depart()
	}
}

func (m *machine) released(sentAt time.Duration, a answer) {
	switch {
	case a.passes():
		m.lastError, m.unheard = a.err, m.unheard || a.kind == failedUnanswered
		m.rest()
	case m.phase == phaseCancelling:
		m.done()
	case a.kind == failedFinal:
		m.settle(outReleaseRefused, a.err)
	case a.kind == answeredNumber && (a.value > 0 || !m.kept()):
		m.lease = endOf(sentAt, m.plan.lease) // of what was detached
		m.settle(outReleased, nil)
	case m.unheard && a.kind != answeredNumber:
		m.settle(outReleaseUnknown, m.lastError)
	default:
		// 0 is certain after a repeat too: only RENEW was sent.
		m.keepUntil = 0
		m.settle(outReleaseLost, nil)
	}
}

func (m *machine) settle(kind outputKind, err error) {
	m.tell(output{kind: kind, err: err})
	// The process that adopts the hold sets its lease. If it is unknown what became of the hold, its lease ends it.
	m.stray = m.stray && (!m.kept() || kind == outReleased && m.keepUntil < forever)
	m.done()
}

// done: the release was answered. A stray request that the server carries out after it would hold for no caller, or shorten what is kept.
func (m *machine) done() {
	m.answered = true
	if !m.stray || m.down {
		m.finish()
		return
	}
	m.phase, m.stray, m.queued = phaseCancelling, false, true
	m.next, m.giveUp = m.now+strayPause, m.now+3*strayPause
}

// refuse ends the acquisition without the lock. With leave, requests may have left something of it in the server.
func (m *machine) refuse(kind outputKind, err error, leave bool) {
	m.tell(output{kind: kind, err: err})
	if !leave || m.asks == 0 {
		m.finish()
		return
	}
	m.phase, m.pause = phaseCancelling, firstPause
	m.depart()
}

func (m *machine) depart() {
	left := m.keepUntil - m.now
	if m.keepUntil == forever {
		left = m.plan.lease
	}
	m.next = forever
	switch {
	case m.down:
	case left > 0:
		m.send(output{command: cmdKeep, lease: wholeMS(left)})
	case m.phase == phaseCancelling && m.queued:
		// In this order: a grant between the two is released by the second.
		m.send(output{command: cmdCancel})
		fallthrough
	default:
		m.send(output{command: cmdRelease})
	}
}

func (m *machine) finish() {
	m.phase, m.pending = phaseEnded, 0
	m.tell(output{kind: outEnded})
}

// timer is when to tick.
func (m *machine) timer() time.Duration {
	next := m.next
	if m.down {
		next = forever
	}
	switch {
	case m.undecided():
		return min(m.end, next)
	case m.departs():
		return min(m.giveUp, next)
	case m.phase == phaseHeld && m.mayRenew():
		return min(m.deadline(), m.renewAt)
	case m.phase == phaseHeld:
		return m.deadline()
	}
	return forever
}
