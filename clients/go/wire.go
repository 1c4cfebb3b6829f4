package rlock

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// mode is what an owner asks for: "" for a plain lock.
type mode string

const (
	modeRead   mode = "READ"
	modeWrite  mode = "WRITE"
	modePermit mode = "PERMIT"
)

// order is what one owner asks for.
type order struct {
	plan
	lock, owner string
	mode        mode
	permits     int // of a semaphore
	fair        bool
	adopts      bool // the hold of another process
	began       time.Duration
}

// claim names an acquisition among those of its client.
type claim struct {
	lock, owner string
	mode        mode
}

func (o *order) claim() claim { return claim{o.lock, o.owner, o.mode} }

// wholeMS is rounded up: less is too little, or nothing.
func wholeMS(time time.Duration) int64 { return int64((time + 999_999) / 1_000_000) }

// waitMS is what is left of a wait: on the wire, 0 is for ever.
func waitMS(left time.Duration) int64 {
	if left > forever/2 {
		return 0
	}
	return max(1, wholeMS(left))
}

func milliseconds(time time.Duration) string { return strconv.FormatInt(time.Milliseconds(), 10) }

// modeWord is for RELEASE and RENEW: the server knows permits by the key.
func (o *order) modeWord() []string {
	if o.mode == modeRead || o.mode == modeWrite {
		return []string{string(o.mode)}
	}
	return nil
}

// session stands in each command of an owner or in none: without it, a command would end the tie.
func (o *order) session() []string {
	if o.grace == 0 {
		return nil
	}
	return []string{"SESSION", milliseconds(o.grace)}
}

func (o *order) acquire(holds int) []string {
	words := []string{"RLOCK.ACQUIRE", o.lock, o.owner, milliseconds(o.lease), "HOLDS", strconv.Itoa(holds)}
	words = append(append(words, o.modeWord()...), o.session()...)
	if o.mode == modePermit {
		words = append(words, "PERMITS", strconv.Itoa(o.permits))
	}
	if o.fair {
		words = append(words, "FAIR")
	}
	if o.fenced {
		words = append(words, "FENCED")
	}
	return words
}

// releaseBut releases all holds but this number.
func (o *order) releaseBut(holds int) []string {
	left := []string{"HOLDS", strconv.Itoa(holds)}
	if holds == 0 {
		left = []string{"ALL"}
	}
	return append(append([]string{"RLOCK.RELEASE", o.lock, o.owner}, o.modeWord()...), left...)
}

// words are those of a command of the machine.
func (o *order) words(send output, channel string) []string {
	switch send.command {
	case cmdEnqueue:
		return append(o.acquire(1), "ENQUEUE", strconv.FormatInt(send.wait, 10), channel)
	case cmdAcquire:
		return o.acquire(1)
	case cmdRenew, cmdKeep:
		lease := milliseconds(o.lease)
		if send.lease > 0 {
			lease = strconv.FormatInt(send.lease, 10)
		}
		words := []string{"RLOCK.RENEW", o.lock, o.owner, lease}
		words = append(words, o.modeWord()...)
		if send.command == cmdRenew {
			words = append(words, o.session()...)
		}
		return words
	case cmdCancel:
		return []string{"RLOCK.CANCEL", o.lock, o.owner}
	}
	return o.releaseBut(0)
}

type answerKind int

const (
	answeredNull answerKind = iota
	answeredHeld
	answeredQueued
	answeredNumber
	// The following are failures.
	failedFinal      // the server refused the command, and will again
	failedPassing    // the server refused it for now, or it was not sent
	failedDraining   // the server refuses new owners until another one takes over
	failedGone       // the key holds something else
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

// passes is whether the command failed, and may not fail again.
func (a answer) passes() bool {
	return a.kind == failedPassing || a.kind == failedDraining || a.kind == failedUnanswered
}

// readAnswer is what a reply means to the machine. Replies may get more fields.
func readAnswer(command string, reply any, holderLease time.Duration) answer {
	switch reply := reply.(type) {
	case error:
		return answer{kind: failedFinal, err: reply}
	case nil:
		return answer{kind: answeredNull}
	case int64:
		if command != cmdAcquire && command != cmdEnqueue {
			return answer{kind: answeredNumber, value: reply}
		}
	case []any:
		if len(reply) < 3 || command != cmdAcquire && command != cmdEnqueue {
			break
		}
		holds, isNumber := reply[0].(int64)
		token, _ := reply[2].(int64)
		if isNumber && holds > 0 {
			return answer{kind: answeredHeld, value: token}
		}
		if isNumber {
			return answer{kind: answeredQueued, holderLease: holderLease}
		}
	}
	return answer{kind: failedFinal, err: unexpected("RLOCK."+command, reply)}
}

func unexpected(command string, reply any) *Error {
	return unsupported(fmt.Sprintf("%s was answered with %.200q; update the server's module, or this package", command, fmt.Sprint(reply)))
}

// readLease is how long the holder's lease can last, by the reply to PTTL: 30 s if it is unknown, or has no end.
func readLease(reply any) time.Duration {
	left, isNumber := reply.(int64)
	if !isNumber || left == -1 {
		return longestLook
	}
	return time.Duration(max(0, min(left, longestLook.Milliseconds()))) * time.Millisecond
}

// message is what the server tells a waiter.
type message struct {
	word  string
	claim claim
	token int64
	lease time.Duration
}

// readMessage reports whether it is one that is understood.
func readMessage(text string) (message, bool) {
	fields := strings.Split(text, " ")
	// Before the mode a grant has holds, lease and token, and a drop its reason.
	place, known := map[string]int{"granted": 7, "timeout": 4, "dropped": 5}[fields[0]]
	if !known || len(fields) < 4 {
		return message{}, false
	}
	told := message{word: fields[0]}
	var failed [2]error
	told.claim.owner, failed[0] = url.PathUnescape(fields[2])
	told.claim.lock, failed[1] = url.PathUnescape(fields[3])
	if len(fields) > place {
		told.claim.mode = mode(strings.ToUpper(fields[place]))
	}
	if told.word == "granted" && len(fields) > 6 {
		told.token, _ = strconv.ParseInt(fields[6], 10, 64)
		// Other clients can publish as well.
		lease, _ := strconv.ParseInt(fields[5], 10, 64)
		told.lease = time.Duration(max(0, min(lease, longestTime.Milliseconds()))) * time.Millisecond
	}
	return told, errors.Join(failed[:]...) == nil
}
