package rlock

import (
	"fmt"
	"slices"
	"strings"
)

// serverError is the server's own error reply. Its first word is the code.
type serverError string

func (e serverError) Error() string { return string(e) }

func (e serverError) code() string { return strings.SplitN(string(e), " ", 2)[0] }

const permissions = "+@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, +subscribe (in a cluster +ssubscribe) &rlock:grants:*"

// refusals are the server's errors by their codes. The formats have the text and the lock's name.
var refusals = []struct {
	codes  string
	kind   answerKind
	err    error
	format string
}{
	{"NOPERM NOAUTH WRONGPASS", failedFinal, ErrPermission,
		"the server %[3]s denies access: %[1]s; check the user's password, and grant it " + permissions},
	{"QUEUEFULL", failedFinal, ErrQueueFull,
		"the queue of the lock %[2]s is full on the server %[3]s (%[1]s); try again later, or raise the server's limit"},
	{"WRONGTYPE WRONGLOCK", failedGone, ErrNotALock, "the key %[2]s on the server %[3]s holds something else (%[1]s); choose another name"},
	{"LOADING BUSY MASTERDOWN CLUSTERDOWN TRYAGAIN UNBLOCKED UNTIED", failedPassing, ErrRefused, refused},
}

const (
	refused = "the server %[3]s refused: %[1]s; fix the cause, then try again"
	without = "the server %[3]s has no rlock module (%[1]s); add `loadmodule /path/to/librlock.so` to its configuration"
)

// denies is whether the user of the connection may not run a command.
func denies(reply any) bool {
	refused, _ := reply.(serverError)
	return refused.code() == "NOPERM"
}

// ofChannel: the slot of the channel has left the node.
func (e serverError) ofChannel() bool {
	return strings.Contains(string(e), "does not serve the channel's slot")
}

// refusal is what the server's error means.
func (e serverError) refusal(lock, server string) answer {
	kind, err, format := failedFinal, ErrRefused, refused
	text, code := string(e), e.code()
	for _, each := range refusals {
		if slices.Contains(strings.Fields(each.codes), code) {
			kind, err, format = each.kind, each.err, each.format
		}
	}
	switch {
	case strings.HasPrefix(strings.ToLower(text), "err unknown command"):
		err, format = ErrModuleMissing, without
	case strings.Contains(text, "rlock.accept is no"):
		kind = failedDraining
	case e.ofChannel():
		kind = failedPassing
	}
	return answer{kind: kind, err: &Error{kind: err, Lock: lock, cause: e, text: fmt.Sprintf(format, shown(text), shown(lock), shown(server))}}
}
