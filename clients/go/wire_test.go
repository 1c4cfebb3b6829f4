package rlock

import (
	"bufio"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestReplies(t *testing.T) {
	for text, wanted := range map[string]any{
		"+OK\r\n": "OK", "-ERR no\r\n": serverError("ERR no"), ":-7\r\n": int64(-7), "$-1\r\n": nil, "*-1\r\n": nil, "$0\r\n\r\n": "",
		"*3\r\n:1\r\n$2\r\n\r\n\r\n*1\r\n-E x\r\n": []any{int64(1), "\r\n", []any{serverError("E x")}}, "*0\r\n": []any{}, "_\r\n": nil, ">2\r\n+a\r\n:1\r\n": push{"a", int64(1)}, "%1\r\n+a\r\n%0\r\n": []any{"a", []any{}},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(text)), 0)
		check(t, err == nil && reflect.DeepEqual(got, wanted), text, got, err)
	}
	for _, text := range []string{
		"", "\r\n", "+OK\n", "+OK", "?\r\n", ":x\r\n", "$-2\r\n", "*-2\r\n", "$5\r\nabc", "$1\r\nabc", "$99999999999999999999\r\n",
		"$16777217\r\n", "*99999999999\r\n:1\r\n", "%99999999999\r\n", "%9223372036854775807\r\n:1\r\n", strings.Repeat("*1\r\n", 20) + ":1\r\n", "+" + strings.Repeat("x", longestLine) + "\r\n",
	} {
		got, err := readReply(bufio.NewReaderSize(strings.NewReader(text), longestLine), 0)
		check(t, err != nil, text, got)
	}
}

func FuzzReplies(f *testing.F) {
	f.Add("*2\r\n:1\r\n$1\r\na\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		reply, err := readReply(bufio.NewReader(strings.NewReader(text)), 0)
		if err == nil {
			readAnswer(cmdEnqueue, reply, 0)
			_, _ = readInfo(reply)
		}
		readMessage(text)
		_ = serverError(text).refusal(text, text).err.Error()
	})
}

func TestMessages(t *testing.T) {
	for text, wanted := range map[string]message{
		"granted 0 me:1 a%20b 1 30000 7":        {"granted", claim{"a b", "me:1", ""}, 7, 30 * time.Second},
		"granted 0 me:1 a 1 30000 7 read more":  {"granted", claim{"a", "me:1", modeRead}, 7, 30 * time.Second},
		"timeout 0 me:1 %00%FF write":           {"timeout", claim{"\x00\xff", "me:1", modeWrite}, 0, 0},
		"dropped 0 me:1 a drained permit":       {"dropped", claim{"a", "me:1", modePermit}, 0, 0},
		"granted 0 me:1 a 1 9999999999999999 9": {"granted", claim{"a", "me:1", ""}, 9, longestTime},
	} {
		got, known := readMessage(text)
		check(t, known && got == wanted, text, got)
	}
	for _, text := range []string{"", "granted", "granted 0 me", "other 0 me a", "granted 0 %zz a 1 1 1"} {
		_, known := readMessage(text)
		check(t, !known, text)
	}
}

func TestSlots(t *testing.T) {
	for key, slot := range map[string]int{"123456789": 12739, "{123456789}.x": 12739, "a{}{123456789}": slotOf("a{}{123456789}"), "": 0, "foo": 12182} {
		check(t, slotOf(key) == slot, key, slotOf(key))
	}
}

func TestRefusals(t *testing.T) {
	for text, wanted := range map[string]struct {
		kind answerKind
		err  error
	}{
		"ERR unknown command 'RLOCK.ACQUIRE'":      {failedFinal, ErrModuleMissing},
		"NOPERM no":                                {failedFinal, ErrPermission},
		"QUEUEFULL too many":                       {failedFinal, ErrQueueFull},
		"WRONGTYPE a \x00":                         {failedGone, ErrNotALock},
		"LOADING …":                                {failedPassing, ErrRefused},
		"READONLY You can't":                       {failedFinal, ErrRefused},
		"ERR this server … rlock.accept is no …":   {failedDraining, ErrRefused},
		"OOM command not allowed when used memory": {failedFinal, ErrRefused},
	} {
		got := serverError(text).refusal("the %s lock", "%s")
		wantError(t, got.err, wanted.err, serverError(text))
		check(t, got.kind == wanted.kind && !strings.Contains(got.err.Error(), "%!") && !strings.Contains(got.err.Error(), "\x00"), got)
	}
}

func TestTheClockGoesOn(t *testing.T) {
	before := now()
	time.Sleep(20 * time.Millisecond)
	check(t, now()-before >= 20*time.Millisecond && now()-before < 5*time.Second, now()-before)
}
