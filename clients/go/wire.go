package rlock

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
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
}

// claim names an acquisition among those of its client.
type claim struct {
	lock, owner string
	mode        mode
}

func (o *order) claim() claim { return claim{o.lock, o.owner, o.mode} }

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
	case cmdRenew:
		lease := milliseconds(o.lease)
		if send.lease > 0 {
			lease = strconv.FormatInt(send.lease, 10)
		}
		words := []string{"RLOCK.RENEW", o.lock, o.owner, lease}
		return append(append(words, o.modeWord()...), o.session()...)
	case cmdCancel:
		return []string{"RLOCK.CANCEL", o.lock, o.owner}
	}
	return o.releaseBut(0)
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
	}
	return told, errors.Join(failed[:]...) == nil
}

// serverError is the server's own error reply. Its first word is the code.
type serverError string

func (e serverError) Error() string { return string(e) }

func (e serverError) code() string { return strings.SplitN(string(e), " ", 2)[0] }

const permissions = "+@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*"

// refusals are the server's errors by their codes. The formats have the text and the lock's name.
var refusals = []struct {
	codes  string
	kind   answerKind
	err    error
	format string
}{
	{"NOPERM NOAUTH WRONGPASS", failedFinal, ErrPermission,
		"the server denies access: %[1]s; check the user's password, and grant it " + permissions},
	{"QUEUEFULL", failedFinal, ErrQueueFull,
		"the queue of the lock %[2]s is full (%[1]s); try again later, or raise the server's limit"},
	{"WRONGTYPE WRONGLOCK", failedGone, ErrNotALock, "the key %[2]s holds something else (%[1]s); choose another name"},
	{"LOADING BUSY MASTERDOWN CLUSTERDOWN TRYAGAIN UNBLOCKED", failedPassing, ErrRefused, refused},
}

const (
	refused = "the server refused: %[1]s; fix the cause, then try again"
	without = "this server has no rlock module (%[1]s); add `loadmodule /path/to/librlock.so` to its configuration"
)

// refusal is what the server's error means. With follows, another server may have become the primary.
func (e serverError) refusal(lock string, follows bool) answer {
	kind, err, format := failedFinal, ErrRefused, refused
	text, code := string(e), e.code()
	for _, each := range refusals {
		if slices.Contains(strings.Fields(each.codes), code) {
			kind, err, format = each.kind, each.err, each.format
		}
	}
	switch {
	case code == "READONLY" && follows:
		kind = failedPassing
	case strings.HasPrefix(strings.ToLower(text), "err unknown command"):
		err, format = ErrModuleMissing, without
	case strings.Contains(text, "rlock.accept is no"):
		kind = failedDraining
	}
	return answer{kind: kind, err: &Error{kind: err, Lock: lock, cause: e, text: fmt.Sprintf(format, shown(text), shown(lock))}}
}

// Info is a lock, as its server sees it.
type Info struct {
	// Kind is none, mutex, readwrite or permits.
	Kind string
	// Mode is read or write, of a readwrite lock that is held.
	Mode string
	// Lease is what is left of it: 0 if the lock is free, negative if it has no end.
	Lease time.Duration
	// Token is the last fencing token, or 0.
	Token                    int64
	HolderCount, WaiterCount int
	// Holders has at most 100.
	Holders []Holder
	// Queue has the waiters in order, at most 100.
	Queue []Waiter
}

// Holder is an owner that holds the lock.
type Holder struct {
	Owner, Mode string
	Holds       int
	Lease       time.Duration // negative if it has no end
	Session     int64         // the id of the connection that the hold is tied to, or 0
}

// Waiter is an owner in the queue of the lock.
type Waiter struct {
	Owner, Mode, Via string
	Age              time.Duration
	WaitLeft         time.Duration // negative: waits for ever
	ClientID         int64
}

// fields is a flat list of names and values, as RESP2 has maps. What is missing reads as nothing.
type fields map[string]any

func readFields(reply any) fields {
	list, _ := reply.([]any)
	read := fields{}
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		read[name] = list[i+1]
	}
	return read
}

// field is the zero value where the server says nothing, or something else.
func field[T any](from fields, name string) T {
	value, _ := from[name].(T)
	return value
}

func count(from fields, name string) int { return int(field[int64](from, name)) }

func lasts(from fields, name string) time.Duration {
	return time.Duration(field[int64](from, name)) * time.Millisecond
}

func readInfo(reply any) (Info, error) {
	read := readFields(reply)
	info := Info{
		Kind: field[string](read, "kind"), Mode: field[string](read, "mode"), Lease: lasts(read, "lease-ms"),
		Token: field[int64](read, "token"), HolderCount: count(read, "holder-count"), WaiterCount: count(read, "waiter-count"),
	}
	if info.Kind == "" {
		// It would read as a free lock.
		return Info{}, unexpected("RLOCK.INFO", reply)
	}
	if info.Lease == -2*time.Millisecond {
		info.Lease = 0
	}
	for _, each := range field[[]any](read, "holders") {
		holder := readFields(each)
		info.Holders = append(info.Holders, Holder{
			Owner: field[string](holder, "owner"), Mode: field[string](holder, "mode"), Holds: count(holder, "holds"),
			Lease: lasts(holder, "lease-ms"), Session: field[int64](holder, "session"),
		})
	}
	for _, each := range field[[]any](read, "queue") {
		waiter := readFields(each)
		info.Queue = append(info.Queue, Waiter{
			Owner: field[string](waiter, "owner"), Mode: field[string](waiter, "mode"), Via: field[string](waiter, "via"),
			Age: lasts(waiter, "age-ms"), WaitLeft: lasts(waiter, "wait-left-ms"), ClientID: field[int64](waiter, "client-id"),
		})
	}
	return info, nil
}
