package rlock

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// line is one of a story: clients/conformance/machine/README.md.
type line struct {
	Story string
	Plan  *struct {
		Lease, Response, Grace float64
		AtLeast                float64 `json:"at_least"`
		MaxHold                float64 `json:"max_hold"`
		Wait                   *float64
		Renew                  *bool
		Fenced                 bool
		ConfirmFirst           bool `json:"confirm_first"`
	}
	At          float64
	In          string
	N           int
	Sent        float64
	Value       any
	Error       string
	HolderLease *int64 `json:"holder_lease"`
	Word        string
	Token       int64
	Lease       float64
	Current     *bool
	Out         []map[string]any
	State       string
}

var phaseNames = strings.Fields("new asking queued confirming held releasing lost cancelling ended")

func ms(number float64) time.Duration { return time.Duration(number * float64(time.Millisecond)) }

var failures = map[string]answerKind{
	"final": failedFinal, "passing": failedPassing, "draining": failedDraining, "gone": failedGone, "unanswered": failedUnanswered,
}

func planOf(first line) plan {
	p := plan{lease: ms(first.Plan.Lease), wait: forever, renew: true, fenced: first.Plan.Fenced, response: 5 * time.Second}
	if first.Plan.Wait != nil {
		p.wait = ms(*first.Plan.Wait)
	}
	if first.Plan.Renew != nil {
		p.renew = *first.Plan.Renew
	}
	if first.Plan.Response != 0 {
		p.response = ms(first.Plan.Response)
	}
	p.grace, p.confirmFirst = ms(first.Plan.Grace), first.Plan.ConfirmFirst
	p.atLeast, p.maxHold = ms(first.Plan.AtLeast), ms(first.Plan.MaxHold)
	return p
}

// replyOf is what a client reads: whole numbers, and not those of JSON.
func replyOf(value any) any {
	switch value := value.(type) {
	case float64:
		return int64(value)
	case []any:
		list := []any{}
		for _, item := range value {
			list = append(list, replyOf(item))
		}
		return list
	}
	return value
}

func (l line) input(m *machine, sends map[int]string) func() {
	switch l.In {
	case "start":
		return m.start
	case "adopt":
		return m.adopt
	case "detach":
		return m.detach
	case "reply":
		told := answer{kind: failures[l.Error], err: errors.New(l.Error)}
		if l.Error == "" {
			lease := longestLook
			if l.HolderLease != nil {
				lease = readLease(*l.HolderLease)
			}
			told = readAnswer(sends[l.N], replyOf(l.Value), lease)
		}
		return func() { m.reply(l.N, ms(l.Sent), told) }
	case "message":
		return func() { m.message(l.Word, l.Token, ms(l.Lease), l.Current == nil || *l.Current) }
	case "alive":
		return func() { m.alive(ms(l.Sent)) }
	case "down":
		return m.linkDown
	case "up":
		return m.linkUp
	case "tick":
		return m.tick
	case "cancel":
		return func() { m.cancel(errors.New("cancelled")) }
	case "release":
		return m.release
	case "close":
		return func() { m.lose(WhyClosed) }
	}
	panic(l.In)
}

// shownOutput is an output as the stories write it.
func shownOutput(o output) map[string]any {
	switch o.kind {
	case outSend:
		sent := map[string]any{"send": o.command, "n": float64(o.number)}
		if o.command == cmdEnqueue {
			sent["wait"] = float64(o.wait)
		}
		if o.look {
			sent["look"] = true
		}
		if o.lease != 0 {
			sent["lease"] = float64(o.lease)
		}
		if o.command == cmdKeep {
			sent["send"], sent["session"] = cmdRenew, false
		}
		return sent
	case outHeld:
		return map[string]any{"guard": float64(o.token)}
	case outNotAdopted:
		return map[string]any{"refused": "lost"}
	case outTimedOut, outDenied, outRefused:
		return map[string]any{"refused": string(o.kind)}
	case outLost:
		return map[string]any{"lost": string(o.why)}
	case outReleased, outReleaseLost, outReleaseUnknown, outReleaseRefused:
		return map[string]any{"released": strings.TrimPrefix(string(o.kind), "released ")}
	}
	return map[string]any{string(o.kind): true}
}

func TestStoriesOfTheMachine(t *testing.T) {
	var files []string
	for _, folder := range []string{"", "one_trip/", "holds/"} {
		some, err := filepath.Glob("../conformance/machine/" + folder + "*.jsonl")
		if err != nil || len(some) < 15 {
			t.Fatal("no stories", folder, len(some), err)
		}
		files = append(files, some...)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { tell(t, file) })
	}
}

func tell(t *testing.T, file string) {
	open, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	var m *machine
	timer, sends := forever, map[int]string{}
	for lines := bufio.NewScanner(open); lines.Scan(); {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if m == nil {
			m = newMachine(planOf(l))
			continue
		}
		out := []map[string]any{}
		for _, what := range m.take(ms(l.At), l.input(m, sends)) {
			out = append(out, shownOutput(what))
			sends[what.number] = what.command
		}
		if next := min(m.timer(), forever); next != timer {
			timer = next
			shown := map[string]any{"timer": nil}
			if next < forever {
				shown["timer"] = float64(next) / float64(time.Millisecond)
			}
			out = append(out, shown)
		}
		if phaseNames[m.phase] != l.State || !reflect.DeepEqual(out, l.Out) {
			t.Fatalf("%s\n%v %s, not %v %s", lines.Text(), out, phaseNames[m.phase], l.Out, l.State)
		}
	}
}
