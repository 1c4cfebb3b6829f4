package rlock

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

const (
	firstReconnect   = 10 * time.Millisecond
	longestReconnect = time.Second
	// A handshake takes several round trips, and with TLS some more.
	leastToConnect = time.Second
	// A reply may have arrived that was not read while the process stood still.
	lateGrace   = 20 * time.Millisecond
	usualAnswer = 100 * time.Millisecond
)

// undelivered is what became of a command instead of a reply.
type undelivered struct {
	kind answerKind
	err  *Error
}

// receiver takes a reply, a serverError or an undelivered, and when the command was sent. It holds the client's mutex.
type receiver = func(reply any, sentAt time.Duration)

// sent is a command that waits for its reply.
type sent struct {
	words   []string
	within  time.Duration
	receive receiver
	at      time.Duration
	alarm   *time.Timer
	late    bool
	over    bool
}

// dialing makes a connection, and says to which server.
type dialing = func(ctx context.Context) (conn net.Conn, server string, err error)

// link is a connection to one server, and the next one when it is lost. All that follows client is under the client's mutex.
type link struct {
	address string
	client  *Client
	ended   context.Context // once it is of no more use
	end     context.CancelFunc
	// For the client: makes a connection; it is up; it is lost, or not to be reached; a message.
	dial    dialing
	came    func()
	went    func(wasUp bool, err *Error)
	message func(channel, text string)
	// Asks whether it lives, again and again with these pauses.
	pulse func(within time.Duration)
	pace  func() time.Duration

	channel string   // of the subscription, or ""
	refused error    // why there is none
	wanders bool     // the slot of the last channel was elsewhere
	server  string   // of the last attempt
	conn    net.Conn // nil while it is down
	outbox  []*sent
	waiting []*sent
	trouble *Error // why it is down
	downAt  time.Duration
	broken  error // why the connection is of no more use
	woken   chan struct{}
	heart   *time.Timer
}

func (l *link) up() bool { return l.conn != nil }

// send sends a command. A connection that does not answer it within this time is given up.
func (l *link) send(words []string, within time.Duration, receive receiver) {
	if !l.up() {
		receive(undelivered{failedPassing, l.trouble}, now())
		return
	}
	l.outbox = append(l.outbox, &sent{words: words, within: within, receive: receive})
	offer(l.woken, struct{}{})
}

// kept is why there is no answer.
func (l *link) kept() *Error {
	if !l.up() {
		return l.trouble
	}
	return unreachable(l.server, errors.New("no reply in time"))
}

// overdue is why a call ends that has not been answered: what its caller says, or what has kept the server.
func (l *link) overdue(ctx context.Context) error {
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return interrupted(ctx)
	}
	late := *l.kept()
	late.cause = errors.Join(ctx.Err(), context.Cause(ctx), late.cause)
	return &late
}

// silent is whether a command has waited for longer than a server takes that is well.
func (l *link) silent() bool { return len(l.waiting) > 0 && now()-l.waiting[0].at > usualAnswer }

// drop gives the connection up; another one follows.
func (l *link) drop(why error) {
	if l.up() && l.broken == nil {
		l.broken = why
		_ = l.conn.Close()
		offer(l.woken, struct{}{})
	}
}

// beat asks now whether the link lives, and then again and again; not while it is down.
func (l *link) beat() {
	if l.heart != nil {
		l.heart.Stop()
	}
	if l.up() {
		pace := l.pace()
		l.heart = time.AfterFunc(pace, func() { l.client.do(l.beat) })
		l.pulse(min(l.client.response, 2*pace))
	}
}

// keep connects, for ever.
func (l *link) keep(ctx context.Context) {
	defer l.client.running.Done()
	pause, grace := firstReconnect, forever
	var dial dialing
	for used := false; ctx.Err() == nil; {
		l.client.do(func() {
			// Nothing is tied to a connection before the first one.
			if dial = l.dial; used {
				grace = l.client.shortestGrace()
			}
		})
		within, cancel := context.WithTimeout(ctx, min(max(l.client.response, leastToConnect), grace/2))
		conn, server, err := dial(within)
		cancel()
		l.client.do(func() { l.server = server })
		if err != nil {
			l.client.do(func() { l.down(ctx, connectError(server, err)) })
		} else {
			used = true
			began := now()
			l.use(ctx, conn)
			if now()-began > time.Second {
				pause = firstReconnect
			}
		}
		select {
		// Clients that lost the same server should not come back in step.
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestReconnect, grace/8)
	}
}

// use serves one connection until its end.
func (l *link) use(ctx context.Context, conn net.Conn) {
	l.client.do(func() {
		l.conn, l.broken = conn, nil
		l.came()
		l.beat()
	})
	// Not before: ctx may be done already.
	stop := context.AfterFunc(ctx, func() { l.client.do(func() { l.drop(closed()) }) })
	defer stop()
	read := make(chan struct{})
	go func() {
		defer close(read)
		l.read(conn)
	}()
	l.write(conn)
	<-read
	l.client.do(func() { l.down(ctx, connectError(l.server, l.broken)) })
}

func (l *link) down(ctx context.Context, err *Error) {
	wasUp, waiting, outbox := l.up(), l.waiting, l.outbox
	if wasUp {
		l.downAt = now()
	}
	if ctx.Err() != nil {
		err = closed()
	}
	l.conn, l.waiting, l.outbox, l.trouble = nil, nil, nil, err
	if l.heart != nil {
		l.heart.Stop()
	}
	for _, each := range waiting {
		each.end(undelivered{failedUnanswered, err})
	}
	for _, each := range outbox {
		each.receive(undelivered{failedPassing, err}, now())
	}
	l.went(wasUp, err)
}

func (s *sent) end(reply any) {
	s.over = true
	s.alarm.Stop()
	s.receive(reply, s.at)
}

func (l *link) read(conn net.Conn) {
	from := bufio.NewReaderSize(conn, longestLine)
	for {
		reply, err := readReply(from, 0)
		l.client.do(func() {
			if err == nil {
				err = l.deliver(reply)
			}
			if err != nil {
				l.drop(err)
			}
		})
		if err != nil {
			return
		}
	}
}

func (l *link) deliver(reply any) error {
	if l.broken != nil {
		return l.broken // nothing counts that such a server says
	}
	if pushed, isPush := reply.(push); isPush && len(pushed) == 3 {
		kind, _ := pushed[0].(string)
		channel, _ := pushed[1].(string)
		text, _ := pushed[2].(string)
		switch {
		case kind == "message" || kind == "smessage":
			l.message(channel, text)
			return nil
		case strings.HasSuffix(kind, "unsubscribe"):
			if channel == l.channel {
				l.unsubscribed()
			}
			return nil
		}
	}
	if len(l.waiting) == 0 {
		return errors.New("a reply without a command")
	}
	first := l.waiting[0]
	l.waiting = l.waiting[1:]
	first.end(reply)
	return nil
}

func (l *link) write(conn net.Conn) {
	for range l.woken {
		var bytes []byte
		over := false
		l.client.do(func() {
			over = l.broken != nil
			batch := l.outbox
			if over {
				return
			}
			l.outbox = nil
			at := now()
			for _, each := range batch {
				bytes = appendCommand(bytes, each.words)
				each.at = at
				each.alarm = time.AfterFunc(each.within, func() { l.client.do(func() { l.late(each) }) })
			}
			l.waiting = append(l.waiting, batch...)
		})
		if over {
			return
		}
		if _, err := conn.Write(bytes); err != nil {
			l.client.do(func() { l.drop(err) })
			return
		}
	}
}

func (l *link) late(which *sent) {
	switch {
	case which.over:
	case which.late:
		l.drop(errors.New("no reply in time"))
	default:
		which.late = true
		which.alarm.Reset(lateGrace)
	}
}

// connectError is the server's refusal, or that it was not reached.
func connectError(server string, err error) *Error {
	var refused serverError
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refused):
		if code := refused.code(); code != "LOADING" && code != "MASTERDOWN" {
			failed := refused.refusal("", server).err
			errors.As(failed, &known)
			return known
		}
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("no connection in time")
	}
	return unreachable(server, err)
}
