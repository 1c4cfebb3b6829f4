package rlock

import (
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
	grace         time.Duration // of a session; 0 for none
	response      time.Duration // how long the server may take to answer a command
}

// The commands. ENQUEUE is an ACQUIRE that waits.
const cmdEnqueue, cmdAcquire, cmdRenew, cmdCancel, cmdRelease = "ENQUEUE", "ACQUIRE", "RENEW", "CANCEL", "RELEASE"

type answerKind int

const (
	answeredNull answerKind = iota
	answeredHeld
	answeredQueued
	answeredNumber
	// The following are failures.
	failedFinal      // the server refused the command, and will again
	failedPassing    // the server refused it for now
	failedDraining   // the server refuses new owners until another one takes over
	failedGone       // the key holds something else
	failedUnsent     // there was no connection
	failedUnanswered // the server may have carried it out
)

// answer is what became of a command.
type answer struct {
	kind        answerKind
	value       int64         // a number, or the token of a hold
	holderLease time.Duration // if queued: how long the holder's lease can last
	err         error         // of a failure
}

var one = answer{kind: answeredNumber, value: 1}

func (a answer) failed() bool { return a.kind >= failedFinal }

type outputKind string

const (
	outSend           outputKind = "send"
	outHeld           outputKind = "guard"
	outTimedOut       outputKind = "timeout"
	outDenied         outputKind = "denied"
	outRefused        outputKind = "error"
	outRenewed        outputKind = "renewed"
	outRenewalFailed  outputKind = "renewal_failed"
	outLost           outputKind = "lost"
	outReleased       outputKind = "released ok"
	outReleaseLost    outputKind = "released lost"
	outReleaseUnknown outputKind = "released unknown"
	outReleaseRefused outputKind = "released error"
	outEnded          outputKind = "ended" // nothing is left here nor, as far as it is known, in the server
)

// output is what the machine wants of its shell.
type output struct {
	kind    outputKind
	number  int    // of a command
	command string // to send
	look    bool   // whether to ask for the holder's lease too, which is 30 s if it is unknown
	// In ms: of ENQUEUE, where 0 is for ever, and of RENEW, where it is not the whole lease.
	wait, lease int64
	token       int64 // of a hold
	why         Why   // of a loss
	err         error // why, or the last failure before
}

type phase string

const phaseNew, phaseAsking, phaseQueued, phaseConfirming phase = "new", "asking", "queued", "confirming"
const phaseHeld, phaseReleasing, phaseLost, phaseCancelling, phaseEnded phase = "held", "releasing", "lost", "cancelling", "ended"

const (
	// A waiter that has heard nothing asks again after the first of these, and then as often as the holder's lease lasts.
	firstLook   = time.Second
	longestLook = 30 * time.Second
	// The pause after a request that failed; each next one is twice as long.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	// Renewals that are due so soon go along with those that are due now.
	renewalWindow = 100 * time.Millisecond
	doublings     = 6
	// How long after the last answer a stray request is released.
	strayPause = time.Second
)

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
	asks, looks, failures             int
	pause                             time.Duration
	token                             int64
	proven                            time.Duration // when the connection lived that a session ties the hold to
	// Whether it is tied, ENQUEUE was sent, a request was not answered, nor a release; whether the last release was.
	tied, queued, stray, unheard, answered bool
	lastError                              error
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
func (m *machine) undecided() bool {
	return m.phase == phaseNew || m.phase == phaseAsking || m.phase == phaseQueued || m.phase == phaseConfirming
}

// waits is whether it needs messages.
func (m *machine) waits() bool { return m.plan.wait != 0 && m.undecided() }

func (m *machine) tell(o output) { m.out = append(m.out, o) }

func (m *machine) start() {
	m.end = m.now + m.plan.wait
	if m.plan.wait == 0 {
		m.end += 2 * m.plan.response
	}
	m.ask()
}

func (m *machine) cancel(err error) {
	if m.undecided() {
		m.refuse(outRefused, err, true)
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
	if m.down {
		return
	}
	m.asks++
	m.giveUp = m.now + m.plan.lease + strayPause
	if m.plan.wait == 0 {
		m.send(output{command: cmdAcquire})
		return
	}
	m.queued = true
	var wait int64 // on the wire, 0 is for ever
	if m.end < forever {
		wait = max(1, int64((m.end-m.now+time.Millisecond-1)/time.Millisecond))
	}
	m.send(output{command: cmdEnqueue, wait: wait, look: m.looks > 0})
}

func (m *machine) confirm(token int64) {
	m.phase, m.token, m.next = phaseConfirming, token, forever
	m.giveUp = m.now + m.plan.lease + strayPause
	confirmation := output{command: cmdRenew}
	if m.plan.fenced {
		// The token of the message may be one of an earlier grant.
		confirmation.command = cmdAcquire
	}
	m.send(confirmation)
}

func (m *machine) hold(sentAt time.Duration) {
	m.extend(sentAt)
	if m.deadline() <= m.now {
		// The reply lay in a buffer for longer than the lease: only the server can tell.
		m.confirm(m.token)
		return
	}
	m.phase, m.pending, m.next = phaseHeld, 0, forever
	m.tell(output{kind: outHeld, token: m.token})
}

// extend: the server confirmed the hold. From now on, each answer on the same link proves that the server still has it.
func (m *machine) extend(sentAt time.Duration) {
	m.tied, m.proven = !m.down, max(m.proven, sentAt)
	m.renewAt = sentAt + m.plan.lease/3
	if m.plan.renew || m.phase != phaseHeld {
		m.lease = max(m.lease, endOf(sentAt, m.plan.lease))
	}
}

func (m *machine) reply(number int, sentAt time.Duration, a answer) {
	m.stray = m.stray || a.kind == failedUnanswered
	if number != m.pending {
		return
	}
	m.pending = 0
	m.down = m.down || a.kind == failedUnsent
	switch m.phase {
	case phaseAsking, phaseConfirming:
		m.asked(sentAt, a)
	case phaseHeld:
		m.renewed(sentAt, a)
	case phaseReleasing:
		m.released(a)
	case phaseCancelling:
		if a.failed() && a.kind != failedFinal && a.kind != failedGone {
			m.rest()
		} else {
			m.done()
		}
	}
}

func (m *machine) asked(sentAt time.Duration, a answer) {
	switch {
	case a.failed():
		m.failed(a)
	case a.kind == answeredHeld:
		m.token = a.value
		m.hold(sentAt)
	case m.phase == phaseConfirming && a == one:
		m.hold(sentAt)
	case m.phase == phaseConfirming:
		m.ask()
	case a.kind == answeredQueued:
		m.phase, m.pause, m.next, m.lastError = phaseQueued, firstPause, m.now+firstLook, nil
		if m.looks > 0 {
			m.next = m.now + min(max(a.holderLease, firstLook), longestLook)
		}
	default:
		m.refuse(outDenied, nil, false)
	}
}

// failed: a request for the lock failed. It is made again, unless that is pointless.
func (m *machine) failed(a answer) {
	m.lastError = a.err
	if a.kind == failedFinal || a.kind == failedGone || (a.kind == failedDraining && m.plan.wait == 0) {
		// It was not carried out, but those before it may have been.
		m.refuse(outRefused, a.err, m.asks > 1 || m.phase == phaseConfirming)
		return
	}
	m.phase = phaseAsking
	m.rest()
}

func (m *machine) rest() {
	m.next, m.pause = m.now+m.pause, min(2*m.pause, longestPause)
}

func (m *machine) message(word string, token int64) {
	if m.phase != phaseAsking && m.phase != phaseQueued {
		return
	}
	switch word {
	case "granted":
		m.confirm(token)
	case "dropped", "timeout":
		// Either may be about an earlier wait of this owner: only the clock ends this one.
		m.phase, m.pending = phaseAsking, 0
		m.rest()
	}
}

func (m *machine) linkDown() { m.down, m.tied = true, false }

func (m *machine) linkUp() {
	m.down, m.pause = false, firstPause
	switch m.phase {
	case phaseAsking, phaseQueued, phaseConfirming:
		m.ask()
	case phaseHeld:
		if m.plan.renew || m.plan.grace > 0 {
			m.sendRenewal()
		}
	case phaseReleasing, phaseCancelling:
		m.depart()
	}
}

func (m *machine) tick() {
	due := m.now >= m.next && !m.down
	switch m.phase {
	case phaseAsking, phaseQueued, phaseConfirming:
		if m.now >= m.end && m.plan.wait == 0 {
			m.refuse(outRefused, m.lastError, true)
		} else if m.now >= m.end {
			m.refuse(outTimedOut, m.lastError, true)
		} else if due {
			if m.phase == phaseQueued {
				m.looks++
			}
			m.ask()
		}
	case phaseHeld:
		if m.mayRenew() && m.now >= m.renewAt-min(renewalWindow, m.plan.lease/30) {
			m.sendRenewal()
		}
	case phaseReleasing, phaseCancelling:
		if m.now >= m.giveUp && m.phase == phaseReleasing {
			m.settle(outReleaseUnknown, m.lastError)
		} else if m.now >= m.giveUp {
			m.finish()
		} else if due {
			m.depart()
		}
	}
}

func (m *machine) mayRenew() bool {
	return m.pending == 0 && !m.down && (m.plan.renew || m.plan.grace > 0 && !m.tied)
}

// sendRenewal: a lease that is not renewed keeps its end, and only its tie is new.
func (m *machine) sendRenewal() {
	renewal := output{command: cmdRenew}
	if !m.plan.renew {
		left := m.lease - m.now
		renewal.lease = int64((left+left/99)/time.Millisecond) + 4
	}
	m.send(renewal)
}

func (m *machine) renewed(sentAt time.Duration, a answer) {
	switch {
	case a.failed() && a.kind != failedGone:
		// Short pauses first: most failures are over soon.
		m.renewAt = m.now + m.plan.lease/12>>(doublings-min(m.failures, doublings))
		m.failures++
		m.tell(output{kind: outRenewalFailed, err: a.err})
	case a == one:
		m.failures = 0
		m.extend(sentAt)
		m.tell(output{kind: outRenewed})
	default:
		m.lose(WhyTaken)
	}
}

func (m *machine) lose(why Why) {
	if m.phase != phaseHeld {
		return
	}
	m.phase, m.pending = phaseLost, 0
	m.tell(output{kind: outLost, why: why})
	if why == WhyTaken {
		// The server has nothing left to release.
		m.finish()
	}
}

func (m *machine) release() {
	switch m.phase {
	case phaseLost:
		// The server may have the hold still, and others wait for it.
		m.phase, m.queued, m.giveUp = phaseCancelling, false, m.now+m.plan.lease
		m.depart()
	case phaseHeld:
		m.phase, m.giveUp = phaseReleasing, m.lease
		m.depart()
	}
}

func (m *machine) released(a answer) {
	switch {
	case a.kind == failedFinal:
		m.settle(outReleaseRefused, a.err)
	case a.failed() && a.kind != failedGone:
		m.lastError, m.unheard = a.err, m.unheard || a.kind == failedUnanswered
		m.rest()
	case a.kind == answeredNumber:
		m.settle(outReleased, nil)
	case m.unheard:
		m.settle(outReleaseUnknown, m.lastError)
	default:
		m.settle(outReleaseLost, nil)
	}
}

func (m *machine) settle(kind outputKind, err error) {
	m.tell(output{kind: kind, err: err, why: WhyTaken})
	m.done()
}

// done: the release was answered. A stray request that the server carries out after it would hold for no caller.
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
	m.next = forever
	if m.down {
		return
	}
	// In this order: a grant between the two is released by the second.
	if m.queued && m.phase == phaseCancelling {
		m.send(output{command: cmdCancel})
	}
	m.send(output{command: cmdRelease})
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
	case m.phase == phaseNew || m.phase == phaseLost || m.phase == phaseEnded:
		return forever
	case m.phase == phaseHeld && m.mayRenew():
		return min(m.deadline(), m.renewAt)
	case m.phase == phaseHeld:
		return m.deadline()
	case m.undecided():
		return min(m.end, next)
	}
	return min(m.giveUp, next)
}
