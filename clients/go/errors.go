package rlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The errors of this package: compare with errors.Is.
var (
	ErrLost = errors.New("rlock: the lock was lost")
	// ErrTimeout is also an ErrUnreachable if the wait ended while no server answered: in this case the lock may be free.
	ErrTimeout        = errors.New("rlock: the wait ended without the lock")
	ErrDenied         = errors.New("rlock: another owner holds the lock")
	ErrOutcomeUnknown = errors.New("rlock: it is unknown whether the lock was still held at its release")
	ErrModuleMissing  = errors.New("rlock: the server does not know the commands")
	ErrUnsupported    = errors.New("rlock: the server, its module or this client lacks something")
	ErrPermission     = errors.New("rlock: the server denies access")
	ErrQueueFull      = errors.New("rlock: the queue is full, by a limit of the server")
	ErrNotALock       = errors.New("rlock: the key holds other data, or a lock of another kind")
	ErrRefused        = errors.New("rlock: the server refused: read-only, out of memory, draining …")
	ErrUnreachable    = errors.New("rlock: the server could not be reached or did not answer in time")
	ErrInvalid        = errors.New("rlock: an invalid setting or name")
	ErrClosed         = errors.New("rlock: the client was closed")
	ErrUnflushed      = errors.New("rlock: the client was closed before every release was answered")
)

// Why says why a lock was lost.
type Why string

const (
	// WhyExpired: no renewal was confirmed in time.
	WhyExpired Why = "expired"
	// WhyOverdue: the lock was held for as long as MaxHold allows, and was not renewed any more.
	WhyOverdue Why = "overdue"
	// WhyTaken: the server no longer has the hold.
	WhyTaken Why = "taken"
	// WhyClosed: the client was closed.
	WhyClosed Why = "closed"
	// WhyReleased: the lock was not lost, but released.
	WhyReleased Why = "released"
)

// Error is every error of this package. errors.Is compares it with one of the Err variables.
type Error struct {
	Lock string // its name, if the error is about one
	Why  Why    // of ErrLost

	kind, cause error
	text        string
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the Err variable, and what caused the error.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// shown is a name or a text of the server's for people: both are any bytes.
func shown(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// lockError: the lock's name is the first thing that the text formats.
func lockError(kind error, lock string, cause error, text string, more ...any) *Error {
	return &Error{kind: kind, Lock: lock, cause: cause, text: fmt.Sprintf(text, append([]any{shown(lock)}, more...)...)}
}

func (o *order) lost(why Why) *Error {
	text, reason := "the lock %s was lost: %s; stop the work and check its results", ""
	switch {
	case why == WhyReleased:
		text, reason = "the lock %s is no longer held: %s; acquire it again", "it was released"
	case why == WhyTaken:
		reason = "the server no longer has it (forced release, deletion or fail-over)"
	case why == WhyClosed:
		reason = "its client was closed"
	case o.renew || o.grace > 0:
		reason = "no renewal was confirmed before its lease or session ended (server unreachable or process paused)"
	default:
		reason = "its lease ended, which is not renewed"
	}
	err := lockError(ErrLost, o.lock, nil, text, reason)
	err.Why = why
	return err
}

// timedOut: with a cause, the server did not answer, and the lock may be free.
func timedOut(lock string, waited time.Duration, cause error) *Error {
	text, more := "the lock %s was not acquired within %v; %s", "wait longer, or see its holder with Info"
	if cause != nil {
		text, more = "the lock %s was not acquired within %v: %s", cause.Error()
	}
	return lockError(ErrTimeout, lock, cause, text, waited.Round(time.Millisecond), more)
}

func denied(lock string) *Error {
	return lockError(ErrDenied, lock, nil, "another owner holds the lock %s; wait for it, or try again later")
}

func outcomeUnknown(lock string, cause error) *Error {
	text := "it is unknown whether the lock %s was still held at its release: %v; it is free now or at its lease end"
	return lockError(ErrOutcomeUnknown, lock, cause, text, cause)
}

func unreachable(server string, cause error) *Error {
	text := fmt.Sprintf("the server %s does not answer: %s; check its address, its state and the network", server, brief(cause))
	return &Error{kind: ErrUnreachable, cause: cause, text: text}
}

func replica(server string, cause error) *Error {
	text := fmt.Sprintf("the server %s is a replica; name the primary, or wait until it is one", server)
	return &Error{kind: ErrUnreachable, cause: cause, text: text}
}

// brief is an error of the network without the address.
func brief(err error) string {
	var number syscall.Errno
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF):
		return "it closed the connection"
	}
	return err.Error()
}

// interrupted: the caller's context ended. It is the cause that the caller gave, and also a context.Canceled or DeadlineExceeded.
func interrupted(ctx context.Context) *Error {
	return &Error{kind: ctx.Err(), cause: context.Cause(ctx), text: fmt.Sprintf("the call has ended: %v", context.Cause(ctx))}
}

func invalid(format string, arguments ...any) *Error {
	return &Error{kind: ErrInvalid, text: fmt.Sprintf(format, arguments...)}
}

func unsupported(text string) *Error { return &Error{kind: ErrUnsupported, text: text} }

func closed() *Error {
	return &Error{kind: ErrClosed, text: "this client was closed; create a new one"}
}

func unflushed(locks int) *Error {
	text := "%d locks were not released when the client closed; they are free at their lease ends"
	return &Error{kind: ErrUnflushed, text: fmt.Sprintf(text, locks)}
}
